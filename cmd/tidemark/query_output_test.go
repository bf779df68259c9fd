package main

import (
	"os"
	"testing"

	"github.com/tidemark-log/tidemark/internal/render"
)

// TestChooseColors: SYSTEMD_COLORS decides if it is a word that systemd knows,
// then NO_COLOR if it is there, then the terminal.
func TestChooseColors(t *testing.T) {
	tests := []struct {
		name                        string
		tty                         bool
		systemd, no, term, truecolr string
		want                        render.Colors
	}{
		{"no terminal", false, "", "", "xterm-256color", "", render.None},
		{"256 colours", true, "", "", "xterm-256color", "", render.Colors256},
		{"any terminal", true, "", "", "xterm", "", render.Colors256},
		{"true colour", true, "", "", "xterm", "truecolor", render.Colors256},
		{"dumb", true, "", "", "dumb", "", render.None},
		{"NO_COLOR", true, "", "1", "xterm-256color", "", render.None},
		{"NO_COLOR is any word", true, "", "0", "xterm-256color", "", render.None},
		{"SYSTEMD_COLORS off", true, "no", "", "xterm-256color", "", render.None},
		{"SYSTEMD_COLORS on", false, "1", "1", "dumb", "", render.Colors256},
		{"SYSTEMD_COLORS 16", false, "16", "1", "xterm-256color", "", render.Colors16},
		{"SYSTEMD_COLORS 256", false, "256", "1", "xterm", "", render.Colors256},
		{"SYSTEMD_COLORS nonsense", true, "loud", "1", "xterm", "", render.None},
	}
	for _, tt := range tests {
		t.Setenv("SYSTEMD_COLORS", tt.systemd)
		t.Setenv("NO_COLOR", tt.no)
		if tt.no == "" { // Setenv puts back what was there
			if err := os.Unsetenv("NO_COLOR"); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("TERM", tt.term)
		t.Setenv("COLORTERM", tt.truecolr)
		if got := chooseColors(tt.tty); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

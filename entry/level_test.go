package entry

import (
	"strconv"
	"testing"
)

func TestParseLevel(t *testing.T) {
	names := LevelNames()
	if names[0] != "emerg" || names[3] != "err" || names[7] != "debug" {
		t.Errorf("LevelNames() = %q", names)
	}
	for want, name := range names {
		for _, s := range []string{name, strconv.Itoa(want)} {
			if got, ok := ParseLevel(s); got != want || !ok {
				t.Errorf("ParseLevel(%q) = %d, %t; want %d", s, got, ok, want)
			}
		}
	}
	for _, s := range []string{"", "8", "-1", "07", "0x1", " 1", "ERR", "error", "err ", "/", ":"} {
		if got, ok := ParseLevel(s); ok {
			t.Errorf("ParseLevel(%q) = %d", s, got)
		}
	}
}

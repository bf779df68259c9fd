package render

import (
	"testing"

	"github.com/mattn/go-runewidth"
)

// The table is what go-runewidth says of every character.
func TestColumns(t *testing.T) {
	var c runewidth.Condition
	for r := rune(0); r <= 0x10ffff; r++ {
		want := 1
		if c.RuneWidth(r) == 2 {
			want = 2
		}
		if got := columns(r); got != want {
			t.Fatalf("%#x takes %d columns, want %d", r, got, want)
		}
	}
}

package journal

import (
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

func TestInStep(t *testing.T) {
	const at = 1_700_000_000_000_000
	for _, tt := range []struct {
		name   string
		times  []uint64
		latest uint64
		n      int
		now    uint64
	}{
		{"nothing", nil, at, 0, at},
		{"the first of a file", []uint64{at}, 0, 1, at},
		{"on and a little back", []uint64{at + 5, at, at + 7}, at, 3, at + 7},
		{"back by the step", []uint64{at - MaxClockStep}, at, 1, at},
		{"back by more", []uint64{at - MaxClockStep - 1}, at, 0, at},
		{"back by more than from the latest of these", []uint64{at + 1, at - MaxClockStep}, at, 1, at + 1},
		{"little by little", []uint64{at - MaxClockStep/2, at - MaxClockStep, at - MaxClockStep - 1}, at, 2, at},
	} {
		var entries []entry.Entry
		for _, x := range tt.times {
			entries = append(entries, entry.Entry{Realtime: x})
		}
		if n, now := InStep(entries, tt.latest); n != tt.n || now != tt.now {
			t.Errorf("%s: %d, %d, want %d, %d", tt.name, n, now, tt.n, tt.now)
		}
	}
}

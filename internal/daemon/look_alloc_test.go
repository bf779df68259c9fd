//go:build !race

package daemon

import (
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
)

// TestLookAllocatesNothing: what a status is made of is used again, so that one that is
// asked for in a flood makes no garbage. Not under the race detector, where sync.Pool
// drops things on purpose.
func TestLookAllocatesNothing(t *testing.T) {
	r := start(t, newPlace(t))
	post(t, url(r.lines), "synced", `{"message":"one"}`)
	var st control.Status
	if n := testing.AllocsPerRun(1000, func() { r.daemon.Look(&st) }); n > 0 {
		t.Errorf("%.0f allocations a status", n)
	}
	if len(st.Files) == 0 || len(st.Counts) == 0 || len(st.Histograms) == 0 {
		t.Errorf("%+v", st)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

package journal

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// TestStatsWaitForNothing: while an append or a write is at work, which hold the
// lock, Stats tells what was true before.
func TestStatsWaitForNothing(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "f.journal"), Options{Clock: func() (uint64, uint64) { return 7, 8 }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	appendOne := func() {
		if _, _, err := w.TryAppend([]entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=m")}}}); err != nil {
			t.Fatal(err)
		}
		if err := w.SettleIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	appendOne()
	before := w.Stats()
	if before.Entries != 1 || before.Unsynced != 1 || before.TailRealtime != 7 || before.Path == "" || before.MaxSize != DefaultMaxSize {
		t.Errorf("one entry: %+v", before)
	}
	w.mu.Lock()
	got := w.Stats()
	w.mu.Unlock()
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("while the lock is held (-want +got):\n%s", diff)
	}
	appendOne()
	w.mu.Lock()
	got = w.Stats()
	w.mu.Unlock()
	if got.Entries != 2 || got.Unwritten != 0 || got.TailSeqnum != 2 || got.Bytes <= before.Bytes {
		t.Errorf("after a second entry: %+v", got)
	}
}

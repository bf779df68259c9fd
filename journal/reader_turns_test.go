package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// turnReader calls after behind each look at the start of a file.
type turnReader struct {
	*os.File
	after *func()
}

func (r turnReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.File.ReadAt(p, off)
	if off == 0 && *r.after != nil {
		call := *r.after
		*r.after = nil
		call()
	}
	return n, err
}

// TestRefreshSeesTheFileBefore rotates while a follower looks at the files: the
// last entry of the old file and the first of the next, which it knows, come
// between its looks at the two. It shows them in their order.
func TestRefreshSeesTheFileBefore(t *testing.T) {
	for _, names := range [][]string{{"system.journal", "next.journal"}, {"next.journal", "system.journal"}} {
		t.Run(names[0], func(t *testing.T) { testRefreshSeesTheFileBefore(t, names) })
	}
}

func testRefreshSeesTheFileBefore(t *testing.T, names []string) {
	dir, clock := t.TempDir(), newClock()
	o := Options{Clock: clock.now, Order: NewOrder(), BootID: entry.ID{1}, MachineID: entry.ID{2}}
	old := create(t, filepath.Join(dir, "system.journal"), o)
	next := create(t, filepath.Join(dir, "next.journal"), o)
	appendTo(t, old, "MESSAGE=one")
	readerMust(t, old.Settle(t.Context()))
	var after func()
	j := ReadOptions{}.New()
	for _, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		readerMust(t, err)
		defer f.Close()
		jf, err := NewFile(turnReader{f, &after}, func() int64 {
			st, err := f.Stat()
			readerMust(t, err)
			return st.Size()
		}, name)
		readerMust(t, err)
		j.AddFile(jf)
	}
	wantMessages(t, "before", messages(t, j), "one")
	after = func() {
		appendTo(t, old, "MESSAGE=two")
		next.Succeed(old)
		appendTo(t, next, "MESSAGE=three")
		readerMust(t, next.Settle(t.Context()))
	}
	readerMust(t, j.Refresh())
	got := messages(t, j)
	if after != nil {
		t.Fatal("the follower has not looked")
	}
	readerMust(t, j.Refresh())
	wantMessages(t, "after", append(got, messages(t, j)...), "two", "three")
	readerMust(t, j.Close())
	readerMust(t, next.Close())
	readerMust(t, old.Close())
}

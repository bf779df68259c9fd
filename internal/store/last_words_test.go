package store

import (
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestLastWords tells something while the disk is full. There is space again when
// the store is closed, but nothing has been written since: what was to be told is
// stored all the same.
func TestLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		appendNumbered(t, s, 0, 1)
		fsys.Set(func(op, _ string) error {
			if op == "write" {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := s.TryAppend([]entry.Entry{line(0, "message 1")}); err != nil {
			t.Fatal(err)
		}
		for !s.Status().Full {
			synctest.Wait()
		}
		s.Event(6, "", "the last words")
		fsys.Set(nil)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if own := storedIn(t, dir, true, "system"); !slices.Contains(own, "the last words") {
			t.Errorf("the store's own entries are %q", own)
		}
		verifyAll(t, dir)
	})
}

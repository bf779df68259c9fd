package store

import (
	"errors"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// TestCloseTellsOfRotatedFiles closes a store whose file that was rotated out
// cannot be written to its end, while the current one can: what was accepted is
// not all there, and Close says so.
func TestCloseTellsOfRotatedFiles(t *testing.T) {
	fsys := &hookFS{}
	s := open(t, testConfig(t.TempDir(), fsys))
	next := nextFile(t, s)
	appendNumbered(t, s, 0, 1)
	if err := s.Rotate(t.Context()); err != nil { // to next
		t.Fatal(err)
	}
	nextFile(t, s)
	fsys.set(func(op, name string) error {
		if op == "write" && name == next {
			return syscall.EIO
		}
		return nil
	})
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "accepted")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v, want EIO", err)
	}
}

// nextFile waits for the prepared file and returns its name.
func nextFile(t *testing.T, s *Store) (path string) {
	t.Helper()
	if err := s.await(t.Context(), func() error {
		f := s.spare.Load()
		if f == nil {
			return errNoFile
		}
		path = f.w.Path()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

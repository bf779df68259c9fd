package store

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestCloseTellsOfRotatedFiles closes a store whose file that was rotated out
// cannot be written to its end, while the current one can: what was accepted is
// not all there, and Close says so.
func TestCloseTellsOfRotatedFiles(t *testing.T) {
	fsys := &hookfs.FS{}
	var created []string // a file keeps the name that it was created with here
	fsys.Set(func(op, name string) error {
		if op == "create" && IsPrepared(filepath.Base(name)) {
			created = append(created, name)
		}
		return nil
	})
	s := open(t, testConfig(t.TempDir(), fsys))
	nextFile(t, s)
	next := created[1]
	appendNumbered(t, s, 0, 1)
	if err := s.Rotate(t.Context()); err != nil { // to next
		t.Fatal(err)
	}
	nextFile(t, s)
	fsys.Set(func(op, name string) error {
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

// nextFile waits for the prepared file.
func nextFile(t *testing.T, s *Store) {
	t.Helper()
	if err := s.await(t.Context(), func() error {
		if s.spares.len() == 0 {
			return errNoFile
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

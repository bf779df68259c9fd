package store

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestRotateTellsOfAFileThatCannotBeOpened: each time, with the others rotated; when
// it can be opened again, it is rotated too.
func TestRotateTellsOfAFileThatCannotBeOpened(t *testing.T) {
	disk := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), disk)
	cfg.Split = true
	s, sl, _ := appended(t, cfg, 1000)
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.closeSlot(sl)
	disk.Set(func(op, name string) error {
		if op == "open" && strings.HasSuffix(name, "user-1000.journal") {
			return syscall.EIO
		}
		return nil
	})
	archives := func(prefix string) (n int) {
		for _, name := range names(t, s.dir) {
			if strings.HasPrefix(name, prefix+"@") {
				n++
			}
		}
		return n
	}
	for i := range 3 {
		if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a message")}); err != nil {
			t.Fatal(err)
		}
		err := s.Rotate(t.Context())
		if !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), "rotate user-1000: open its file: ") {
			t.Fatalf("Rotate = %v, want EIO", err)
		}
		if system, user := archives("system"), archives("user-1000"); system != i+1 || user != 0 {
			t.Errorf("after %d rotations: %d archives of the system's file, %d of the user's", i+1, system, user)
		}
	}
	disk.Set(nil)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := archives("user-1000"); n != 1 {
		t.Errorf("%d archives of the user's file, want 1", n)
	}
	if !slices.Equal(storedIn(t, cfg.Dir, false, "user-1000@"), []string{"a message"}) {
		t.Error("the user's message is gone")
	}
}

package journal

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
)

// xattrFS keeps the attributes of its one file in memory, up to room of them.
type xattrFS struct {
	vfs.OS
	room int
	set  map[string]bool
}

type xattrFile struct {
	vfs.File
	fs *xattrFS
}

func (x *xattrFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := x.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &xattrFile{f, x}, nil
}

func (f *xattrFile) SetXattr(name string, _ []byte) error {
	if len(f.fs.set) >= f.fs.room {
		return syscall.ENOSPC
	}
	f.fs.set[name] = true
	return nil
}

func (f *xattrFile) HasXattr(name string) bool { return f.fs.set[name] }

// TestOwnFileIsNotForeign creates files on a disk that has no space for
// attributes, or not for all of them: no such file may be taken for journald's,
// which is not repaired.
func TestOwnFileIsNotForeign(t *testing.T) {
	for room := range 3 {
		t.Run(fmt.Sprintf("space for %d", room), func(t *testing.T) {
			x := &xattrFS{room: room, set: make(map[string]bool)}
			path := filepath.Join(t.TempDir(), "a.journal")
			w, err := Create(path, Options{FS: x, MachineID: entry.ID{1}, BootID: entry.ID{2}, MaxSize: MinMaxSize})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			f, err := x.OpenFile(path, os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if len(x.set) != room {
				t.Errorf("%d attributes were set, want %d", len(x.set), room)
			}
			if Foreign(f) {
				t.Error("a file of this package is foreign")
			}
		})
	}
}

// TestForeign tells journald's files, with its attribute alone, from those
// without any.
func TestForeign(t *testing.T) {
	x := &xattrFS{set: map[string]bool{xattrCreated: true}}
	if !Foreign(&xattrFile{fs: x}) {
		t.Error("journald's file is not foreign")
	}
	x.set = nil
	if Foreign(&xattrFile{fs: x}) {
		t.Error("a file without attributes is foreign")
	}
}

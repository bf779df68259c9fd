package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
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

// Flags that this package does not know: of the compatible ones a reader takes no
// notice, and a writer refuses the file; the others nobody reads past.
func TestUnknownFlags(t *testing.T) {
	good := sampleBytes(t, "r-11")
	path := filepath.Join(t.TempDir(), "a.journal")
	readerMust(t, os.WriteFile(path, good, 0o600))
	want := export(t, openSample(t, ReadOptions{}, path), down)
	for _, c := range []struct {
		name string
		at   int
		flag byte
		read error
	}{
		{"sealed continuously", object.HdrCompatible, object.CompatibleSealedContinuous, nil},
		{"compatible 8", object.HdrCompatible, 8, nil},
		{"compatible 2^31", object.HdrCompatible + 3, 0x80, nil},
		{"incompatible 32", object.HdrIncompatible, 32, ErrUnsupported},
		{"incompatible 2^31", object.HdrIncompatible + 3, 0x80, ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(good)
			b[c.at] |= c.flag
			readerMust(t, os.WriteFile(path, b, 0o600))
			f, err := OpenFile(path)
			if !errors.Is(err, c.read) {
				t.Errorf("OpenFile: %v, want %v", err, c.read)
			}
			if err == nil {
				readerMust(t, f.Close())
				j := openSample(t, ReadOptions{}, path)
				if got := export(t, j, down); got != want || len(j.Warnings()) > 0 {
					t.Errorf("%d bytes read, want %d: %v", len(got), len(want), j.Warnings())
				}
			}
			if w, err := OpenWriter(path, Options{}); !errors.Is(err, ErrFlags) {
				t.Errorf("OpenWriter: %v, want %v", err, ErrFlags)
				_ = w.Close()
			}
			if after := fileBytes(t, path); !bytes.Equal(after, b) {
				t.Error("the file was changed")
			}
		})
	}
}

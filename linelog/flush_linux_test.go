package linelog

import (
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// flushing is a file system that tells of write-backs, and holds them up.
type flushing struct {
	vfs.OS
	begun chan string   // of each its path
	gate  chan struct{} // open: they go on

	mu   sync.Mutex
	open int // descriptors of write-backs
}

func (f *flushing) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &flushingFile{File: file, fs: f}, nil
}

func (f *flushing) count(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open += n
	return f.open
}

type flushingFile struct {
	vfs.File
	fs   *flushing
	more bool // one that was opened again
}

// Again implements what package linelog looks for.
func (f *flushingFile) Again(flag int) (vfs.File, error) {
	file, err := f.File.(interface {
		Again(flag int) (vfs.File, error)
	}).Again(flag)
	if err != nil {
		return nil, err
	}
	f.fs.count(1)
	return &flushingFile{File: file, fs: f.fs, more: true}, nil
}

func (f *flushingFile) BeginWriteback() error {
	f.fs.begun <- f.Name()
	<-f.fs.gate
	return f.File.(writeback).BeginWriteback()
}

func (f *flushingFile) Close() error {
	if f.more {
		f.fs.count(-1)
	}
	return f.File.Close()
}

// What is rotated is on its way to the disk before anybody waits for it, each file once;
// neither lines nor the sync wait for that, and no descriptor is left.
func TestRotateBeginsWriteback(t *testing.T) {
	f := &flushing{begun: make(chan string, 10), gate: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{FS: f, Rotate: Rotation{Size: 10, Compression: Plain}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		t.Helper()
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		if err := w.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// Without a disk that takes its time the file may be synced before its turn comes.
	begun := false
	for i := 0; i < 1000 && !begun; i++ {
		put("line one\n")
		select {
		case <-f.begun:
			begun = true
		case <-time.After(time.Millisecond):
		}
	}
	if !begun {
		t.Fatal("no write-back was begun")
	}
	put("line two\n") // the write-back is held up
	put("line 3\n")
	close(f.gate)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if n := f.count(0); n != 0 {
		t.Errorf("descriptors that are left: %d", n)
	}
}

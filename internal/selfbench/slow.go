package selfbench

import (
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// SlowFS is a file system whose syncs, and writes, begin late: a slow disk, for
// those who wait for it. All methods may be called concurrently.
type SlowFS struct {
	vfs.FS
	// Sync and Write are how much longer each sync (also of a directory) and each
	// write or change of a file's size takes.
	Sync, Write time.Duration
	// Done ends all delays when it is closed. nil: they take their time.
	Done <-chan struct{}

	syncs   atomic.Uint64
	hurries atomic.Bool
}

// Hurry has nothing be late until it is called with false, so that files can be made
// and closed that are not part of a measurement.
func (s *SlowFS) Hurry(yes bool) { s.hurries.Store(yes) }

// Syncs is how many syncs of files have begun.
func (s *SlowFS) Syncs() uint64 { return s.syncs.Load() }

// OpenFile opens a file that is as slow.
func (s *SlowFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &slowFile{File: f, fs: s}, nil
}

// SyncDir syncs a directory, late.
func (s *SlowFS) SyncDir(name string) error {
	s.pause(s.Sync)
	return s.FS.SyncDir(name)
}

type slowFile struct {
	vfs.File
	fs *SlowFS
}

// Fd is the descriptor, to be passed to another process.
func (f *slowFile) Fd() uintptr {
	if file, ok := f.File.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}

func (f *slowFile) Datasync() error {
	f.fs.syncs.Add(1)
	f.fs.pause(f.fs.Sync)
	return f.File.Datasync()
}

func (f *slowFile) Sync() error {
	f.fs.syncs.Add(1)
	f.fs.pause(f.fs.Sync)
	return f.File.Sync()
}

func (f *slowFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.pause(f.fs.Write)
	return f.File.WriteAt(p, off)
}

func (f *slowFile) Truncate(size int64) error {
	f.fs.pause(f.fs.Write)
	return f.File.Truncate(size)
}

// pause takes d, as a disk would.
func (s *SlowFS) pause(d time.Duration) {
	if d <= 0 || s.hurries.Load() {
		return
	}
	select {
	case <-time.After(d):
	case <-s.Done:
	}
}

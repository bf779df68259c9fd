package selfbench

import (
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// The model of a network file system, in parts of a COMMIT: of NFS 18, 1 and 0.5 ms.
const (
	commitRPCs  = 36 // open, lock and unlock are one each
	commitBacks = 18 // the write-back of what was written, at unlock and close
)

// remoteFS is a file system of another host, as far as appending goes: opening and
// locking are a round trip each, what was written goes there when a lock is released, and is
// committed to the disk then, or when the file is closed, and is not. Sync is how long
// a COMMIT takes; with 0 it is the file system of this host.
type remoteFS struct{ *SlowFS }

// OpenFile opens a file that is as far away.
func (s *remoteFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	s.pause(s.rpc())
	f, err := s.SlowFS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &remoteFile{File: f, fs: s}, nil
}

func (s *remoteFS) rpc() time.Duration { return s.Sync / commitRPCs }

type remoteFile struct {
	vfs.File
	fs    *remoteFS
	dirty atomic.Bool // written to, and not written back
}

// back writes back.
func (f *remoteFile) back() bool {
	dirty := f.dirty.Swap(false)
	if dirty {
		f.fs.pause(f.fs.Sync / commitBacks)
	}
	return dirty
}

func (f *remoteFile) WriteAt(p []byte, off int64) (int, error) {
	f.dirty.Store(true)
	return f.File.WriteAt(p, off)
}

func (f *remoteFile) Append(p []byte) (n int, end int64, err error) {
	f.dirty.Store(true)
	return f.File.Append(p)
}

func (f *remoteFile) Lock(k vfs.LockKind, wait bool) error {
	f.fs.pause(f.fs.rpc())
	return f.File.Lock(k, wait)
}

func (f *remoteFile) Unlock(k vfs.LockKind) error {
	if f.back() {
		f.fs.pause(f.fs.Sync)
	}
	f.fs.pause(f.fs.rpc())
	return f.File.Unlock(k)
}

func (f *remoteFile) Close() error {
	f.back()
	return f.File.Close()
}

// Fd is the descriptor, to be passed to another process.
func (f *remoteFile) Fd() uintptr {
	if file, ok := f.File.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}

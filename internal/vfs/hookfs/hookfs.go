// Package hookfs is the machine's file system for tests that look at its calls,
// hold them or let them fail.
package hookfs

import (
	"io/fs"
	"os"
	"sync"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// FS is the machine's file system. The zero value is ready.
type FS struct {
	vfs.OS
	mu   sync.Mutex
	hook func(op, name string) error
}

// Set has hook asked before each call that opens or changes something; its error
// is the call's, which is not made then. op is create, open, rename, syncdir,
// write, append, allocate, truncate, setxattr, datasync or sync; name is that with which the
// file was opened, of a rename the one that it had. Nil: every call is made. It may
// be called concurrently, and so is hook.
func (h *FS) Set(hook func(op, name string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

// IsSync tells whether a call waits for the disk: datasync, sync or syncdir.
func IsSync(op string) bool { return op == "datasync" || op == "sync" || op == "syncdir" }

// HoldSyncs sets a hook that holds every sync until release is called, once. Later
// ones are not held any more.
func (h *FS) HoldSyncs() (release func()) {
	held := make(chan struct{})
	h.Set(func(op, _ string) error {
		if IsSync(op) {
			<-held
		}
		return nil
	})
	return func() { close(held) }
}

func (h *FS) ask(op, name string) error {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, name)
}

// OpenFile asks for create with os.O_CREATE, else for open.
func (h *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := h.ask("create", name); err != nil {
			return nil, err
		}
	} else if err := h.ask("open", name); err != nil {
		return nil, err
	}
	f, err := h.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{f, h}, nil
}

// Rename asks for rename.
func (h *FS) Rename(from, to string) error {
	if err := h.ask("rename", from); err != nil {
		return err
	}
	return h.OS.Rename(from, to)
}

// RenameNew asks for rename.
func (h *FS) RenameNew(from, to string) error {
	if err := h.ask("rename", from); err != nil {
		return err
	}
	return h.OS.RenameNew(from, to)
}

// SyncDir asks for syncdir.
func (h *FS) SyncDir(name string) error {
	if err := h.ask("syncdir", name); err != nil {
		return err
	}
	return h.OS.SyncDir(name)
}

type file struct {
	vfs.File
	fs *FS
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.ask("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *file) Append(p []byte) (n int, end int64, err error) {
	if err := f.fs.ask("append", f.Name()); err != nil {
		return 0, 0, err
	}
	return f.File.Append(p)
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.ask("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Allocate(off, n int64) error {
	if err := f.fs.ask("allocate", f.Name()); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

func (f *file) SetXattr(name string, value []byte) error {
	if err := f.fs.ask("setxattr", f.Name()); err != nil {
		return err
	}
	return f.File.SetXattr(name, value)
}

func (f *file) Datasync() error {
	if err := f.fs.ask("datasync", f.Name()); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *file) Sync() error {
	if err := f.fs.ask("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

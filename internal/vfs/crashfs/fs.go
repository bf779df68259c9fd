// Package crashfs is a file system in memory for tests: it fails the nth call in
// the way that is asked for, runs out of space, and makes clones of what a
// kill or a power cut would leave.
//
// Its model of a disk: a page (4096 bytes) that was written and not yet synced
// may, after a power cut, hold any of the contents it had since the last sync;
// pages are independent of each other. So is the size of a file. Creations,
// renames and removals of names since the last SyncDir survive up to any one of
// them, in order. After a failed sync the pages that were dirty count as clean,
// as on Linux: a later sync that succeeds does not cover them.
package crashfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// ErrKilled is what every call returns after the one that StopAt names.
var ErrKilled = errors.New("process was killed")

// Kind is how a call fails.
type Kind uint8

// The kinds of failure.
const (
	// NotDone: the call has no effect and returns the error.
	NotDone Kind = iota
	// DoneButFailed: the call has all of its effect and returns the error.
	DoneButFailed
	// Short: a write has a part of its effect, up to a page boundary or some
	// byte, and returns the count and io.ErrShortWrite. Others: NotDone.
	Short
)

// Op is a call that counts: every one that changes something, reads contents, or
// syncs.
type Op struct {
	Name string // "open", "write", "read", "allocate", "truncate", "sync", "rename", "remove", "syncdir", "lock", "unlock"
	Path string
	Off  int64
	Len  int
}

// FS implements vfs.FS. It may be used concurrently.
type FS struct {
	mu      sync.Mutex
	rng     *rand.Rand
	names   map[string]*inode // now
	durable map[string]*inode // after a power cut, at the least
	pending []nameOp          // since the last SyncDir
	dirs    map[string]bool

	calls  int
	failAt map[int]fault
	stopAt int // the call that is the last one; 0: none
	dead   bool
	hook   func(n int, op Op) error
	rule   func(n int, op Op) (Kind, error)

	limited bool
	space   int64 // bytes that may still be allocated, if limited
	sparse  bool  // Allocate reserves nothing
	mount   vfs.Mount
}

type fault struct {
	kind Kind
	err  error
}

type nameOp struct {
	dir string
	set map[string]*inode // nil value: removed
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system. seed decides where short writes end.
func New(seed uint64) *FS {
	return &FS{
		rng:     rand.New(rand.NewPCG(seed, 0x7469646d)),
		names:   map[string]*inode{},
		durable: map[string]*inode{},
		dirs:    map[string]bool{"/": true, ".": true},
		failAt:  map[int]fault{},
	}
}

// Calls returns how many counting calls were made.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// FailAt has the nth counting call from now on (1 is the next) fail.
func (f *FS) FailAt(n int, k Kind, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt[f.calls+n] = fault{k, err}
}

// FailWhen has every counting call fail for which rule returns an error, in the
// way that it returns. n counts calls. rule is called with a lock held: it must
// not call f.
func (f *FS) FailWhen(rule func(n int, op Op) (Kind, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
}

// StopAt has the nth counting call from now on be the last: a write does a part
// of its work, ending at a page boundary as a killed pwrite does, another call
// nothing; it and all later ones return ErrKilled.
func (f *FS) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt = f.calls + n
}

// Hook has fn called before every counting call, without a lock held; n counts
// calls. An error of fn is that of the call, which then does nothing.
func (f *FS) Hook(fn func(n int, op Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// SetSpace bounds what may still be allocated, in bytes; less than 0 takes the
// bound away.
func (f *FS) SetSpace(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.space = bytes >= 0, bytes
}

// SetSparse has Allocate only set the size, as where nothing can be reserved.
func (f *FS) SetSparse(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sparse = on
}

// begin counts a call and tells how it is to fail. It returns with mu held
// unless it returns an error, which is then the call's.
func (f *FS) begin(op Op) (fault, error) {
	f.mu.Lock()
	f.calls++
	n, hook := f.calls, f.hook
	if hook != nil {
		f.mu.Unlock()
		if err := hook(n, op); err != nil {
			return fault{}, err
		}
		f.mu.Lock()
	}
	if f.dead {
		f.mu.Unlock()
		return fault{}, ErrKilled
	}
	if f.stopAt == n {
		f.dead = true
		if op.Name != "write" {
			f.mu.Unlock()
			return fault{}, ErrKilled
		}
		return fault{Short, ErrKilled}, nil
	}
	flt, ok := f.failAt[n]
	delete(f.failAt, n)
	if !ok && f.rule != nil {
		flt.kind, flt.err = f.rule(n, op)
		ok = flt.err != nil
	}
	if ok && flt.kind != DoneButFailed && op.Name != "write" || ok && flt.kind == NotDone {
		err := flt.err
		if op.Name == "sync" {
			f.failSync(op.Path)
		}
		f.mu.Unlock()
		return fault{}, err
	}
	return flt, nil
}

func pathErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// OpenFile supports O_RDONLY, O_RDWR, O_CREATE, O_EXCL and O_TRUNC.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	name = filepath.Clean(name)
	flt, err := f.begin(Op{Name: "open", Path: name})
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	defer f.mu.Unlock()
	in := f.names[name]
	switch {
	case in == nil && flag&os.O_CREATE == 0:
		return nil, pathErr("open", name, syscall.ENOENT)
	case in != nil && flag&os.O_EXCL != 0:
		return nil, pathErr("open", name, syscall.EEXIST)
	case in == nil:
		in = &inode{perm: perm, pages: map[int64]*page{}, sizes: []int64{0}, xattr: map[string][]byte{}}
		f.setNames(filepath.Dir(name), map[string]*inode{name: in})
	}
	if flag&os.O_TRUNC != 0 {
		in.truncate(0)
	}
	if flt.err != nil {
		return nil, pathErr("open", name, flt.err)
	}
	return &file{fs: f, in: in, name: name}, nil
}

func (f *FS) setNames(dir string, set map[string]*inode) {
	for n, in := range set {
		if in == nil {
			delete(f.names, n)
		} else {
			f.names[n] = in
		}
	}
	f.pending = append(f.pending, nameOp{dir, set})
}

// Rename replaces newpath, as rename(2) does.
func (f *FS) Rename(oldpath, newpath string) error { return f.rename(oldpath, newpath, false) }

// RenameNew is Rename to a name that nothing has. Its faults are those of rename.
func (f *FS) RenameNew(oldpath, newpath string) error { return f.rename(oldpath, newpath, true) }

func (f *FS) rename(oldpath, newpath string, isNew bool) error {
	oldpath, newpath = filepath.Clean(oldpath), filepath.Clean(newpath)
	flt, err := f.begin(Op{Name: "rename", Path: oldpath})
	if err != nil {
		return pathErr("rename", oldpath, err)
	}
	defer f.mu.Unlock()
	in := f.names[oldpath]
	switch {
	case in == nil:
		return pathErr("rename", oldpath, syscall.ENOENT)
	case isNew && (f.names[newpath] != nil || f.dirs[newpath]):
		return pathErr("rename", oldpath, syscall.EEXIST)
	}
	f.setNames(filepath.Dir(newpath), map[string]*inode{newpath: in, oldpath: nil})
	return pathErr("rename", oldpath, flt.err)
}

// Remove removes a name; an open file stays usable.
func (f *FS) Remove(name string) error {
	name = filepath.Clean(name)
	flt, err := f.begin(Op{Name: "remove", Path: name})
	if err != nil {
		return pathErr("remove", name, err)
	}
	defer f.mu.Unlock()
	if f.names[name] == nil {
		return pathErr("remove", name, syscall.ENOENT)
	}
	f.setNames(filepath.Dir(name), map[string]*inode{name: nil})
	return pathErr("remove", name, flt.err)
}

// MkdirAll makes directories, which survive everything.
func (f *FS) MkdirAll(name string, _ fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := filepath.Clean(name); !f.dirs[d]; d = filepath.Dir(d) {
		f.dirs[d] = true
	}
	return nil
}

// ReadDir lists the files in name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []fs.DirEntry
	for n, in := range f.names {
		if filepath.Dir(n) == name {
			out = append(out, fs.FileInfoToDirEntry(info{filepath.Base(n), in.size(), in.perm}))
		}
	}
	for d := range f.dirs {
		if filepath.Dir(d) == name && d != name {
			out = append(out, fs.FileInfoToDirEntry(info{filepath.Base(d), 0, fs.ModeDir | 0o755}))
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if out == nil && !f.dirs[name] {
		return nil, pathErr("open", name, syscall.ENOENT)
	}
	return out, nil
}

// Stat tells name, size and mode.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if in := f.names[name]; in != nil {
		return info{filepath.Base(name), in.size(), in.perm}, nil
	}
	if f.dirs[name] {
		return info{filepath.Base(name), 0, fs.ModeDir | 0o755}, nil
	}
	return nil, pathErr("stat", name, syscall.ENOENT)
}

// SyncDir makes the names in a directory survive a power cut.
func (f *FS) SyncDir(name string) error {
	name = filepath.Clean(name)
	flt, err := f.begin(Op{Name: "syncdir", Path: name})
	if err != nil {
		return pathErr("sync", name, err)
	}
	defer f.mu.Unlock()
	f.pending = slices.DeleteFunc(f.pending, func(op nameOp) bool {
		if op.dir != name {
			return false
		}
		apply(f.durable, op)
		return true
	})
	return pathErr("sync", name, flt.err)
}

func apply(names map[string]*inode, op nameOp) {
	for n, in := range op.set {
		if in == nil {
			delete(names, n)
		} else {
			names[n] = in
		}
	}
}

// Free returns what SetSpace has left, or 1 TiB.
func (f *FS) Free(string) (avail, total uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.limited {
		return 1 << 40, 1 << 40, nil
	}
	return uint64(f.space), 1 << 40, nil
}

// info is a fs.FileInfo.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

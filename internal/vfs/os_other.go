//go:build !linux

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// OS is the file system of the machine, by way of package os. It reserves no
// blocks, sets no extended attributes, and does not know the free space.
type OS struct{}

type osFile struct{ *os.File }

// OpenFile opens name with the flags of package os.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename renames a file.
func (OS) Rename(oldpath, newpath string) error { return os.Rename(oldpath, newpath) }

// RenameNew renames a file to a name that nothing had a moment before.
func (o OS) RenameNew(oldpath, newpath string) error { return renameLooking(o, oldpath, newpath) }

// Remove removes a file or an empty directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// MkdirAll makes name and its missing parents.
func (OS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

// ReadDir lists name, sorted by name.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat does not follow a symbolic link in the last component.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// SyncDir syncs a directory; Windows has no such thing and it does nothing.
func (OS) SyncDir(name string) (err error) {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// Free always fails with errors.ErrUnsupported.
func (OS) Free(name string) (avail, total uint64, err error) {
	return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: errors.ErrUnsupported}
}

func (f osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: f.Name(), Err: io.ErrShortWrite}
	}
	return n, err
}

func (f osFile) Append(p []byte) (n int, end int64, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	// Not File.Write: it loops over a short write, and the rest would be a second
	// append.
	var werr error
	err = conn.Write(func(fd uintptr) bool {
		n, werr = rawWrite(fd, p)
		return !errors.Is(werr, syscall.EAGAIN)
	})
	if err = errors.Join(err, werr); err != nil {
		return 0, 0, &fs.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	if end, err = f.Seek(0, io.SeekCurrent); err != nil {
		end = 0 // a pipe
	}
	if n < len(p) {
		return n, end, &fs.PathError{Op: "write", Path: f.Name(), Err: io.ErrShortWrite}
	}
	return n, end, nil
}

func (f osFile) Regular() bool {
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular()
}

func (f osFile) IsAt(name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(name)
	return err == nil && os.SameFile(mine, theirs)
}

func (f osFile) Allocate(off, n int64) error {
	size, err := f.Size()
	if err != nil || size >= off+n {
		return err
	}
	return f.Truncate(off + n)
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Datasync() error { return f.Sync() }

func (osFile) HasXattr(string) bool { return false }

func (f osFile) SetXattr(string, []byte) error {
	return &fs.PathError{Op: "setxattr", Path: f.Name(), Err: errors.ErrUnsupported}
}

// OpenThere is of Linux.
func (OS) OpenThere(string, int) (File, error) { return nil, errors.ErrUnsupported }

// Owner always reports false: files keep the owner that the system gives them.
func Owner(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }

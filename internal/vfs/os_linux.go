package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the file system of the machine. Each method is one system call (Rename
// and SyncDir: the few that they name), tried again when a signal interrupts it.
type OS struct{}

// NoFollow has OpenFile fail if the name is a symbolic link, where there is that.
const NoFollow = unix.O_NOFOLLOW

// osFile is a descriptor of its own, not an os.File: os.File loops over a short
// write, which would tear what must be one write.
type osFile struct {
	fd   int
	name string
}

// retry calls f until no signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// OpenFile opens name with the flags of package os. O_NONBLOCK keeps a fifo in
// the place of a file from blocking the caller; it has no effect on files.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, flag|unix.O_CLOEXEC|unix.O_NONBLOCK, uint32(perm.Perm()))
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &osFile{fd: fd, name: name}, nil
}

// Rename is rename(2).
func (OS) Rename(oldpath, newpath string) error { return os.Rename(oldpath, newpath) }

// RenameNew is renameat2(2) with RENAME_NOREPLACE. File systems without it say EINVAL.
func (o OS) RenameNew(oldpath, newpath string) error {
	err := retry(func() error {
		return unix.Renameat2(unix.AT_FDCWD, oldpath, unix.AT_FDCWD, newpath, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameLooking(o, oldpath, newpath)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldpath, New: newpath, Err: err}
	}
	return nil
}

// Remove is unlink(2), or rmdir(2) for a directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// MkdirAll makes name and its missing parents.
func (OS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

// ReadDir lists name, sorted by name.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat is lstat(2).
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// SyncDir is open(2), fsync(2), close(2) of a directory. File systems that
// cannot sync a directory (some network and FUSE ones say EINVAL or ENOTSUP)
// have nothing to promise, and it succeeds.
func (OS) SyncDir(name string) error {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return pathError("sync", name, err)
	}
	err = retry(func() error { return unix.Fsync(fd) })
	cerr := unix.Close(fd)
	if err == nil {
		err = cerr
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return pathError("sync", name, err)
}

// Free is statfs(2).
func (OS) Free(name string) (avail, total uint64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(name, &st) }); err != nil {
		return 0, 0, pathError("statfs", name, err)
	}
	unit := uint64(st.Frsize)
	return st.Bavail * unit, st.Blocks * unit, nil
}

// error names the file as it is called now: one that was prepared under another
// name has been renamed since. Who opened it by a relative path sees that.
func (f *osFile) error(op string, err error) error {
	if err == nil {
		return nil
	}
	name := f.name
	now, linkErr := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.fd))
	if linkErr == nil && filepath.IsAbs(now) && !strings.HasSuffix(now, " (deleted)") && filepath.Base(now) != filepath.Base(name) {
		name = now
	}
	return pathError(op, name, err)
}

func (f *osFile) Name() string { return f.name }

// Fd returns the descriptor, for handing the open file to another process.
func (f *osFile) Fd() uintptr { return uintptr(f.fd) }

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Pread(f.fd, p[done:], off+int64(done))
			return err
		})
		if err != nil {
			return done, f.error("read", err)
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	var n int
	err := retry(func() (err error) {
		n, err = unix.Pwrite(f.fd, p, off)
		return err
	})
	if err != nil {
		return 0, f.error("write", err)
	}
	if n < len(p) {
		return n, f.error("write", io.ErrShortWrite)
	}
	return n, nil
}

func (f *osFile) Append(p []byte) (n int, end int64, err error) {
	err = retry(func() (err error) {
		n, err = unix.Write(f.fd, p)
		return err
	})
	if err != nil {
		return 0, 0, f.error("write", err)
	}
	// The kernel has moved the descriptor's offset to the end of this write.
	if end, err = unix.Seek(f.fd, 0, io.SeekCurrent); err != nil {
		end = 0 // a pipe
	}
	if n < len(p) {
		return n, end, f.error("write", io.ErrShortWrite)
	}
	return n, end, nil
}

func (f *osFile) Allocate(off, n int64) error {
	err := retry(func() error { return unix.Fallocate(f.fd, 0, off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		size, serr := f.Size()
		if serr != nil {
			return serr
		}
		if size >= off+n {
			return nil
		}
		return f.Truncate(off + n)
	}
	return f.error("allocate", err)
}

func (f *osFile) Truncate(size int64) error {
	return f.error("truncate", retry(func() error { return unix.Ftruncate(f.fd, size) }))
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return 0, f.error("stat", err)
	}
	return st.Size, nil
}

func (f *osFile) Regular() bool {
	id, err := Identify(f.fd)
	return err == nil && id.Type == unix.S_IFREG
}

func (f *osFile) IsAt(name string) bool {
	var theirs unix.Stat_t
	mine, err := Identify(f.fd)
	if err == nil {
		err = retry(func() error { return unix.Stat(name, &theirs) })
	}
	return err == nil && mine.Dev == theirs.Dev && mine.Ino == theirs.Ino
}

// Identity is what never changes of an open file.
type Identity struct {
	Dev, Ino uint64
	Type     uint32 // of unix.S_IFMT
}

// Identify is statx(2) of a descriptor with AT_STATX_DONT_SYNC: on a network file
// system and on FUSE it asks nobody, since the kernel knows; fstat(2) is a round trip.
func Identify(fd int) (Identity, error) {
	var x unix.Statx_t
	err := retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &x)
	})
	if err == nil && x.Mask&(unix.STATX_TYPE|unix.STATX_INO) == unix.STATX_TYPE|unix.STATX_INO {
		return Identity{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, uint32(x.Mode) & unix.S_IFMT}, nil
	}
	var st unix.Stat_t // older than Linux 4.11, or a sandbox that does not know statx
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return Identity{}, err
	}
	return Identity{st.Dev, st.Ino, st.Mode & unix.S_IFMT}, nil
}

// OpenThere opens a file that is there, a regular one, and by no symbolic link, looking
// its path up once: O_PATH, statx, and open(2) of /proc/self/fd/N. errors.ErrUnsupported
// says that it is something else, or may be appended to only.
func (OS) OpenThere(name string, flag int) (File, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	there := &osFile{fd: fd, name: name}
	var x unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &x)
	if err == nil && (x.Mode&unix.S_IFMT != unix.S_IFREG || x.Attributes&unix.STATX_ATTR_APPEND != 0) {
		err = errors.ErrUnsupported
	}
	var f File
	if err == nil {
		f, err = there.Again(flag)
	}
	if cerr := there.Close(); cerr != nil && err == nil {
		err = errors.Join(cerr, f.Close())
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

// Again opens the same file once more, with other flags, whatever has become of its
// name: open(2) of /proc/self/fd/N, which looks up nothing on the file's own file
// system. Without /proc, and where the file's mode or a policy forbids, it is an error.
func (f *osFile) Again(flag int) (File, error) {
	again, err := OS{}.OpenFile("/proc/self/fd/"+strconv.Itoa(f.fd), flag, 0)
	if err != nil {
		return nil, err
	}
	g, ok := again.(*osFile)
	if !ok {
		return again, nil
	}
	g.name = f.name
	return g, nil
}

// BeginWriteback has the kernel begin to write what the page cache has of the file, and
// does not wait for that (sync_file_range(2), SYNC_FILE_RANGE_WRITE). It promises nothing,
// and takes no error from a later Datasync.
func (f *osFile) BeginWriteback() error {
	return f.error("begin write-back", retry(func() error { return unix.SyncFileRange(f.fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) }))
}

func (f *osFile) Datasync() error { return f.sync(unix.Fdatasync) }

func (f *osFile) Sync() error { return f.sync(unix.Fsync) }

func (f *osFile) sync(call func(fd int) error) error {
	err := retry(func() error { return call(f.fd) })
	if err == nil {
		var st unix.Stat_t
		if err = retry(func() error { return unix.Fstat(f.fd, &st) }); err == nil && st.Nlink == 0 {
			err = unix.EIDRM
		}
	}
	return f.error("sync", err)
}

// SyncFS is syncfs(2): it covers all of the file system that the file is on, so the name
// of the file too, for who may not open the directory.
func (f *osFile) SyncFS() error {
	return f.error("sync", retry(func() error { return unix.Syncfs(f.fd) }))
}

// Chmod is fchmod(2).
func (f *osFile) Chmod(mode fs.FileMode) error {
	return f.error("chmod", retry(func() error { return unix.Fchmod(f.fd, uint32(mode.Perm())) }))
}

// Chown is fchown(2); -1 leaves one as it is.
func (f *osFile) Chown(uid, gid int) error {
	return f.error("chown", retry(func() error { return unix.Fchown(f.fd, uid, gid) }))
}

// Owner is the user and the group that a file belongs to, as Stat has told of it.
func Owner(of fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

func (f *osFile) SetXattr(name string, value []byte) error {
	return f.error("setxattr", retry(func() error { return unix.Fsetxattr(f.fd, name, value, 0) }))
}

func (f *osFile) HasXattr(name string) bool {
	_, err := unix.Fgetxattr(f.fd, name, nil)
	return err == nil
}

// Close is close(2), which is never tried again: Linux has released the
// descriptor even when it says EINTR.
func (f *osFile) Close() error {
	fd := f.fd
	f.fd = -1
	if err := unix.Close(fd); err != nil && !errors.Is(err, unix.EINTR) {
		return f.error("close", err)
	}
	return nil
}

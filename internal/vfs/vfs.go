// Package vfs is the seam between tidemark and the file system: only the calls
// whose failure must be injected by tests, each with its durability contract.
//
// OS is the real thing. internal/vfs/crashfs is a file system in memory that
// fails the nth call and makes crash clones.
package vfs

import (
	"io/fs"
)

// File is an open file. Its methods may be called concurrently, except Close.
type File interface {
	// Name is the path the file was opened with.
	Name() string
	// ReadAt is pread(2), repeated until p is full, the end (io.EOF) or an error.
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt is exactly one pwrite(2). A short write returns its count and
	// io.ErrShortWrite. When it returns nil the bytes are in the page cache:
	// other processes see them and they survive the death of this process, but
	// not a power cut.
	WriteAt(p []byte, off int64) (int, error)
	// Append is exactly one write(2), for a file opened with os.O_APPEND: the
	// bytes go to the end of the file in one step. end is where they ended, 0 where
	// there are no offsets (a pipe, a terminal). A short write returns its count
	// and io.ErrShortWrite; the part written is [end-n, end). What a failed one
	// has written is unknown. Otherwise as WriteAt. Not to be called concurrently.
	Append(p []byte) (n int, end int64, err error)
	// Allocate reserves blocks for [off, off+n) and grows the file to off+n when
	// it is shorter (posix_fallocate). Where the file system cannot reserve, it
	// only grows the file. The new bytes read as zero.
	Allocate(off, n int64) error
	// Truncate sets the size. Truncating to the size the file has raises
	// IN_MODIFY and changes nothing.
	Truncate(size int64) error
	// Size is the current size by fstat(2).
	Size() (int64, error)
	// Regular reports whether it is a file of a disk (fstat(2)): no pipe, socket,
	// terminal or other device, which have nothing to sync.
	Regular() bool
	// IsAt reports whether name, symbolic links followed, leads to this file.
	IsAt(name string) bool
	// Datasync is fdatasync(2): when it returns nil, all that was written before
	// the call, and the size, survive a power cut. After an error the state of
	// that data is unknown and a later nil says nothing about it. A file that was
	// removed has nothing that survives: EIDRM.
	Datasync() error
	// Sync is fsync(2), Datasync and the metadata.
	Sync() error
	// SetXattr sets an extended attribute (fsetxattr).
	SetXattr(name string, value []byte) error
	// HasXattr reports whether there is such an attribute (fgetxattr); false also
	// where there are none.
	HasXattr(name string) bool
	// Lock takes the exclusive advisory lock of the whole file for this open file, so
	// that another one, also of this process, is kept out. With wait it comes back
	// when it has it, which nothing can interrupt, else at once, with ErrLocked if
	// somebody has it. What it returns beside is of the file system: no locks
	// (errors.ErrUnsupported, ENOLCK). Close gives it back.
	Lock(k LockKind, wait bool) error
	// Unlock gives the lock back. On a network file system that may write back what
	// was written under it, and fail.
	Unlock(k LockKind) error
	// LockedBy returns the process that has a lock of kind Fcntl which is not this
	// open file's: 0 if nobody has, -1 if it is that of an open file.
	LockedBy() (pid int, err error)
	// Mount tells what is mounted where the file is.
	Mount() (Mount, error)
	// NoWriter reports whether nobody has the file open for writing: nil, or ErrInUse.
	// This one must be open for reading only. Where it cannot be known (no leases, a
	// file of another user) the error is errors.ErrUnsupported.
	NoWriter() error
	// Close closes the descriptor. It syncs nothing.
	Close() error
}

// FS opens and renames. A rename, creation or removal survives a power cut only
// once SyncDir of its directory has returned nil.
type FS interface {
	// OpenFile opens name with flags of package os; always CLOEXEC.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(oldpath, newpath string) error
	// RenameNew is Rename to a name that nothing has: else it does nothing and the
	// error is fs.ErrExist. Where the system cannot do that in one step it looks first.
	RenameNew(oldpath, newpath string) error
	Remove(name string) error
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat does not follow a symbolic link in the last component.
	Stat(name string) (fs.FileInfo, error)
	SyncDir(name string) error
	// Free returns the bytes available to this process and the total size of
	// the file system that holds name.
	Free(name string) (avail, total uint64, err error)
}

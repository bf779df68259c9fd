package vfs

import "errors"

// LockKind is a kind of advisory lock. The two do not see each other on a local file
// system.
type LockKind uint8

// The kinds of locks.
const (
	// Flock is that of flock(2).
	Flock LockKind = iota + 1
	// Fcntl is that of fcntl(2), over the whole file, held by the open file and not by
	// the process (F_OFD_SETLK).
	Fcntl
)

// String is the name of the call.
func (k LockKind) String() string {
	if k == Flock {
		return "flock"
	}
	return "fcntl"
}

// Errors of locks, found with errors.Is.
var (
	// ErrLocked says that somebody else has the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrInUse says that somebody has the file open for writing.
	ErrInUse = errors.New("open for writing")
)

// Mount is what is mounted where a file is.
type Mount struct {
	// Type is that of mount(8): "nfs4", "fuse.sshfs"; of a local file system it may be
	// empty.
	Type string
	// Network says that other hosts may have it mounted too.
	Network bool
	// HostFlock and HostFcntl say that locks of that kind do not leave this host.
	HostFlock, HostFcntl bool
}

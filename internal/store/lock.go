package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockName is the file that a directory is locked by.
const lockName = ".tidemark.lock"

// Lock keeps other tidemarks out of a directory until it is released or the
// process ends, however it ends.
type Lock struct{ f *os.File }

// InUseError says that another process holds the lock of a directory.
type InUseError struct {
	Dir string
	PID int // 0: unknown
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by another tidemark, pid %d: stop it or choose another directory", e.Dir, e.PID)
}

// LockDir locks the directory dir, which must exist. It does not wait: a
// directory that is locked is an *InUseError.
//
// System calls: open(O_CREAT|O_NOFOLLOW), flock(LOCK_EX|LOCK_NB), pwrite of the
// pid, ftruncate. The file stays when the lock is released. A full disk does not
// keep anybody from a lock: the file then names nobody.
func LockDir(dir string) (*Lock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0) // the end of the file is no error
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		err = &InUseError{Dir: dir, PID: pid}
	}
	if err == nil {
		err = notePID(f)
	}
	if err != nil {
		f.Close() //nolint:errcheck // the error that led here is told
		return nil, err
	}
	return &Lock{f}, nil
}

// pidFile is what notePID needs of a lock file.
type pidFile interface {
	WriteAt(b []byte, off int64) (int, error)
	Truncate(size int64) error
}

// notePID leaves the pid in a lock file, for people. It writes over what is
// there: to empty the file first would give its block back, and a disk that is
// full does not hand it out again.
func notePID(f pidFile) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	n, err := f.WriteAt([]byte(text), 0)
	if outOfSpace(err) {
		n, err = 0, nil
	}
	if err != nil {
		return err
	}
	return f.Truncate(int64(n))
}

// Release lets others in. A nil Lock holds nothing.
func (l *Lock) Release() {
	if l != nil {
		l.f.Close() //nolint:errcheck // closing is what releases
	}
}

//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

func (f osFile) unsupported(op string) error {
	return &fs.PathError{Op: op, Path: f.Name(), Err: errors.ErrUnsupported}
}

// Lock always fails with errors.ErrUnsupported.
func (f osFile) Lock(LockKind, bool) error { return f.unsupported("lock") }

// Unlock always fails with errors.ErrUnsupported.
func (f osFile) Unlock(LockKind) error { return f.unsupported("unlock") }

// LockedBy finds none.
func (osFile) LockedBy() (pid int, err error) { return 0, nil }

// NoWriter always fails with errors.ErrUnsupported.
func (f osFile) NoWriter() error { return f.unsupported("ask for a lease") }

// Mount takes every file system for a local one.
func (osFile) Mount() (Mount, error) { return Mount{}, nil }

// AdoptLog makes Files of two descriptors of one file that somebody has opened, and
// takes them over; fix may be nil if app is no regular file. Their flags are not
// known here, and are not checked.
func AdoptLog(app, fix *os.File) (a, b File, err error) {
	if fix == nil {
		if (osFile{app}).Regular() {
			return nil, nil, errors.Join(fmt.Errorf("%s: a regular file needs a second descriptor, without O_APPEND, for repairs", app.Name()), app.Close())
		}
		return osFile{app}, nil, nil
	}
	one, err := app.Stat()
	two, serr := fix.Stat()
	if err = errors.Join(err, serr); err == nil && !os.SameFile(one, two) {
		err = fmt.Errorf("%s: the descriptor for repairs is of another file", fix.Name())
	}
	if err != nil {
		return nil, nil, errors.Join(err, app.Close(), fix.Close())
	}
	return osFile{app}, osFile{fix}, nil
}

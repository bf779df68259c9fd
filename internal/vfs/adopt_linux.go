package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// AdoptLog makes Files of two descriptors of one file that somebody has opened: app
// with O_APPEND, fix for reading and writing without it; fix may be nil if app is no
// regular file. It takes them over: whatever it returns, both os.Files are closed. No
// path is opened. Whoever still has the descriptors must not write through them, nor
// move their offsets.
func AdoptLog(app, fix *os.File) (a, b File, err error) {
	first, err := adopt(app)
	if fix == nil {
		if err == nil && first.Regular() {
			err = errors.Join(pathError("adopt", app.Name(), errors.New("a regular file needs a second descriptor, without O_APPEND, for repairs")), first.Close())
		}
		if err != nil {
			return nil, nil, err
		}
		return first, nil, nil
	}
	second, serr := adopt(fix)
	if err = errors.Join(err, serr); err == nil {
		if err = checkLog(first, second); err == nil {
			return first, second, nil
		}
	}
	for _, f := range []*osFile{first, second} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return nil, nil, err
}

// checkLog tells what is wrong with the flags, or with the file, of a pair.
func checkLog(app, fix *osFile) error {
	flags, err := unix.FcntlInt(uintptr(app.fd), unix.F_GETFL, 0)
	if err == nil && (flags&unix.O_APPEND == 0 || flags&unix.O_ACCMODE == unix.O_RDONLY) {
		err = fmt.Errorf("flags %#o: want O_APPEND and O_WRONLY or O_RDWR", flags)
	}
	if err != nil {
		return pathError("adopt", app.name, err)
	}
	flags, err = unix.FcntlInt(uintptr(fix.fd), unix.F_GETFL, 0)
	if err == nil && (flags&unix.O_APPEND != 0 || flags&unix.O_ACCMODE != unix.O_RDWR) {
		err = fmt.Errorf("flags %#o of the descriptor for repairs: want O_RDWR without O_APPEND", flags)
	}
	var one, two unix.Stat_t
	if err == nil {
		err = errors.Join(unix.Fstat(app.fd, &one), unix.Fstat(fix.fd, &two))
	}
	if err == nil && (one.Dev != two.Dev || one.Ino != two.Ino) {
		err = errors.New("the descriptor for repairs is of another file")
	}
	return pathError("adopt", fix.name, err)
}

// adopt takes f over. The descriptor is a duplicate, since f closes its own.
func adopt(f *os.File) (*osFile, error) {
	fd := -1
	var dupErr error
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Control(func(old uintptr) {
			fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
		})
	}
	if err = errors.Join(err, dupErr, f.Close()); err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, pathError("adopt", f.Name(), err)
	}
	return &osFile{fd: fd, name: f.Name()}, nil
}

package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// dirMarkOf returns the mark of a directory; the zero one if there is none.
func dirMarkOf(dir string) dirMark {
	var st unix.Statx_t
	// Not what a network file system remembers: a listing asks it too.
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_FORCE_SYNC, unix.STATX_CTIME|unix.STATX_INO, &st)
	if err != nil || st.Mask&unix.STATX_CTIME == 0 || st.Mask&unix.STATX_INO == 0 {
		return dirMark{}
	}
	return dirMark{
		path: dir, file: fileIdentity{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino},
		changed: st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec),
	}
}

// direntsSize is room for some 300 names of archives, in bytes.
const direntsSize = 32 << 10

// linux_dirent64: the length of a record, the type of the file, its name and a zero.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// readNames calls each for what is in a directory, in no order. The name is valid
// during the call.
func readNames(dir string, each func(name []byte, t fs.FileMode)) error {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // only read
	buf := make([]byte, direntsSize)
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil {
			return &fs.PathError{Op: "readdirent", Path: dir, Err: err}
		}
		if n <= 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > direntName; {
			size := int(binary.NativeEndian.Uint16(rest[direntLength:]))
			if size <= direntName || size > len(rest) {
				return &fs.PathError{Op: "readdirent", Path: dir, Err: unix.EIO}
			}
			name, _, _ := bytes.Cut(rest[direntName:size], []byte{0})
			if t, ok := typeOf(dir, name, rest[direntType]); ok {
				each(name, t)
			}
			rest = rest[size:]
		}
	}
}

// typeOf returns the type of a file: a regular one, a directory, a link, or another.
// ok is false for what has gone.
func typeOf(dir string, name []byte, t byte) (mode fs.FileMode, ok bool) {
	switch t {
	case unix.DT_REG:
		return 0, true
	case unix.DT_DIR:
		return fs.ModeDir, true
	case unix.DT_LNK:
		return fs.ModeSymlink, true
	case unix.DT_UNKNOWN: // the file system does not say
		st, err := os.Lstat(pathPrefix(dir) + string(name))
		if err != nil {
			return 0, false
		}
		return st.Mode().Type(), true
	default:
		return fs.ModeIrregular, true
	}
}

// ignoringEINTR makes a call again that a signal has ended.
func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

package namewatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// What the kernel is asked for: of the file, and of its directory. A file that is
// removed while it is open changes its number of links, which is IN_ATTRIB.
const (
	fileMask = unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ATTRIB
	dirMask  = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR
)

// none is no watch descriptor: the kernel's begin with 1.
const none = 0

// Watch watches the file of one name. Its methods are for one goroutine, but for
// Close.
type Watch struct {
	in   *os.File // inotify, in the runtime's poller: no thread blocks
	path string
	file int // watch descriptor of the file; none
	dir  int // of its directory; none
	buf  [4096]byte

	closed atomic.Bool
}

// New returns a watch of the name path, of nothing yet. It costs one of the user's
// fs.inotify.max_user_instances.
func New(path string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: inotify: %w", path, err)
	}
	return &Watch{in: os.NewFile(uintptr(fd), "inotify"), path: path}, nil
}

// File has the file watched that path leads to now, instead of the one before. It
// fails with fs.ErrNotExist if there is none.
func (w *Watch) File() error {
	wd, err := w.add(w.path, fileMask)
	if err != nil {
		return err
	}
	if w.file != none && w.file != wd {
		w.remove(w.file)
	}
	w.file = wd
	return nil
}

// Dir says whether it counts that something comes to have the name, or changes its
// owner or mode; then the file that had it does not count any more.
func (w *Watch) Dir(on bool) error {
	switch {
	case !on && w.dir != none:
		w.remove(w.dir)
		w.dir = none
	case on:
		wd, err := w.add(filepath.Dir(w.path), dirMask)
		if err != nil {
			return err
		}
		w.dir = wd
		if w.file != none {
			w.remove(w.file)
			w.file = none
		}
	}
	return nil
}

func (w *Watch) add(path string, mask uint32) (wd int, err error) {
	err = w.control(func(fd int) error {
		wd, err = unix.InotifyAddWatch(fd, path, mask)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("watch %s: %w", path, w.ended(err))
	}
	return wd, nil
}

// remove ends a watch. The kernel may have done so already.
func (w *Watch) remove(wd int) {
	w.control(func(fd int) error { //nolint:errcheck // it is gone either way
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
}

func (w *Watch) control(f func(fd int) error) error {
	conn, err := w.in.SyscallConn()
	if err != nil {
		return w.ended(err)
	}
	if cerr := conn.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return w.ended(cerr) // package poll's, which is not os.ErrClosed
	}
	return err
}

// Wait returns nil when something has happened that counts, or after limit, if that
// is more than 0. After Close the error is os.ErrClosed.
func (w *Watch) Wait(limit time.Duration) error {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	if err := w.in.SetReadDeadline(until); err != nil {
		return w.ended(err)
	}
	for {
		n, err := w.in.Read(w.buf[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return w.ended(err)
		case w.counts(w.buf[:n]):
			return nil
		}
	}
}

func (w *Watch) ended(err error) error {
	if w.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// counts looks through a buffer of struct inotify_event.
func (w *Watch) counts(b []byte) (counts bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(b)))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		b = b[end:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			counts = true
		case wd == w.file:
			counts = true
			if mask&unix.IN_IGNORED != 0 {
				w.file = none
			}
		case wd == w.dir:
			if mask&unix.IN_IGNORED != 0 {
				w.dir = none
			}
			counts = counts || string(name) == filepath.Base(w.path)
		}
	}
	return counts
}

// Close ends the watch, and a Wait of another goroutine.
func (w *Watch) Close() error {
	w.closed.Store(true)
	return w.in.Close()
}

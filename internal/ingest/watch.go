package ingest

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watch waits until a socket has something to read, without being told of what
// arrives while nobody waits. Go's poller is told of each message: in a flood
// that wakes an idle thread for each. So the poller sees, in place of the
// socket, an epoll of our own, in which the socket is armed for one event and
// only before a wait:
//
//	receive   nothing there
//	arm       epoll_ctl MOD EPOLLIN|EPOLLONESHOT; it looks at the socket once more
//	          the goroutine sleeps in Go's poller
//	message ─▶ epoll readable ─▶ the goroutine goes on
//	disarm    epoll_wait takes the event, and with it the socket is off
//
// Only the goroutine that reads uses it, but for deadline and close.
type watch struct {
	file *os.File // the epoll
	raw  syscall.RawConn
	fd   int // of file; valid inside wait
	sock int
	on   bool // armed

	closed atomic.Bool
}

// newWatch returns a watch of sock, which must be closed after it and must not
// be in Go's poller.
func newWatch(sock int, name string) (*watch, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	w := &watch{fd: fd, sock: sock}
	err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, sock, &unix.EpollEvent{})
	if err == nil {
		err = unix.SetNonblock(fd, true) // takes it into Go's poller
	}
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written to it
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	w.file = os.NewFile(uintptr(fd), name)
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.close()
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	return w, nil
}

// wait calls try until it returns true, each time the socket may have become
// readable. Its errors are os.ErrDeadlineExceeded and os.ErrClosed, and those of
// epoll.
func (w *watch) wait(try func() bool) error {
	var failed error
	err := w.raw.Read(func(uintptr) bool {
		if failed = w.disarm(); failed != nil {
			return true
		}
		if try() {
			return true
		}
		failed = w.arm()
		return failed != nil
	})
	if err == nil {
		err = failed
	}
	if err != nil && w.closed.Load() {
		return os.ErrClosed // which a RawConn does not say
	}
	return err
}

func (w *watch) arm() error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}
	w.on = true
	return unix.EpollCtl(w.fd, unix.EPOLL_CTL_MOD, w.sock, &event)
}

func (w *watch) disarm() error {
	if !w.on {
		return nil
	}
	w.on = false
	var event [1]unix.EpollEvent
	if n, err := unix.EpollWait(w.fd, event[:], 0); n == 1 && err == nil {
		return nil // that was its one event
	}
	return unix.EpollCtl(w.fd, unix.EPOLL_CTL_MOD, w.sock, &unix.EpollEvent{})
}

// deadline ends a wait, present or to come, at t with os.ErrDeadlineExceeded;
// not at all when t is zero. It may be called concurrently.
func (w *watch) deadline(t time.Time) error { return w.file.SetReadDeadline(t) }

// close ends a wait with os.ErrClosed. It may be called concurrently and again.
func (w *watch) close() {
	w.closed.Store(true)
	w.file.Close() //nolint:errcheck // it may be closed already
}

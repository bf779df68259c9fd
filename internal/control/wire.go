package control

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wire is the socket of a connection. Its methods are for the connection's own
// goroutine, but for endReads.
type wire interface {
	io.WriteCloser
	// recv is recvmsg(2): it also takes the descriptors that come with the bytes, as
	// control messages of n bytes in oob.
	recv(b, oob []byte) (bytes, n, flags int, err error)
	// limitReads has reads end at t. The zero time: never.
	limitReads(t time.Time)
	// endReads ends a read in progress, and all to come. It is called with the
	// server's mutex held, by anyone.
	endReads()
	// limitWrite has the next write end after d in which nothing of it is taken.
	limitWrite(d time.Duration) error
	// lend returns a way to wait for the socket beside its reads and writes, of which
	// there are none until back is called. wake ends such a wait.
	lend() (raw syscall.RawConn, wake, back func(), err error)
}

// polled is a socket in the runtime's poller. Whoever waits for it costs no
// thread; but when all processors are busy, as in a flood of messages, it may be a
// few milliseconds until one of them looks after it, and another thread than the
// last one goes on, which the kernel knows as one that works a lot.
type polled struct {
	*net.UnixConn
	server *Server
}

func (p polled) recv(b, oob []byte) (bytes, n, flags int, err error) {
	bytes, n, flags, _, err = p.ReadMsgUnix(b, oob) // with MSG_CMSG_CLOEXEC
	return bytes, n, flags, err
}

func (p polled) limitReads(t time.Time) { p.server.unlessEnding(func() { p.setDeadline(t) }) }

func (p polled) endReads() { p.setDeadline(time.Unix(1, 0)) }

func (p polled) setDeadline(t time.Time) {
	p.SetReadDeadline(t) //nolint:errcheck // fails only when closed
}

func (p polled) limitWrite(d time.Duration) error { return p.SetWriteDeadline(time.Now().Add(d)) }

func (p polled) lend() (raw syscall.RawConn, wake, back func(), err error) {
	raw, err = p.SyscallConn()
	wake = func() { p.limitReads(time.Unix(1, 0)) }
	return raw, wake, func() { p.limitReads(time.Time{}) }, err
}

// threaded is a blocking socket, for which a thread of its own waits in recvmsg(2).
// The kernel wakes that thread and no other, at once: it has slept most of the time.
// And it sleeps again as soon as it has written a reply, so that a client which
// waits for that on the same processor can go on.
type threaded struct {
	*os.File
	raw    syscall.RawConn
	until  time.Time     // when reads end; zero: never
	timed  bool          // SO_RCVTIMEO is set
	unread time.Duration // SO_SNDTIMEO; 0: not set yet
	ended  atomic.Bool   // endReads was called
}

// newThreaded takes nc over. After an error nc is as it was.
//
//	fcntl(F_DUPFD_CLOEXEC), fcntl(F_SETFL), close
func newThreaded(nc *net.UnixConn) (*threaded, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	f, err := duplicate(raw, false)
	if err != nil {
		return nil, err
	}
	own, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	nc.Close() //nolint:errcheck // the socket stays open
	return &threaded{File: f, raw: own}, nil
}

// duplicate returns a second descriptor of the same socket, which from then on
// blocks or not: a file that does not is in the runtime's poller.
func duplicate(raw syscall.RawConn, nonblock bool) (f *os.File, err error) {
	controlErr := raw.Control(func(fd uintptr) {
		var second int
		if second, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		if err = unix.SetNonblock(second, nonblock); err != nil {
			unix.Close(second) //nolint:errcheck // nothing was written to it
			return
		}
		f = os.NewFile(uintptr(second), "varlink")
	})
	if controlErr != nil {
		return nil, controlErr
	}
	return f, err
}

// set sets a time-out of the socket; 0: none.
func (t *threaded) set(option int, d time.Duration) (err error) {
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	tv := unix.NsecToTimeval(d.Nanoseconds())
	controlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, option, &tv) })
	if controlErr != nil {
		return controlErr
	}
	return err
}

// recv obeys what limitReads and endReads have said.
func (t *threaded) recv(b, oob []byte) (bytes, n, flags int, err error) {
	if t.ended.Load() {
		return 0, 0, 0, os.ErrDeadlineExceeded
	}
	if !t.until.IsZero() {
		left := time.Until(t.until)
		if left <= 0 {
			return 0, 0, 0, os.ErrDeadlineExceeded
		}
		if err := t.set(unix.SO_RCVTIMEO, max(left, time.Microsecond)); err != nil {
			return 0, 0, 0, err
		}
		t.timed = true
	}
	closed := t.raw.Read(func(fd uintptr) bool {
		for {
			if bytes, n, flags, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC); !errors.Is(err, unix.EINTR) {
				return true
			}
		}
	})
	switch {
	case closed != nil:
		return 0, 0, 0, closed
	case err != nil:
		return 0, 0, 0, os.NewSyscallError("recvmsg", err)
	case bytes == 0 && len(b) > 0:
		return 0, n, flags, io.EOF
	}
	return bytes, n, flags, nil
}

func (t *threaded) limitReads(until time.Time) {
	t.until = until
	if until.IsZero() && t.timed {
		t.set(unix.SO_RCVTIMEO, 0) //nolint:errcheck // fails only when closed
		t.timed = false
	}
}

// endReads is shutdown(2), which wakes a read.
func (t *threaded) endReads() {
	t.ended.Store(true)
	raw, err := t.SyscallConn()
	if err != nil {
		return // closed
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // fails only when closed
		unix.Shutdown(int(fd), unix.SHUT_RD) //nolint:errcheck // the client may have gone
	})
}

func (t *threaded) limitWrite(d time.Duration) error {
	if t.unread == d {
		return nil
	}
	t.unread = d
	return t.set(unix.SO_SNDTIMEO, d)
}

// lend has the socket in the poller for a while.
//
//	fcntl(F_DUPFD_CLOEXEC), fcntl(F_SETFL), epoll_ctl; close, fcntl(F_SETFL)
func (t *threaded) lend() (raw syscall.RawConn, wake, back func(), err error) {
	own, err := t.SyscallConn()
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := duplicate(own, true)
	if err != nil {
		return nil, nil, nil, err
	}
	if raw, err = f.SyscallConn(); err != nil {
		return nil, nil, nil, errors.Join(err, f.Close())
	}
	wake = func() {
		f.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // fails only when closed
	}
	return raw, wake, func() {
		f.Close()                      //nolint:errcheck // nothing was written to it
		own.Control(func(fd uintptr) { //nolint:errcheck // fails only when closed
			unix.SetNonblock(int(fd), false) //nolint:errcheck // cannot fail: the descriptor is ours
		})
	}, nil
}

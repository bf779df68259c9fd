package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reading of a pipe that somebody fills line by line.
const (
	// pipeWanted is how much a pipe should hold, in bytes: what Linux gives to anybody.
	pipeWanted = 1 << 20
	// gatherTime is how long lines of a flood gather in the pipe between two reads, at
	// most: then the sender need not wake us for each, and each is no write of its own.
	gatherTime = time.Millisecond
	// gatherLeast is what a wait has to be good for: above 256 MB/s, which nobody sends line
	// by line, a timer costs more than the calls that it saves.
	gatherLeast = gatherTime / 4
	// gatherPause without a line is the end of a flood.
	gatherPause = 5 * time.Millisecond
)

// pipeReader reads from a pipe, or from what else lines come from. In a flood it lets
// some gather first. Once stop is done it takes what is in the pipe already, and ends.
type pipeReader struct {
	in    *os.File
	stop  <-chan struct{}
	size  int // of the pipe in bytes; 0: it is none, and nothing gathers
	timer *time.Timer
	wake  *os.File      // readable once stop is done; nil: deadlines end a read
	vec   [1][]byte     // of a read
	end   func()        // takes back what waits for stop
	told  chan struct{} // closed when a read that waits has been told of stop

	last time.Time // when the last read came back
	rate float64   // bytes a second, of the last reads; 0: no flood
	left int       // stop is done: what may still be read; -1: not known yet
}

// newPipeReader reads in, which it makes as large as it may if it is a pipe. One that
// blocks costs less: what Go's poller watches has each write of a sender wake a thread of
// ours, whether or not one waits for it.
func newPipeReader(ctx context.Context, in *os.File) (*pipeReader, error) {
	r := &pipeReader{in: in, stop: ctx.Done(), timer: time.NewTimer(time.Hour), left: -1, told: make(chan struct{})}
	r.timer.Stop()
	r.control(func(fd int) {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeWanted) // a smaller one does as well
		if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil {
			r.size = size
		}
	})
	tell := func() { _ = in.SetReadDeadline(time.Unix(1, 0)) }
	var other *os.File
	if in.SetReadDeadline(time.Time{}) != nil {
		var err error
		if r.wake, other, err = os.Pipe(); err != nil {
			return nil, err
		}
		tell = func() { other.Close() } //nolint:errcheck // nothing was written to it
	}
	stop := context.AfterFunc(ctx, func() { tell(); close(r.told) })
	r.end = func() {
		stop()
		if r.wake != nil {
			r.wake.Close() //nolint:errcheck // nothing was read from it
			other.Close()  //nolint:errcheck // as above
		}
	}
	return r, nil
}

// close gives back what r has made; in is not its own.
func (r *pipeReader) close() { r.end() }

// control calls f with the descriptor.
func (r *pipeReader) control(f func(fd int)) {
	if raw, err := r.in.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // closed: f says nothing
	}
}

// Read reads what is there, or waits for more.
func (r *pipeReader) Read(p []byte) (int, error) {
	r.gather(len(p))
	n, err := r.readNext(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return r.readLeft(p)
	}
	now := time.Now()
	if pause := now.Sub(r.last); pause < gatherPause {
		r.rate = (r.rate + float64(n)/max(pause, time.Microsecond).Seconds()) / 2
	} else {
		r.rate = 0
	}
	r.last = now
	return n, err
}

// readNext is Read without a look at the time; os.ErrDeadlineExceeded when stop is done.
func (r *pipeReader) readNext(p []byte) (int, error) {
	switch {
	case r.stopped():
		return 0, os.ErrDeadlineExceeded
	case r.wake == nil:
		return r.in.Read(p)
	}
	if n, err := r.readThere(p); err == nil {
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	if r.await(); r.stopped() {
		return 0, os.ErrDeadlineExceeded
	}
	return r.in.Read(p)
}

// readThere reads what is in a pipe that blocks. An error says no more than that nothing is
// there, or that the system cannot tell.
func (r *pipeReader) readThere(p []byte) (n int, err error) {
	if r.size == 0 || len(p) == 0 {
		return 0, unix.EAGAIN
	}
	r.vec[0] = p
	err = unix.EBADF
	r.control(func(fd int) { n, err = unix.Preadv2(fd, r.vec[:], -1, unix.RWF_NOWAIT) })
	r.vec[0] = nil
	return n, err
}

func (r *pipeReader) stopped() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// gather waits, in a flood, until a quarter of the pipe or of a block is full.
func (r *pipeReader) gather(block int) {
	if r.rate == 0 || r.size == 0 {
		return
	}
	full := time.Duration(float64(min(r.size, block)) / 4 / r.rate * float64(time.Second))
	if full < gatherLeast {
		return
	}
	wait := min(full, gatherTime) - time.Since(r.last)
	if wait < gatherTime/16 {
		return
	}
	r.timer.Reset(wait)
	select {
	case <-r.timer.C:
	case <-r.stop:
		r.timer.Stop()
	}
}

// await returns when there is something to read, or stop is done: nothing else ends a
// read where there are no deadlines.
func (r *pipeReader) await() {
	r.control(func(fd int) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(r.wake.Fd()), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

// readLeft reads what was in the pipe when stop was done.
func (r *pipeReader) readLeft(p []byte) (n int, err error) {
	if r.left < 0 {
		r.left = 0
		<-r.told // its deadline comes before the one that follows
		r.control(func(fd int) {
			if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && r.size > 0 {
				r.left = n
			}
		})
		_ = r.in.SetReadDeadline(time.Time{}) // what is there is read at once
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err = r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

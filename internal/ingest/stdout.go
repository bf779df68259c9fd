package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxTurns is how many streams may have a buffer, and entries that wait for room
// in the sink, at once. It bounds the memory that they take; others wait for
// their turn in the order they came.
const maxTurns = 64

// acceptBackoff is how long accepting rests when the process is out of
// descriptors, unless a stream ends earlier, a barrier asks, or the end comes.
const acceptBackoff = time.Second

// errShort says that a connection waits for a descriptor.
var errShort = errors.New("out of descriptors")

// isShort reports whether the kernel may have later what it has not now.
func isShort(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ENOSPC} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// listener accepts stdout streams and owns them.
type listener struct {
	in   *Ingest
	file *os.File
	raw  syscall.RawConn
	gate gate

	latest atomic.Pointer[stream] // the stream read last
	pool   sync.Pool              // of *streamBuffer
	turn   chan struct{}          // holds a value for each stream that has a buffer

	mu      sync.Mutex
	streams map[*stream]struct{} // guarded by mu
	perUID  map[uint32]int       // guarded by mu; streams by who has connected, root's not

	running sync.WaitGroup
	freed   chan struct{} // capacity 1: a stream has ended, or the gate wakes

	backoff time.Duration // acceptBackoff
	half    int           // a connection that waits for a second descriptor; -1: none
	short   bool          // the last try found no descriptor
	told    time.Duration // when that was said last; 0: never
}

func newListener(in *Ingest, file *os.File) (*listener, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("accept at %s: %w", file.Name(), err)
	}
	l := &listener{in: in, file: file, raw: raw, streams: make(map[*stream]struct{}), freed: make(chan struct{}, 1), half: -1, backoff: acceptBackoff}
	l.turn, l.perUID = make(chan struct{}, maxTurns), make(map[uint32]int)
	l.gate.deadline = func(t time.Time) error {
		if !t.IsZero() {
			l.free() // it may rest
		}
		return file.SetReadDeadline(t)
	}
	l.pool.New = func() any { return newStreamBuffer(in) }
	return l, nil
}

func (l *listener) gateway() *gate { return &l.gate }

// run accepts until it is told to end, then lets the streams end and joins them.
func (l *listener) run(ctx context.Context) error {
	var waiting, asked []*barrier
	missed, refused := true, false
	defer func() {
		l.file.Close() //nolint:errcheck // it may be closed already
		l.dropHalf()
		l.endStreams()
		l.gate.close(waiting, missed)
		l.running.Wait()
	}()
	for {
		var ending bool
		asked, ending = l.gate.look(asked[:0])
		waiting = append(waiting, asked...)
		if ending && !refused {
			refused = true
			control1(l.raw, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }) //nolint:errcheck // a closed socket refuses too
		}
		switch err := l.acceptAll(ctx, !ending && len(waiting) == 0); {
		case isTimeout(err):
			l.gate.woken()
			continue
		case errors.Is(err, errShort) && !ending && ctx.Err() == nil:
			for _, b := range waiting {
				b.failShort()
			}
			waiting = waiting[:0]
			l.rest(ctx)
			continue
		case errors.Is(err, errShort) && l.endStreams() > 0:
			l.running.Wait() // those that wait can have their descriptors
			continue
		case errors.Is(err, os.ErrClosed), errors.Is(err, errShort):
			return nil
		case err != nil:
			return err
		}
		if ending {
			missed = false
			return nil
		}
		for _, b := range waiting {
			b.arrive()
		}
		waiting = waiting[:0]
	}
}

// acceptAll takes the connections that are pending: no more than the queue can
// hold. It sleeps for the first one if park is set.
func (l *listener) acceptAll(ctx context.Context, park bool) error {
	for range maxBacklog {
		got, err := l.accept(ctx, park)
		if !got || err != nil {
			return err
		}
		park = false
	}
	return nil
}

// accept takes one connection; false: there was none. It sleeps for one if park
// is set. With errShort there may be one that has to wait.
func (l *listener) accept(ctx context.Context, park bool) (bool, error) {
	if l.half >= 0 {
		fd := l.half
		l.half = -1
		return true, l.start(ctx, fd)
	}
	fd := -1
	var errno error
	err := l.raw.Read(func(s uintptr) bool {
		for {
			fd, _, errno = unix.Accept4(int(s), unix.SOCK_CLOEXEC)
			switch {
			case errors.Is(errno, unix.EINTR), errors.Is(errno, unix.ECONNABORTED):
				continue
			case errors.Is(errno, unix.EINVAL): // shut down, and nothing is pending
				errno = unix.EAGAIN
				return true
			case isShort(errno) && !pending(int(s)): // it asks for a descriptor first
				errno = unix.EAGAIN
			}
			if errors.Is(errno, unix.EAGAIN) {
				return !park
			}
			return true
		}
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(errno, unix.EAGAIN):
		return false, nil
	case isShort(errno):
		return false, l.runShort()
	case errno != nil:
		return false, fmt.Errorf("accept at %s: %w", l.file.Name(), errno)
	}
	return true, l.start(ctx, fd)
}

// pending reports whether somebody waits to be accepted.
func pending(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n > 0 || err != nil
}

// runShort counts that a connection has to wait, says it when that begins, but
// no more often than losses are told, and returns errShort.
func (l *listener) runShort() error {
	l.in.counts.add(stdoutShort, 1)
	now, _ := l.in.now()
	if !l.short && (l.told == 0 || now-l.told >= lossWindow) {
		l.told = now
		l.in.say(levelWarning, messageShort, "Out of file descriptors: new stdout streams wait until some are free")
	}
	l.short = true
	return errShort
}

// free lets accepting be tried again.
func (l *listener) free() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// dropHalf closes the connection that waits for a descriptor.
func (l *listener) dropHalf() {
	if l.half >= 0 {
		unix.Close(l.half) //nolint:errcheck // nothing was written to it
		l.half = -1
	}
}

// rest waits until it is worth another try.
func (l *listener) rest(ctx context.Context) {
	t := time.NewTimer(l.backoff)
	defer t.Stop()
	select {
	case <-l.freed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// start gives a connection to a goroutine of its own, or closes it. With errShort
// it is half of one and waits.
func (l *listener) start(ctx context.Context, fd int) error {
	s, err := newStream(l, fd)
	if isShort(err) {
		l.half = fd
		return l.runShort()
	}
	l.short = false
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written to it
		l.in.counts.add(stdoutRead, 1)
		return nil
	}
	l.mu.Lock()
	uid := s.peer.uid
	refused := len(l.streams) >= l.in.cfg.MaxStreams || l.perUID[uid] >= l.in.cfg.MaxStreamsPerUID
	if !refused {
		l.streams[s] = struct{}{}
		if uid != 0 {
			l.perUID[uid]++
		}
	}
	l.mu.Unlock()
	if refused {
		s.closeFiles()
		l.in.counts.add(stdoutTooMany, 1)
		return nil
	}
	l.in.counts.add(stdoutStreams, 1)
	l.running.Go(func() {
		s.run(ctx)
		l.mu.Lock()
		delete(l.streams, s)
		if l.perUID[uid]--; l.perUID[uid] <= 0 {
			delete(l.perUID, uid)
		}
		l.mu.Unlock()
		l.free()
	})
	return nil
}

// endStreams lets every stream read what is queued, and end: so many.
func (l *listener) endStreams() int {
	gates := l.gates(nil)
	for _, g := range gates {
		g.end()
	}
	return len(gates)
}

// gates appends the gates of the open streams.
func (l *listener) gates(dst []*gate) []*gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		dst = append(dst, &s.gate)
	}
	return dst
}

// tryTurn takes a turn if one is free.
func (l *listener) tryTurn() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// waitTurn waits for a turn; false: ctx has ended.
func (l *listener) waitTurn(ctx context.Context) bool {
	select {
	case l.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// endTurn gives a turn back.
func (l *listener) endTurn() { <-l.turn }

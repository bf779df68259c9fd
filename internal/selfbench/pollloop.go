package selfbench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// pollLoop is a command server as sanlock's daemon is one: a loop polls its
// clients, hands a command to a worker and leaves the client out until the worker
// has answered. The next command of that client is seen when the loop polls anew:
// if nothing wakes it, when the time of the poll is over.
//
// It serves one client, and is here to be measured.
type pollLoop struct {
	answer  func() ([]byte, error) // the whole reply
	timeout time.Duration          // of a poll
	wake    int                    // eventfd that the worker writes to, and the poll looks at; -1: nothing does
	end     int                    // eventfd that ends the loop

	client  *os.File
	fd      int
	waiting atomic.Bool // for a command: not with the worker
	orders  chan struct{}
	run     sync.WaitGroup
	loopErr error // read after run
	workErr error // read after run
}

// startPollLoop serves the client that connects to l next, woken or not.
func startPollLoop(l *net.UnixListener, woken bool, timeout time.Duration, answer func() ([]byte, error)) (*pollLoop, error) {
	p := &pollLoop{answer: answer, timeout: timeout, wake: -1, orders: make(chan struct{}, 1)}
	var err error
	if p.end, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if woken {
		if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(p.end))
		}
	}
	p.run.Go(func() {
		if p.loopErr = p.accept(l); p.loopErr == nil {
			p.loopErr = p.loop()
		}
		close(p.orders)
	})
	p.run.Go(p.work)
	return p, nil
}

// accept takes the client, as a descriptor for poll.
func (p *pollLoop) accept(l *net.UnixListener) error {
	c, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	p.client, err = c.File()
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	p.fd = int(p.client.Fd()) // blocking, from now on
	p.waiting.Store(true)
	return nil
}

func (p *pollLoop) loop() error {
	b := make([]byte, 64<<10)
	for {
		fds := []unix.PollFd{{Fd: int32(p.end), Events: unix.POLLIN}}
		if p.wake >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(p.wake), Events: unix.POLLIN})
		}
		served := p.waiting.Load()
		if served {
			fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
		}
		_, err := unix.Poll(fds, int(p.timeout.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("poll: %w", err)
		case fds[0].Revents != 0:
			return nil
		}
		if p.wake >= 0 {
			_, _ = unix.Read(p.wake, b[:8]) // takes the rings; EAGAIN: there were none
		}
		if !served || fds[len(fds)-1].Revents == 0 {
			continue
		}
		n, err := unix.Read(p.fd, b)
		if n <= 0 || err != nil {
			return err // the client has gone
		}
		if bytes.IndexByte(b[:n], 0) < 0 {
			return errors.New("a command in two pieces")
		}
		p.waiting.Store(false)
		p.orders <- struct{}{}
	}
}

// work answers, and then lets the loop see the client again.
func (p *pollLoop) work() {
	for range p.orders {
		reply, err := p.answer()
		if err == nil {
			_, err = unix.Write(p.fd, reply)
		}
		if err != nil {
			p.workErr = errors.Join(p.workErr, err)
		}
		p.waiting.Store(true)
		if p.wake >= 0 {
			ring(p.wake)
		}
	}
}

// ring wakes who polls an eventfd.
func ring(fd int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(fd, one[:]) // fails only when it has been rung 2^64 times
}

// close ends the loop and its worker. The listener is closed.
func (p *pollLoop) close() error {
	ring(p.end)
	p.run.Wait()
	err := errors.Join(p.loopErr, p.workErr, unix.Close(p.end))
	if p.wake >= 0 {
		err = errors.Join(err, unix.Close(p.wake))
	}
	if p.client != nil {
		err = errors.Join(err, p.client.Close())
	}
	return err
}

package ingest

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxClosers is how many threads may wait in close(2) at once.
	maxClosers = 16
	// maxUnclosed is how many descriptors may wait to be closed until no further
	// ones are taken from senders.
	maxUnclosed = 1024
	// closeLimit is how long the end waits for close(2).
	closeLimit = time.Second
)

// closer closes descriptors that senders have passed, away from the goroutines
// that receive: close(2) of a socket that lingers, or of a file in a user's file
// system, takes as long as its owner likes.
//
//	close ─▶ fds ─▶ up to maxClosers goroutines, which end when fds is empty
//
// It never waits. With more than maxUnclosed descriptors the kernel is told to
// refuse messages with further ones (since Linux 6.16); before that the limit of
// the process is the bound, beyond which the kernel drops them.
type closer struct {
	shut   func(fd int) error // close(2)
	accept func(on bool)      // takes descriptors from senders, or not

	mu       sync.Mutex
	fds      []int // guarded by mu
	busy     int   // guarded by mu; goroutines
	refusing bool  // guarded by mu

	running sync.WaitGroup
}

func newCloser() *closer { return &closer{shut: unix.Close, accept: func(bool) {}} }

// close closes fd, at once if that cannot take long: a file in memory is all that
// an honest sender passes.
func (c *closer) close(fd int) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil {
		c.shut(fd) //nolint:errcheck // nothing was written to it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fds = append(c.fds, fd)
	if !c.refusing && len(c.fds) > maxUnclosed {
		c.refusing = true
		c.accept(false)
	}
	if c.busy < maxClosers {
		c.busy++
		c.running.Go(c.work)
	}
}

// work closes what there is.
func (c *closer) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.fds) > 0 {
		last := len(c.fds) - 1
		fd := c.fds[last]
		c.fds = c.fds[:last]
		c.mu.Unlock()
		c.shut(fd) //nolint:errcheck // nothing was written to it
		c.mu.Lock()
		if c.refusing && len(c.fds) < maxUnclosed/2 {
			c.refusing = false
			c.accept(true)
		}
	}
	c.fds = nil
	c.busy--
}

// end waits until everything is closed, but no longer than closeLimit: what
// close(2) still holds up then ends with the process. It is called once nothing
// is received any more.
func (c *closer) end() {
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}

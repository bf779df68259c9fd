package control

import (
	"context"

	"golang.org/x/sys/unix"
)

// watch returns a context that also ends when the client hangs up, so that a
// call nobody waits for any more gives its place back. done must be called
// before the connection is read again. A client that has only ended its own side
// still waits for its reply.
func (c *conn) watch(ctx context.Context) (watched context.Context, done func()) {
	watched, cancel := context.WithCancel(ctx)
	raw, wake, back, err := c.wire.lend()
	if err != nil {
		return watched, cancel
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gone := false
		look := func(fd uintptr) bool {
			p := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP and POLLERR are always told
			n, err := unix.Poll(p, 0)
			gone = err == nil && n > 0
			return gone
		}
		if raw.Read(look) != nil {
			// Woken by done, or by the end of the server: it may have come first.
			raw.Control(func(fd uintptr) { look(fd) }) //nolint:errcheck // a closed connection is nobody's
		}
		if gone {
			cancel()
		}
	}()
	return watched, func() {
		wake()
		<-ended
		back()
		cancel()
	}
}

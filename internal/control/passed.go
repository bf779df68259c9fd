package control

import (
	"golang.org/x/sys/unix"
)

// maxPassed is how many descriptors a message may bring.
const maxPassed = 2

// passedRoom is for how many a read has room. Those that do not fit are closed by
// the kernel, which marks the read.
const passedRoom = 2 * maxPassed

// passed are descriptors that came with a message. Whoever has them closes them.
type passed struct {
	fds  []int
	many bool // there were more than maxPassed, or some could not be received
	end  int64
}

// close closes what is left.
func (p *passed) close() {
	for _, fd := range p.fds {
		unix.Close(fd) //nolint:errcheck // nothing was written to it
	}
	p.fds = nil
}

// take hands the descriptors over to the caller.
func (p *passed) take() []int {
	fds := p.fds
	p.fds = nil
	return fds
}

// Read reads from the socket for nextMessage, and keeps the descriptors that come
// along. They belong to the message in which the bytes read end: the kernel lets a
// read go on behind bytes without descriptors, and ends it behind those that have
// some. (So who sends descriptors begins their message with a sendmsg of its own.)
func (c *conn) Read(b []byte) (int, error) {
	n, oob, flags, err := c.wire.recv(b, c.oob)
	if n < 0 { // with an error
		return 0, err
	}
	c.got += int64(n)
	if oob == 0 && flags&unix.MSG_CTRUNC == 0 {
		return n, err
	}
	now := passed{end: c.got, many: flags&unix.MSG_CTRUNC != 0}
	messages, parseErr := unix.ParseSocketControlMessage(c.oob[:oob])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i]) // not rights: none
		now.fds = append(now.fds, fds...)
	}
	now.many = now.many || parseErr != nil
	c.keep(now)
	return n, err
}

// keep adds descriptors to those that wait for their message to end. Before a read
// at most one message has begun, so there are those of two at most; what is too
// much is closed at once.
func (c *conn) keep(now passed) {
	held := 0
	for i := range c.waiting {
		held += len(c.waiting[i].fds)
	}
	if held+len(now.fds) > passedRoom {
		now.close()
		now.many = true
	}
	if n := len(c.waiting); n == maxPassed { // in tiny pieces, all of one message
		last := &c.waiting[n-1]
		last.fds = append(last.fds, now.fds...)
		last.many, last.end = true, now.end
		return
	}
	c.waiting = append(c.waiting, now)
}

// takePassed returns the descriptors of the message that next has returned.
func (c *conn) takePassed() (mine passed) {
	if len(c.waiting) == 0 {
		return passed{}
	}
	end := c.got - int64(len(c.buf)-c.start) // behind the message
	n := 0
	for ; n < len(c.waiting) && c.waiting[n].end <= end; n++ {
		mine.fds = append(mine.fds, c.waiting[n].fds...)
		mine.many = mine.many || c.waiting[n].many
	}
	c.waiting = append(c.waiting[:0], c.waiting[n:]...)
	mine.many = mine.many || len(mine.fds) > maxPassed
	return mine
}

// dropPassed closes what no message has got.
func (c *conn) dropPassed() {
	for i := range c.waiting {
		c.waiting[i].close()
	}
	c.waiting = nil
}

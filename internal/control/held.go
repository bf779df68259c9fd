package control

import "time"

// hold accounts for a buffer of size bytes. An error means that there is no room
// for it. A nil c is a client's side, which nobody bounds.
func (c *conn) hold(size int) error {
	if c == nil {
		return nil
	}
	if size <= firstBuffer {
		size = 0 // each connection may have that
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	more := size - c.held
	if more > 0 && (s.held+more > s.limits.Held || s.heldBy[c.uid]+more > s.limits.HeldPerUID) {
		return errTooMuch
	}
	s.account(c, size)
	return nil
}

// account sets what c holds. The caller has s.mu.
func (s *Server) account(c *conn, size int) {
	s.held += size - c.held
	if s.heldBy[c.uid] += size - c.held; s.heldBy[c.uid] == 0 {
		delete(s.heldBy, c.uid)
	}
	c.held = size
}

// begun is told before each read whether a message has begun: from then on it
// has messageTimeout to end.
func (c *conn) begun(half bool) {
	if c == nil || !half || c.half {
		return
	}
	c.half = true
	c.wire.limitReads(time.Now().Add(c.server.wait))
}

// whole is told that a message has ended.
func (c *conn) whole() {
	if c == nil || !c.half {
		return
	}
	c.half = false
	c.wire.limitReads(time.Time{})
}

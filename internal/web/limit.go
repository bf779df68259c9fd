package web

import (
	"net"
	"sync"
)

// limited bounds the open connections of a listener: one more waits in the
// kernel's queue until another has ended. A connection costs a descriptor, and a
// client may keep it as long as it likes; without a bound the descriptors that
// run out are those of the journal's files and of the commands.
type limited struct {
	net.Listener
	open  chan struct{} // holds a value for each connection
	ended chan struct{} // closed by Close
	once  sync.Once
}

func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, open: make(chan struct{}, n), ended: make(chan struct{})}
}

// Accept waits until fewer than the limit are open, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{Conn: c, open: l.open}, nil
}

// Close ends a waiting Accept too.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// limitedConn makes room when it is closed.
type limitedConn struct {
	net.Conn
	open <-chan struct{}
	once sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.open })
	return err
}

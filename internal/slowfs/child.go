package slowfs

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"sync/atomic"
	"syscall"
)

// childEnv is set for the process that Mount starts.
const childEnv = "TIDEMARK_SLOWFS_CHILD"

// Child does nothing but in the process that Mount has started: there it serves
// the file system until the test lets go of it, and exits. TestMain calls it
// first.
func Child() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child() error {
	socket := os.NewFile(3, "control")
	conn, err := net.FileConn(socket)
	if err != nil {
		return err
	}
	if err := socket.Close(); err != nil {
		return err
	}
	c := &control{}
	server := rpc.NewServer()
	if err := server.RegisterName("slowfs", c); err != nil {
		return err
	}
	server.ServeConn(&line{Conn: conn, gone: c.hangup}) // until the other end is closed, by death too
	if s := c.server.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// line is the connection to the test. When that hangs up nothing may wait any
// more, since ServeConn waits for the calls.
type line struct {
	net.Conn
	gone func()
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil {
		l.gone()
	}
	return n, err
}

// Request is what a test asks its file system for; net/rpc wants it exported.
type Request struct {
	Dir, Mnt string  // Start
	Options  Options // Start
	Rules    []Rule  // Set
	Call     Call    // Held and Calls
	N        int     // Held
	Seed     uint64  // Image
	Out      string  // Image
	Cut      bool    // Image
}

// control does it. Its exported methods are net/rpc's.
type control struct{ server atomic.Pointer[Server] }

func (c *control) hangup() {
	if s := c.server.Load(); s != nil {
		s.gate.end(0)
	}
}

// Start mounts, and comes before all else. refused says why this machine, or this user,
// cannot.
func (c *control) Start(r Request, refused *string) error {
	s, err := Serve(r.Dir, r.Mnt, r.Options)
	if err != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || os.Geteuid() != 0) {
		*refused = err.Error()
		return nil
	}
	c.server.Store(s)
	return err
}

// Set is Server.Set.
func (c *control) Set(r Request, _ *bool) error { return c.server.Load().Set(r.Rules...) }

// Held returns when N calls are held.
func (c *control) Held(r Request, _ *bool) error { return c.server.Load().gate.waitHeld(r.Call, r.N) }

// Calls is Server.Calls.
func (c *control) Calls(r Request, n *int) error {
	*n = c.server.Load().Calls(r.Call)
	return nil
}

// Image is Server.Image, and with Cut that.
func (c *control) Image(r Request, _ *bool) error {
	if r.Cut {
		return c.server.Load().Cut(r.Seed, r.Out)
	}
	return c.server.Load().Image(r.Seed, r.Out)
}

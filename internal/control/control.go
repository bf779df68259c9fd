// Package control is the command door of the daemon: a varlink server with the
// interfaces io.systemd.Journal (what journalctl --sync and --rotate speak),
// org.varlink.service and dev.tidemark.Log, and the client that the verbs use.
//
// Every connection has a goroutine of its own and calls the Daemon directly:
// a slow command delays neither another client's command nor the next command
// on a connection that is idle. Replies of one connection come in the order of
// its calls. The first connections have threads of their own, too, so that a
// flood of messages delays their commands by no more than the kernel needs to
// wake a thread.
package control

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// Daemon is what the door needs of the process behind it. Its methods are
// called concurrently.
type Daemon interface {
	// Synchronize returns nil when everything received before the call is
	// synced.
	Synchronize(ctx context.Context) error
	// Rotate archives the current files and begins new ones. It waits for no sync:
	// the files before may still be on their way.
	Rotate(ctx context.Context) error
	// Archived returns nil when every file that was rotated before the call is an
	// archive, which says so in its header and is synced.
	Archived(ctx context.Context) error
	// Append stores entries of a client and returns when they have reached the
	// level, or the one of the sync policy if that is higher. It waits while a
	// buffer is full, not while the disk is. With an error, too, it returns how far
	// they came. It may append to the entries' fields.
	Append(ctx context.Context, from Peer, entries []entry.Entry, level settle.Level) (Appended, error)
	// OpenLines takes over two descriptors of a client's file, also with an error: one
	// with O_APPEND, and one without for repair, or -1 if it has passed none. An error that is a RefusedError says
	// what is wrong with them.
	OpenLines(ctx context.Context, from Peer, appending, repairing int) (Lines, error)
	// Look has st describe the daemon at this moment, and may use its lists again. It
	// waits for nothing.
	Look(st *Status)
}

// Limits of a Server. A zero field means its default.
type Limits struct {
	// Message bounds one call or reply in bytes. 0: DefaultMessage.
	Message int
	// Conns bounds the open connections. 0: DefaultConns.
	Conns int
	// ConnsPerUID bounds the open connections of one user. 0: DefaultConnsPerUID.
	ConnsPerUID int
	// Threads bounds the connections with a thread of their own; one user has a
	// quarter of them. Less than 0: none has. 0: DefaultThreads.
	Threads int
	// Held bounds the bytes of buffers over 4 KiB, in which messages are that have
	// not ended; HeldPerUID those of one user. Who exceeds it is closed. 0:
	// DefaultHeld, DefaultHeldPerUID; both allow at least one whole message.
	Held, HeldPerUID int
}

// Defaults of Limits; the first three are those of systemd's varlink server.
const (
	DefaultMessage     = 16 << 20
	DefaultConns       = 4096
	DefaultConnsPerUID = 128
	DefaultThreads     = 32
	DefaultHeld        = 128 << 20
	DefaultHeldPerUID  = 32 << 20
)

// replyTimeout is how long a client may leave a reply unread before its
// connection is closed.
const replyTimeout = 10 * time.Second

// messageTimeout is how long a message may take from its first byte to its last.
const messageTimeout = 30 * time.Second

// lastTimeout is how long who has connected with the last descriptor may take for
// its call.
const lastTimeout = time.Second

// acceptBackoff is how long accepting rests when the process is out of
// descriptors, unless one of our own connections ends earlier.
const acceptBackoff = time.Second

// Server answers commands. Build it with New.
type Server struct {
	daemon Daemon
	info   Info
	limits Limits
	owner  uint32        // uid of the daemon, allowed to command it besides root
	wait   time.Duration // messageTimeout
	unread time.Duration // replyTimeout
	rest   time.Duration // acceptBackoff
	short  time.Duration // lastTimeout

	statuses sync.Pool // of *keptStatus: those not in use

	reserve Reserve // for a connection when there is no other descriptor

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu
	perUID map[uint32]int     // guarded by mu; no zero values
	owning map[uint32]int     // guarded by mu; connections with a thread of their own, by user; no zero values
	owned  int                // guarded by mu; their sum
	held   int                // guarded by mu; bytes of large buffers
	heldBy map[uint32]int     // guarded by mu; by user; no zero values
	slow   map[uint32]int     // guarded by mu; calls in progress that may wait for the disk; no zero values
	filed  map[uint32]int     // guarded by mu; connections with a file, by user; no zero values
	ending bool               // guarded by mu; no new connections

	freed   chan struct{} // capacity 1: a connection has ended
	running sync.WaitGroup
}

// Info is what GetInfo answers.
type Info struct {
	Vendor, Product, Version, URL string
}

// New builds a server in front of d.
func New(d Daemon, info Info, l Limits) *Server {
	if l.Message <= 0 {
		l.Message = DefaultMessage
	}
	if l.Conns <= 0 {
		l.Conns = DefaultConns
	}
	if l.Held <= 0 {
		l.Held = DefaultHeld
	}
	if l.HeldPerUID <= 0 {
		l.HeldPerUID = DefaultHeldPerUID
	}
	l.HeldPerUID = max(l.HeldPerUID, l.Message+firstBuffer)
	l.Held = max(l.Held, l.HeldPerUID)
	if l.ConnsPerUID <= 0 {
		l.ConnsPerUID = DefaultConnsPerUID
	}
	if l.Threads == 0 {
		l.Threads = DefaultThreads
	}
	return &Server{
		daemon: d,
		info:   info,
		limits: l,
		owner:  uint32(os.Geteuid()),
		wait:   messageTimeout,
		unread: replyTimeout,
		rest:   acceptBackoff,
		short:  lastTimeout,
		conns:  make(map[*conn]struct{}),
		perUID: make(map[uint32]int),
		owning: make(map[uint32]int),
		slow:   make(map[uint32]int),
		filed:  make(map[uint32]int),
		heldBy: make(map[uint32]int),
		freed:  make(chan struct{}, 1),
	}
}

// Serve accepts connections on l until ctx is done. Then it closes l and the
// idle connections, lets calls in progress finish and returns nil. An error
// means that l cannot accept any more.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() {
		l.Close() //nolint:errcheck // Accept reports it
		f.Close() //nolint:errcheck // nothing was written to it
		s.endIdle()
	})
	defer stop()
	err = s.acceptAll(ctx, l, f)
	s.endIdle()
	s.running.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// f is a second descriptor of l.
func (s *Server) acceptAll(ctx context.Context, l *net.UnixListener, f *os.File) error {
	s.reserve.Fill()
	defer s.reserve.Empty()
	for {
		nc, err := l.AcceptUnix()
		last := false
		if ctx.Err() == nil && isShort(err) {
			if waitErr := waitPending(f); waitErr != nil && ctx.Err() == nil {
				return waitErr
			}
			for ctx.Err() == nil && isShort(err) && s.reserve.Spend() {
				last = true
				nc, err = l.AcceptUnix()
			}
		}
		switch {
		case err == nil && !last:
			s.admit(ctx, nc, false)
			continue
		case err == nil:
			// Nobody else is to have its descriptor when it is done, but the reserve.
			s.admit(ctx, nc, true)
		case ctx.Err() != nil || !isShort(err):
			return err
		}
		rest := time.NewTimer(s.rest)
		select {
		case <-rest.C:
		case <-s.freed:
		case <-ctx.Done():
		}
		rest.Stop()
		s.reserve.Fill()
	}
}

// waitPending waits until somebody wants to connect, or f is closed: accept4(2) fails
// for lack of a descriptor before it looks.
func waitPending(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil
	})
}

// isShort reports whether the kernel may have later what it has not now.
func isShort(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit starts the goroutine of one connection, or closes it when there are
// too many. The last one has the reserved descriptor: it may stay for one call.
func (s *Server) admit(ctx context.Context, nc *net.UnixConn, last bool) {
	refuse := func() {
		nc.Close() //nolint:errcheck // nothing was said on it
		if last {
			s.reserve.Fill()
		}
	}
	from, err := peer(nc)
	if err != nil {
		refuse()
		return
	}
	uid := from.UID
	c := &conn{server: s, wire: polled{nc, s}, uid: uid, from: from, last: last, oob: make([]byte, unix.CmsgSpace(4*passedRoom))}
	s.mu.Lock()
	if s.ending || len(s.conns) >= s.limits.Conns || s.perUID[uid] >= s.limits.ConnsPerUID {
		s.mu.Unlock()
		refuse()
		return
	}
	if !last && s.owned < s.limits.Threads && s.owning[uid] < max(1, s.limits.Threads/4) {
		// Without a descriptor to spare it stays in the poller.
		if t, err := newThreaded(nc); err == nil {
			c.wire, c.own = t, true
			s.owning[uid]++
			s.owned++
		}
	}
	s.conns[c] = struct{}{}
	s.perUID[uid]++
	s.mu.Unlock()
	// A call that has begun is answered even when the server is ending.
	callCtx := context.WithoutCancel(ctx)
	s.running.Go(func() {
		defer s.forget(c)
		if c.own {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		c.serve(callCtx)
	})
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.account(c, 0)
	lessOf(s.perUID, c.uid)
	if c.own {
		lessOf(s.owning, c.uid)
		s.owned--
	}
	s.mu.Unlock()
	c.wire.Close() //nolint:errcheck // the peer may be gone already
	if c.last {
		s.reserve.Fill()
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// beginSlow reports whether the user may wait for the disk once more: others of
// his connections are kept for commands that do not, such as Status.
func (s *Server) beginSlow(uid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow[uid] >= max(1, s.limits.ConnsPerUID/2) || !s.roomForSlow(uid) {
		return false
	}
	s.slow[uid]++
	return true
}

func (s *Server) endSlow(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lessOf(s.slow, uid)
}

// lessOf counts one down.
func lessOf(m map[uint32]int, uid uint32) {
	if m[uid]--; m[uid] == 0 {
		delete(m, uid)
	}
}

// endIdle refuses new connections and ends the wait for the next call on the
// ones there are.
func (s *Server) endIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.conns {
		c.wire.endReads()
	}
}

// unlessEnding calls f, unless the server is ending: then no read is to begin any
// more.
func (s *Server) unlessEnding(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending {
		f()
	}
}

// peer asks the kernel who has connected.
func peer(nc *net.UnixConn) (Peer, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil {
		return Peer{}, err
	}
	if credErr != nil {
		return Peer{}, credErr
	}
	return Peer{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid, Since: time.Now()}, nil
}

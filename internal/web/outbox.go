package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// outbox sends answers of a listener's connections once their lines in the access log
// are synced. A request that waited in its handler would cost a wake-up of its own,
// and two more for net/http, which looks meanwhile whether the client has gone. So
// the handler returns, what net/http writes stays in the connection, and one
// goroutine, that of a settler, waits for the sync and sends everything that it covers.
//
// The positions of the settler are the answers, in the order in which they became due.
// It gathers for their clients, as the log would, to which an outbox is one caller.
type outbox struct {
	s       *Server
	settler *settle.Settler
	gone    chan struct{}      // closed when all is sent, after the end
	ctx     context.Context    //nolint:containedctx // done when end gives up waiting for the disk
	cancel  context.CancelFunc // ends ctx: nothing is waited for any more
	rests   sync.WaitGroup     // answers for which a client has no room

	list   []dueAnswer // those that a sync is for; used by the effect and by answer only, as what follows
	failed error       // of that sync

	ended atomic.Bool // nothing new is taken; set under mu

	mu  sync.Mutex // guards what follows
	due []dueAnswer
	all uint64 // how many have become due so far
}

// dueAnswer is an answer that waits for a line.
type dueAnswer struct {
	c   *lateConn
	pos linelog.Pos
}

// newOutbox returns an outbox and starts its goroutine, which runs until end.
func newOutbox(ctx context.Context, s *Server) *outbox {
	b := &outbox{s: s, gone: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.settler = settle.New(b.wait, settle.Options{Policy: settle.All(), Gather: settle.GatherForSyncs(), Answer: b.answer})
	return b
}

// add makes an answer due. At the end there is nobody to leave it to.
func (b *outbox) add(c *lateConn, pos linelog.Pos) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended.Load() {
		return false
	}
	b.due = append(b.due, dueAnswer{c, pos})
	b.all++
	b.settler.Mark(b.all) // with mu held: so it never comes after the settler was closed
	return true
}

// wait is the effect: it waits for the lines of all answers that are due.
func (b *outbox) wait(uint64) (uint64, error) {
	b.mu.Lock()
	b.list, b.due = b.due, b.list[:0]
	all := b.all
	b.mu.Unlock()
	var last linelog.Pos
	for i := range b.list {
		last = max(last, b.list[i].pos)
	}
	b.failed = waitSynced(b.ctx, b.s.cfg.AccessLog, last)
	return all, nil
}

// answer sends the answers that wait has waited for. Each is asked for itself when the
// last has been synced: of a file that was set aside some may be lost.
func (b *outbox) answer(_ uint64, failed error) {
	if failed == nil { // the log has not panicked
		failed = b.failed
	}
	log, ctx := b.s.cfg.AccessLog, b.ctx
	if failed != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended // those that an earlier sync has covered are answered all the same
	}
	for i := range b.list {
		err := log.Wait(ctx, b.list[i].pos, settle.Synced)
		if err != nil {
			b.s.counts.unlogged.Add(1)
			if failed != nil {
				err = failed
			}
		}
		b.list[i].c.send(err)
	}
	clear(b.list)
	b.list = b.list[:0]
}

// end has everything sent that is due, and waits for that until ctx ends. Then nothing
// is waited for any more but a sync that the system does not return from.
func (b *outbox) end(ctx context.Context) {
	b.mu.Lock()
	b.ended.Store(true)
	b.mu.Unlock()
	go func() {
		defer close(b.gone)
		b.settler.Close() //nolint:errcheck // the clients are told
		b.rests.Wait()
	}()
	select {
	case <-b.gone:
	case <-ctx.Done():
	}
	b.cancel()
}

// waitSynced waits until the line at pos is synced.
func waitSynced(ctx context.Context, log AccessLog, pos linelog.Pos) error {
	err := log.Wait(ctx, pos, settle.Synced)
	if errors.Is(err, linelog.ErrSync) {
		// Its file was set aside. The line is written to a fresh one.
		err = log.Wait(ctx, pos, settle.Synced)
	}
	return err
}

// lateListener has an outbox for what its connections answer.
type lateListener struct {
	net.Listener
	box *outbox
}

// Accept returns a lateConn.
func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newLateConn(c, l.box), nil
}

// lateKey is where the context of a request has its lateConn.
type lateKey struct{}

// withLateConn is a http.Server's ConnContext.
func withLateConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, lateKey{}, c)
}

// lateConn is a connection that keeps an answer until its line is synced. It keeps one
// at a time: the next request's waits in its handler, so answers stay in order, and
// what is kept is bounded by maxHeld.
//
// Who writes is the goroutine of net/http, which never writes twice at a time.
type lateConn struct {
	net.Conn
	box *outbox
	raw syscall.RawConn       // nil if the system is not asked directly
	try func(fd uintptr) bool // writes out, sets n and err

	mu      sync.Mutex // guards what follows
	idle    sync.Cond  // on mu: neither held nor sending, or closing
	pos     linelog.Pos
	held    bool   // what is written goes to out
	due     bool   // the outbox has it
	sending bool   // a goroutine writes what the client had no room for
	closing bool   // Close was called: done when nothing is due or sending
	ping    bool   // the answer is replaced if its line is not synced
	head    bool   // by one without a body
	out     []byte // of the answer, not sent
	n       int
	err     error
}

func newLateConn(c net.Conn, b *outbox) *lateConn {
	l := &lateConn{Conn: c, box: b}
	l.idle.L = &l.mu
	l.try = func(fd uintptr) bool {
		l.n, l.err = syscall.Write(int(fd), l.out)
		return true // without waiting for room
	}
	if s, ok := inner(c).(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn()
	}
	return l
}

// inner is the connection that a limited one counts.
func inner(c net.Conn) net.Conn {
	if l, ok := c.(*limitedConn); ok {
		return l.Conn
	}
	return c
}

// hold keeps what is written from now on, the answer to r, until the line at pos is
// synced. It waits until the answer before has left, and returns false if this one has
// to wait by itself.
func (c *lateConn) hold(pos linelog.Pos, r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for (c.held || c.sending) && !c.closing {
		c.idle.Wait()
	}
	if c.closing || c.box.ended.Load() {
		return false
	}
	c.pos, c.held = pos, true
	c.ping, c.head = r.URL.Path == pingPath, r.Method == http.MethodHead
	return true
}

// Write keeps p, or sends it behind what was kept.
func (c *lateConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	for c.sending && !c.closing {
		c.idle.Wait()
	}
	if !c.held {
		c.mu.Unlock()
		return c.Conn.Write(p)
	}
	c.out = append(c.out, p...)
	begins := !c.due
	c.due = true
	pos := c.pos
	c.mu.Unlock()
	if begins && !c.box.add(c, pos) {
		if err := c.sendHere(pos); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// sendHere waits for the line at pos and sends what is kept.
func (c *lateConn) sendHere(pos linelog.Pos) error {
	failed := waitSynced(c.box.ctx, c.box.s.cfg.AccessLog, pos)
	if failed != nil {
		c.box.s.counts.unlogged.Add(1)
	}
	c.mu.Lock()
	shut := c.settled(failed)
	p := c.out
	c.out, c.sending = nil, true
	c.mu.Unlock()
	_, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = false
	c.sent(shut, err)
	return err
}

// settled takes note that what is kept may be sent, as PONG only without an error.
// With one nothing is to follow. Called with mu held.
func (c *lateConn) settled(failed error) (shut bool) {
	c.held, c.due = false, false
	if failed == nil || !c.ping {
		return false
	}
	c.out = append(c.out[:0], unsynced(failed, c.head)...)
	return true
}

// send sends what is kept. It never waits for the client: what there is no room for is
// left to a goroutine. With an error PONG is not said.
func (c *lateConn) send(failed error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shut := c.settled(failed)
	c.n, c.err = 0, nil
	if c.raw == nil || c.raw.Write(c.try) != nil {
		c.err = syscall.EAGAIN // or it is closed, which the goroutine is told
	}
	c.n = max(c.n, 0)
	if rest := c.out[c.n:]; len(rest) > 0 && (c.err == nil || errors.Is(c.err, syscall.EAGAIN) || errors.Is(c.err, syscall.EINTR)) {
		c.sending, c.out = true, nil
		if c.closing {
			c.Conn.SetWriteDeadline(time.Now().Add(Grace)) //nolint:errcheck // the write tells
		}
		c.box.rests.Add(1)
		go c.rest(rest, shut)
		return
	}
	c.out = c.out[:0]
	c.sent(shut, c.err)
}

// rest writes what the client had no room for.
func (c *lateConn) rest(p []byte, shut bool) {
	defer c.box.rests.Done()
	_, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = false
	c.sent(shut, err)
}

// sent is what is done after an answer. Called with mu held.
func (c *lateConn) sent(shut bool, err error) {
	c.idle.Broadcast()
	switch w, ok := inner(c.Conn).(interface{ CloseWrite() error }); {
	case c.closing, err != nil:
		c.Conn.Close() //nolint:errcheck // who reads is told
	case shut && ok:
		w.CloseWrite() //nolint:errcheck // the client has gone, then
	case shut:
		c.Conn.Close() //nolint:errcheck // who reads is told
	}
}

// Close closes the connection when its answer is sent. A client that does not take it
// has Grace.
func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	c.idle.Broadcast()
	switch {
	case c.sending:
		return c.Conn.SetWriteDeadline(time.Now().Add(Grace))
	case c.due:
		return nil
	}
	return c.Conn.Close()
}

// unsynced is what a client of /ping is told whose line is not synced.
func unsynced(err error, head bool) []byte {
	text := unsyncedText(err) + "\n"
	r := http.Response{
		StatusCode: http.StatusServiceUnavailable, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}},
		ContentLength: int64(len(text)),
		Body:          io.NopCloser(strings.NewReader(text)),
	}
	if head {
		r.Request = &http.Request{Method: http.MethodHead}
	}
	var b bytes.Buffer
	r.Write(&b) //nolint:errcheck // to memory
	return b.Bytes()
}

// unsyncedText says why PONG is not said.
func unsyncedText(err error) string { return "the access log cannot be synced: " + err.Error() }

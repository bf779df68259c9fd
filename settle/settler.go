package settle

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultRetry is the first back-off after a failed effect that is not sticky.
const DefaultRetry = 100 * time.Millisecond

// maxBackoff bounds the back-off, as a multiple of Options.Retry.
const maxBackoff = 10

// ErrClosed is returned to those who wait for a position that Close has left
// unsettled, or that was never marked.
var ErrClosed = errors.New("settler is closed")

// ErrShort is the error of an effect that returned no error and yet covered
// less than it was told to.
var ErrShort = errors.New("effect covered less than was marked")

// ErrGoexit is the error of an effect that ended its goroutine.
var ErrGoexit = errors.New("effect called runtime.Goexit")

// PanicError is the error of an effect that panicked.
type PanicError struct {
	Value any    // what the effect panicked with
	Stack []byte // where, as debug.Stack prints it
}

// Error says what the effect panicked with, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("effect panicked: %v", e.Value) }

// Unwrap returns the value of the panic if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Effect does what everything up to upTo owes and tells how far it came. upTo
// was read before the call. With a nil error covered must be at least upTo, and
// may be more, if the effect itself looked how far it could go before it did
// its work. With an error covered is ignored: nothing counts as settled.
//
// An effect is called from the settler's goroutine or from that of a waiter,
// never twice at a time. It must not wait on, settle or close its own settler.
type Effect func(upTo uint64) (covered uint64, err error)

// Options are the properties of an effect. The zero value is an effect that
// runs on demand and may be tried again.
type Options struct {
	Policy  Policy // when the effect runs without being asked; zero: Auto
	Leading bool   // with Every: the first mark after a quiet window is settled at once
	Sticky  bool   // a failed effect is final

	// Window, if not nil, makes the window of an Every policy change from one to
	// the next: it answers how long the window that opens now shall last. More
	// than the policy's is that; 0 or less has the effect begin at once. It is
	// called by who marks, or by who has run an effect, under the settler's lock:
	// it must be quick and must not call the settler. Other policies do not ask.
	Window func() time.Duration

	Retry time.Duration // back-off after the first failure, not sticky; 0: DefaultRetry
	Start uint64        // position that is marked and settled from the beginning

	// Gather has callers come together before an effect that is short; zero: not.
	Gather Gather

	// Answer, if not nil, is told of every effect what it covered (0 with an error) and
	// its error, so that the owner can answer callers of its own, each of which is one
	// position. It is called by who ran the effect, outside locks, before the next
	// effect begins. What it takes is no part of the effect's length, and who is marked
	// meanwhile is taken for one of those it has answered.
	Answer func(covered uint64, err error)

	// Observe, if not nil, is told of every effect: how long it ran, what it
	// covered (0 with an error) and its error. It is called by who ran the
	// effect, outside locks, before anyone who waits is answered and before the
	// next effect begins; so it must be quick, and is never called twice at a
	// time.
	Observe func(d time.Duration, covered uint64, err error)
}

// phase is a settler's life.
type phase uint8

const (
	open    phase = iota // the goroutine runs
	closing              // Close has begun: it alone chooses the next effect
	closed               // nothing is scheduled any more
)

// nobody is the watch when no mark needs attention.
const nobody uint64 = math.MaxUint64

// Settler runs one effect for many marks. All methods may be called
// concurrently. It owns one goroutine, which Close joins.
type Settler struct {
	marked  atomic.Uint64 // grows without mu
	settled atomic.Uint64 // grows under mu
	watch   atomic.Uint64 // a mark at or past this must call attend; written under mu

	effect Effect
	o      Options
	bell   *Bell         // wakes the goroutine
	timer  *time.Timer   // wakes it later; set under mu
	done   chan struct{} // closed when Close has decided everything
	gone   chan struct{} // closed when the goroutine has returned

	idlers sync.Pool // of *waiter: those not in use

	mu       sync.Mutex    // guards what follows; never held during an effect
	phase    phase         //
	busy     bool          // an effect runs, or the one to run it is chosen
	upTo     uint64        // snapshot of the running effect, else of the last one
	armed    bool          // marks past upTo and settled are known about
	since    time.Time     // armed: when the first of them was made
	window   time.Duration // armed: how long the window lasts that it opened
	began    time.Time     // when the last effect began; zero: never
	backoff  time.Duration // last back-off; 0: the last effect did not fail
	retry    time.Time     // backoff > 0: when to try again
	urged    uint64        // position Urge asked for; 0: none
	err      error         // of the last effect; final if Sticky
	alarm    time.Time     // what timer is set to; zero: stopped
	waiters  []*waiter     // unanswered, all past settled
	g        gather        // waiting for more of them
	spare    []*waiter     // empty slice, to be used again by answer
	idle     sync.Cond     // on mu: busy became false, after phase left open
	closeErr error         // phase closed: what Close returned
}

// New returns a settler for effect and starts its goroutine, which runs until
// Close.
func New(effect Effect, o Options) *Settler {
	if o.Retry <= 0 {
		o.Retry = DefaultRetry
	}
	s := &Settler{
		effect: effect,
		o:      o,
		bell:   NewBell(),
		timer:  time.NewTimer(time.Hour),
		done:   make(chan struct{}),
		gone:   make(chan struct{}),
	}
	s.timer.Stop()
	s.g.gate, s.g.short = gatherGate, o.Gather
	s.idle.L = &s.mu
	s.idlers.New = func() any { return &waiter{c: make(chan verdict, 1)} }
	s.marked.Store(o.Start)
	s.settled.Store(o.Start)
	go s.run()
	return s
}

// Mark says that everything up to pos has been appended and is to be settled.
// It never blocks and never allocates; a pos at or below an earlier one says
// nothing new. What is marked must be visible to the effect before the call.
//
// After Close it runs the effect itself, at once, since nobody else would.
func (s *Settler) Mark(pos uint64) {
	// First the mark, then the look at watch; see arm for the other side.
	if raise(&s.marked, pos) && pos >= s.watch.Load() {
		s.attend()
	}
}

// attend is Mark's slow path: the first mark of a window, a mark that somebody
// already waits for, or one after Close.
func (s *Settler) attend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == open:
		s.arm(time.Now())
		if !s.busy {
			s.recount() // the mark may be one that a waiter waits for
			s.dispatch()
		}
	case s.phase == closed && !s.busy:
		s.finishOff()
	}
	// Else Close, or a mark like this one, runs the effect and looks again when
	// it ends.
}

// Urge has an effect begun for everything marked so far as soon as the running
// one has ended, and does not wait for it. After Close it does nothing.
func (s *Settler) Urge() {
	m := s.marked.Load()
	if m <= s.settled.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != open || s.final() || m <= s.settled.Load() {
		return
	}
	s.urged = max(s.urged, m)
	if !s.busy {
		s.dispatch()
	}
}

// Marked returns the highest position marked.
func (s *Settler) Marked() uint64 { return s.marked.Load() }

// Settled returns the position up to which the effect is known to have covered
// everything.
func (s *Settler) Settled() uint64 { return s.settled.Load() }

// Err returns the error of the last effect, nil if it succeeded or none has
// run. With Sticky an error stays for ever.
func (s *Settler) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close settles what is pending, in one attempt, answers every waiter and joins
// the goroutine. It returns the error of that attempt, or the final one of a
// sticky effect; called again it returns the same. It blocks as long as the
// running effect and its own take, and marks that keep coming keep it at work:
// the owner stops marking first.
//
// Afterwards Wait answers nil up to Settled, and past it ErrClosed or the final
// error.
func (s *Settler) Close() error {
	s.mu.Lock()
	if s.phase != open {
		s.mu.Unlock()
		<-s.done
		<-s.gone
		return s.closeErr
	}
	s.phase = closing
	s.arm(time.Now()) // marks call attend from here on
	for s.busy {
		s.idle.Wait()
	}
	s.finishOff()
	s.phase = closed
	s.closeErr = s.err
	if s.settled.Load() >= s.marked.Load() && !s.final() {
		s.closeErr = nil
	}
	left := s.waiters
	s.waiters = nil
	err := s.closedErr()
	for _, w := range left {
		w.listed = false
	}
	s.mu.Unlock()
	for _, w := range left {
		w.c <- verdict{err: err}
	}
	close(s.done)
	s.bell.Ring()
	<-s.gone
	return s.closeErr
}

// finishOff runs the effect until nothing is owed, or everything that is owed has
// been tried. Called with mu held, not busy, after phase has left open.
//
// The last look at marked and the end of busy are one step under mu, and a mark
// that attend leaves to a busy one was made before that step:
//
//	Mark                          finishOff                      forbidden
//	                              effect ends, marked == settled
//	marked = 7
//	attend: busy, leave it
//	                              busy = false                   7 is nobody's
func (s *Settler) finishOff() {
	for !s.busy && s.marked.Load() > s.settled.Load() && !s.final() {
		s.busy = true
		if s.attempt(0) != nil && s.marked.Load() <= s.upTo {
			return
		}
	}
}

// closedErr is what a waiter past settled gets when the settler has closed.
// Called with mu held.
func (s *Settler) closedErr() error {
	switch {
	case s.err == nil:
		return ErrClosed
	case s.o.Sticky:
		return s.err
	}
	return fmt.Errorf("%w: %w", ErrClosed, s.err)
}

// final tells whether no effect may run again. Called with mu held.
func (s *Settler) final() bool { return s.o.Sticky && s.err != nil }

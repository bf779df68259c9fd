package settle

import (
	"context"
	"runtime"
	"slices"
)

// largeGroup is how many callers an effect may begin for at once.
const largeGroup = 64

// waiter is somebody who waits for a position.
type waiter struct {
	pos    uint64
	c      chan verdict // capacity 1: one verdict for each time it was listed
	listed bool         // in Settler.waiters; guarded by Settler.mu
}

// verdict ends a wait.
type verdict struct {
	lead bool  // not ended: the effect is the waiter's to run; busy is set
	err  error // lead false: what Wait returns
}

// Wait returns nil as soon as everything up to pos is settled. It is a demand:
// if pos is marked, an effect begins as soon as the running one has ended; one
// who is alone runs it himself. If pos is not marked yet, Wait waits for the
// mark, and then it is settled at once.
//
// An error is that of the effect that should have covered pos, the final error
// of a sticky effect, ErrClosed, or the context's. It says that pos is not known
// to be settled, not that it never will be. A context that ends while the
// caller itself runs the effect is not looked at until the effect has ended.
func (s *Settler) Wait(ctx context.Context, pos uint64) error {
	if pos <= s.settled.Load() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if done, err := s.known(pos); done {
		s.mu.Unlock()
		return err
	}
	marked := pos <= s.marked.Load()
	if s.phase == open && !s.busy && marked && !s.g.holds(1) {
		s.busy = true
		s.g.queued++
		return s.lead(pos)
	}
	w := s.enlist(pos, marked)
	if s.phase == open && !s.busy {
		s.dispatch() // pos may have been marked just now: then w is to lead
	}
	s.mu.Unlock()

	select {
	case v := <-w.c:
		return s.conclude(w, v)
	case <-ctx.Done():
	}
	return s.leave(w, ctx.Err())
}

// Settle waits for everything marked when it is called. Its errors are those of
// Wait.
func (s *Settler) Settle(ctx context.Context) error { return s.Wait(ctx, s.marked.Load()) }

// MarkAndWait is Mark and then Wait for the same position, for one who works alone: if
// no effect runs he runs it himself, at once, and nobody is woken for it.
func (s *Settler) MarkAndWait(ctx context.Context, pos uint64) error {
	if err := ctx.Err(); err != nil || !raise(&s.marked, pos) {
		s.Mark(pos)
		return s.Wait(ctx, pos)
	}
	s.mu.Lock()
	if s.phase == open && !s.busy && !s.final() && pos > s.settled.Load() && !s.g.holds(1) {
		defer s.mu.Unlock() // also if the effect ends the goroutine
		s.busy = true
		s.g.queued++
		return s.attemptFor(pos)
	}
	s.mu.Unlock()
	if pos >= s.watch.Load() { // as Mark
		s.attend()
	}
	return s.Wait(ctx, pos)
}

// Lead is for who waits for something that comes after this effect, at another settler:
// if pos is marked, not settled, and no effect runs, the caller runs one, as Wait would.
// Else it returns nil at once, whether or not pos will be settled, or the error that Wait
// would return without waiting.
func (s *Settler) Lead(pos uint64) error {
	if pos <= s.settled.Load() {
		return nil
	}
	s.mu.Lock()
	if done, err := s.known(pos); done {
		s.mu.Unlock()
		return err
	}
	if s.phase == open && !s.busy && pos <= s.marked.Load() && !s.g.holds(1) {
		s.busy = true
		s.g.queued++
		return s.lead(pos)
	}
	s.mu.Unlock()
	return nil
}

// Fail answers err to those who wait for a position up to upTo that is not marked: what
// they wait for has failed. It changes nothing else; the position may be marked later.
func (s *Settler) Fail(upTo uint64, err error) {
	s.mu.Lock()
	m := s.marked.Load()
	var failed []*waiter
	s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool {
		if w.pos <= m || w.pos > upTo {
			return false
		}
		w.listed = false
		failed = append(failed, w)
		return true
	})
	s.publishWatch()
	s.mu.Unlock()
	for _, w := range failed {
		w.c <- verdict{err: err}
	}
}

// known answers a wait that needs no waiting. Called with mu held.
func (s *Settler) known(pos uint64) (done bool, err error) {
	switch {
	case pos <= s.settled.Load():
		return true, nil
	case s.final():
		return true, s.err
	case s.phase == closed:
		return true, s.closedErr()
	}
	return false, nil
}

// lead runs one effect for a caller who waits for pos, which is marked. Called
// with mu held and busy set for this caller; returns with mu released.
//
// First everyone else who can run has a turn, who may be about to mark and wait:
// on busy processors groups become larger by that, and it costs one who is alone
// less than a microsecond. A group that is large does not grow by as much as the effect
// would begin later: on two processors 200 callers got 10 to 20 % less done.
func (s *Settler) lead(pos uint64) error {
	defer s.mu.Unlock() // also if the effect ends the goroutine
	if s.demands() < largeGroup {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	return s.attemptFor(pos)
}

// attemptFor is attempt for a caller who waits for pos.
func (s *Settler) attemptFor(pos uint64) error {
	err := s.attempt(1)
	if pos <= s.settled.Load() {
		return nil
	}
	return err
}

// enlist adds a waiter for pos. Unless that is marked, it has a mark at pos call
// attend, and the caller looks at marked after it: see arm. Called with mu held.
func (s *Settler) enlist(pos uint64, marked bool) *waiter {
	w, _ := s.idlers.Get().(*waiter)
	w.pos, w.listed = pos, true
	s.waiters = append(s.waiters, w)
	switch {
	case marked:
		s.g.queued++
	case pos < s.watch.Load():
		s.watch.Store(pos)
	}
	return w
}

// conclude acts on a verdict and gives w back.
func (s *Settler) conclude(w *waiter, v verdict) error {
	pos := w.pos
	s.idlers.Put(w)
	if !v.lead {
		return v.err
	}
	s.mu.Lock()
	return s.lead(pos)
}

// leave ends a wait whose context has ended, unless the verdict was faster.
func (s *Settler) leave(w *waiter, cause error) error {
	s.mu.Lock()
	if w.listed {
		for i, x := range s.waiters {
			if x == w {
				n := len(s.waiters) - 1
				s.waiters[i] = s.waiters[n]
				s.waiters[n] = nil
				s.waiters = s.waiters[:n]
				break
			}
		}
		w.listed = false
		s.recount()
		s.mu.Unlock()
		s.idlers.Put(w)
		return cause
	}
	s.mu.Unlock()
	v := <-w.c // decided already
	s.idlers.Put(w)
	if !v.lead {
		return v.err
	}
	// Chosen to run an effect that this caller no longer wants: somebody else's
	// turn.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recount()
	s.release()
	return cause
}

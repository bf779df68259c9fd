package settle

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// run is the settler's goroutine. It runs the effects that nobody leads.
func (s *Settler) run() {
	returned := false
	defer func() {
		if returned {
			close(s.gone)
			return
		}
		go s.run() // an effect ended the goroutine; attempt has seen to the rest
	}()
	for {
		select {
		case <-s.bell.C():
		case <-s.timer.C:
		}
		if !s.turn() {
			returned = true
			return
		}
	}
}

// turn runs one effect if one is due, and tells whether to go on.
func (s *Settler) turn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == closed {
		return false
	}
	if s.phase == closing || s.busy {
		return true // who is busy will dispatch; Close will ring
	}
	now := time.Now()
	if due, ok := s.due(); ok && !due.After(now) && !s.held() {
		s.busy = true
		_ = s.attempt(0) // kept in s.err and told to those who wait
		return true
	}
	s.alarm = time.Time{} // it may have been the timer
	s.dispatch()
	return true
}

// arm notes that there are marks no effect has taken, and says which marks to
// come need attention. Called with mu held.
//
// Mark writes marked and then reads watch; arm writes watch and then reads
// marked. So one of the two sees the other:
//
//	Mark                          arm                            forbidden
//	                              marked == settled: nothing to do
//	marked = 7
//	watch == nobody: return
//	                              watch = 0                      7 waits for 8
func (s *Settler) arm(now time.Time) {
	if s.marked.Load() <= s.settled.Load() {
		s.armed = false // an effect came further than it was told to
	}
	s.publishWatch()
	if !s.armed && s.phase == open && s.marked.Load() > max(s.settled.Load(), s.upTo) {
		s.armed, s.since, s.window = true, now, s.nextWindow()
		s.publishWatch()
	}
}

// nextWindow is how long a window lasts that opens now. Called with mu held.
func (s *Settler) nextWindow() time.Duration {
	d := s.o.Policy.Window()
	if d == 0 || s.o.Window == nil {
		return d
	}
	return min(max(s.o.Window(), 0), d)
}

// publishWatch sets watch from the state under mu.
func (s *Settler) publishWatch() {
	w := nobody
	switch {
	case s.final():
	case s.phase != open, !s.armed:
		w = 0
	default:
		m := s.marked.Load()
		for _, x := range s.waiters {
			if x.pos > m {
				w = min(w, x.pos)
			}
		}
		if s.o.Answer != nil && !s.g.until.IsZero() {
			w = min(w, s.settled.Load()+uint64(s.g.want)) // it ends the gather
		}
	}
	s.watch.Store(w)
}

// due tells when an effect must begin that nobody leads. Called with mu held.
func (s *Settler) due() (at time.Time, ok bool) {
	settled := s.settled.Load()
	switch {
	case s.final(), s.marked.Load() <= settled:
		return at, false
	case s.urged > settled:
		return at, true
	case s.backoff > 0:
		return s.retry, true
	case !s.armed, s.o.Policy.IsAuto():
		return at, false
	case s.o.Policy.IsAll():
		return s.since, true
	case !s.o.Leading:
		return s.since.Add(s.window), true
	case s.began.IsZero():
		return s.since, true
	}
	return s.began.Add(s.window), true
}

// held tells whether an effect that could begin is to wait for more callers.
// Nothing that was urged does. Called with mu held.
func (s *Settler) held() bool {
	return s.g.holds(0) && s.urged <= s.settled.Load()
}

// dispatch chooses who runs the next effect: a waiter who demands it, the
// goroutine now, or the goroutine when its timer fires. Called with mu held, not
// busy, while open. watch has been published before.
func (s *Settler) dispatch() {
	if s.final() {
		s.setAlarm(time.Time{})
		return
	}
	held := s.held()
	if !held && s.appoint() {
		return
	}
	due, ok := s.due()
	if held {
		switch {
		case s.g.queued > 0 && s.o.Answer == nil:
			due, ok = s.g.until, true
		case ok && due.Before(s.g.until):
			due = s.g.until
		}
	}
	switch {
	case !ok:
		s.setAlarm(time.Time{})
	case due.After(time.Now()):
		s.setAlarm(due)
	default:
		s.bell.Ring()
	}
}

// appoint has the waiter run the effect who has demanded it first, if anybody
// has. Called with mu held, not busy.
func (s *Settler) appoint() bool {
	m := s.marked.Load()
	for i, w := range s.waiters {
		if w.pos <= m {
			n := len(s.waiters) - 1
			copy(s.waiters[i:], s.waiters[i+1:])
			s.waiters[n] = nil
			s.waiters = s.waiters[:n]
			w.listed = false
			s.busy = true
			w.c <- verdict{lead: true}
			return true
		}
	}
	return false
}

// setAlarm sets the timer to t, or stops it if t is zero. Called with mu held.
func (s *Settler) setAlarm(t time.Time) {
	switch {
	case t.Equal(s.alarm):
		return
	case t.IsZero():
		s.timer.Stop()
	default:
		s.timer.Reset(time.Until(t))
	}
	s.alarm = t
}

// attempt runs the effect once. Called with mu held and busy set by the caller,
// who counts as so many waiters (1 or 0); mu is released meanwhile and held again when it returns, or when the effect
// ends the goroutine.
//
// Snapshot before you promise:
//
//	attempt                       appender                       forbidden
//	effect begins
//	                              append 7; Mark(7)
//	effect ends
//	upTo = marked = 7                                            7 was not covered
//
// so upTo is read first. And watch is opened before that, so that the first mark
// which upTo misses calls attend, and its window begins then and not when the
// effect ends.
func (s *Settler) attempt(waits int) (err error) {
	begin := time.Now()
	s.g.end()
	s.began = begin
	s.armed = false
	s.publishWatch()
	upTo := s.marked.Load()
	s.upTo = upTo
	s.mu.Unlock()

	var covered, marked uint64
	var took time.Duration
	err = ErrGoexit // stays if call does not return
	defer func() {
		s.mu.Lock()
		before := s.settled.Load()
		s.finish(upTo, covered, err)
		answered := s.decide(upTo, err)
		if err == nil {
			s.g.length(took)
			if s.o.Answer == nil {
				s.g.begin(time.Now(), waits+len(answered), s.demands())
			} else {
				s.g.begin(time.Now(), int(covered-before), int(max(marked, covered)-covered))
			}
		}
		s.release()
		if len(answered) > 0 {
			s.answer(answered, err)
		}
	}()
	covered, err = s.call(upTo)
	took = time.Since(begin)
	if s.o.Observe != nil {
		s.o.Observe(took, covered, err)
	}
	if s.o.Answer != nil {
		marked = s.marked.Load() // before those who are answered now ask again
		s.o.Answer(covered, err)
	}
	return err
}

// call calls the effect and makes one error of all that can go wrong with it.
func (s *Settler) call(upTo uint64) (covered uint64, err error) {
	defer func() {
		if v := recover(); v != nil {
			covered, err = 0, &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	covered, err = s.effect(upTo)
	switch {
	case err != nil:
		return 0, err
	case covered < upTo:
		return 0, fmt.Errorf("%w: %d of %d", ErrShort, covered, upTo)
	}
	return covered, nil
}

// finish takes in the outcome of an effect. Called with mu held.
func (s *Settler) finish(upTo, covered uint64, err error) {
	s.err = err
	if err == nil {
		s.backoff = 0
		raise(&s.marked, covered)
		s.settled.Store(max(covered, s.settled.Load()))
	} else if !s.o.Sticky {
		s.backoff = min(max(2*s.backoff, s.o.Retry), maxBackoff*s.o.Retry)
		s.retry = time.Now().Add(s.backoff)
		s.armed = true // due counts from retry, not from since
	}
	if s.urged <= max(upTo, s.settled.Load()) {
		s.urged = 0
	}
}

// release gives busy up and chooses who runs the next effect. Called with mu
// held.
func (s *Settler) release() {
	s.busy = false
	if s.phase != open {
		s.idle.Broadcast()
		return
	}
	s.arm(time.Now())
	if s.o.Answer != nil {
		s.recount() // who was marked while the callers were answered; after arm, as in attend
	}
	s.dispatch()
}

// decide takes those out of the list whom an effect up to upTo has settled or
// disappointed. Called with mu held.
func (s *Settler) decide(upTo uint64, err error) []*waiter {
	if len(s.waiters) == 0 {
		return nil
	}
	reached := s.settled.Load()
	if err != nil {
		reached = upTo
		if s.o.Sticky {
			reached = nobody
		}
	}
	answered, stay := s.spare[:0], s.waiters[:0]
	s.spare = nil
	for _, w := range s.waiters {
		if w.pos <= reached {
			w.listed = false
			answered = append(answered, w)
		} else {
			stay = append(stay, w)
		}
	}
	clear(s.waiters[len(stay):])
	s.waiters = stay
	return answered
}

// answer tells waiters the outcome, outside mu so that the next effect does not
// wait for so many wake-ups.
func (s *Settler) answer(answered []*waiter, err error) {
	s.mu.Unlock()
	for _, w := range answered {
		w.c <- verdict{err: err}
	}
	s.mu.Lock()
	clear(answered)
	s.spare = answered[:0]
}

// raise lifts a to at least v.
func raise(a *atomic.Uint64, v uint64) bool {
	for {
		m := a.Load()
		if v <= m {
			return false
		}
		if a.CompareAndSwap(m, v) {
			return true
		}
	}
}

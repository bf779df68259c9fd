package selfbench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// What an append returns that was not made, and is no failure.
var (
	errEnough = errors.New("the file is full")  // the way ends early, and is judged by what it has done
	errLate   = errors.New("the round is over") // before it was the caller's turn
)

// showing is what one way showed in one round.
type showing struct {
	acked     []uint64 // by caller
	took      time.Duration
	latencies Latencies
}

// n is how many appends were acknowledged.
func (s *showing) n() (n uint64) {
	for _, a := range s.acked {
		n += a
	}
	return n
}

// rate is appends a second.
func (s *showing) rate() float64 { return float64(s.n()) / s.took.Seconds() }

// appender appends a record and returns when it is as safe as its way promises.
// It is called by many callers at a time, each with a record of its own.
type appender func(ctx context.Context, r *record) error

// crowd lets callers append, each one record after the other and at least one,
// until ctx ends, or for d, or until there is no room for more; then it sets over,
// for those who wait for their turn.
func crowd(ctx context.Context, callers int, d time.Duration, over *atomic.Bool, put appender) (*showing, error) {
	s := &showing{acked: make([]uint64, callers)}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards s.latencies and errs
		errs error
	)
	end := func() { over.Store(true) }
	stop := context.AfterFunc(ctx, end)
	defer stop()
	defer time.AfterFunc(d, end).Stop()
	began := time.Now()
	for caller := range callers {
		wg.Go(func() {
			mine := new(Latencies)
			n, err := callOn(ctx, caller, began.Add(d), over, put, mine)
			if err != nil {
				end()
			}
			mu.Lock()
			defer mu.Unlock()
			s.acked[caller] = n
			s.latencies.Merge(mine)
			if !errors.Is(err, errEnough) && !errors.Is(err, errLate) && errs == nil {
				errs = err
			}
		})
	}
	wg.Wait()
	s.took = time.Since(began)
	return s, errs
}

// callOn is the life of one caller.
func callOn(ctx context.Context, caller int, until time.Time, over *atomic.Bool, put appender, l *Latencies) (n uint64, err error) {
	r := newRecord(caller)
	for at := time.Now(); n == 0 || at.Before(until) && !over.Load(); n++ {
		r.number(n)
		err := put(ctx, r)
		done := time.Now()
		if errors.Is(err, errLate) {
			l.Add(done.Sub(at)) // it has waited for so long, in vain
		}
		if err != nil {
			return n, err
		}
		l.Add(done.Sub(at))
		at = done
	}
	return n, nil
}

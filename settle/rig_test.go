package settle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errDisk = errors.New("disk is gone")

// call is one effect as the rig saw it.
type call struct {
	At   time.Duration // since the rig began
	UpTo uint64
	Err  error
}

// rig is a settler in a bubble of virtual time whose effect takes a set time,
// fails when told to, and notes when it ran.
type rig struct {
	*Settler
	t     *testing.T
	start time.Time

	takes   time.Duration                  // how long an effect takes
	outcome func(n int, upTo uint64) error // of effect n = 1, 2, …; nil: none fails
	during  func(n int)                    // called at the beginning of effect n
	beyond  uint64                         // added to what an effect covers

	running atomic.Int32
	mu      sync.Mutex
	calls   []call
}

func newRig(t *testing.T, o Options, set func(*rig)) *rig {
	r := &rig{t: t, start: time.Now()}
	if set != nil {
		set(r)
	}
	r.Settler = New(r.run, o)
	return r
}

func (r *rig) run(upTo uint64) (uint64, error) {
	if r.running.Add(1) != 1 {
		r.t.Error("two effects at a time")
	}
	defer r.running.Add(-1)
	r.mu.Lock()
	n := len(r.calls) + 1
	r.calls = append(r.calls, call{At: time.Since(r.start), UpTo: upTo})
	r.mu.Unlock()
	if r.during != nil {
		r.during(n)
	}
	if r.takes > 0 {
		time.Sleep(r.takes)
	}
	if r.outcome != nil {
		if err := r.outcome(n, upTo); err != nil {
			r.mu.Lock()
			r.calls[n-1].Err = err
			r.mu.Unlock()
			return upTo, err // an honest-looking number that must not count
		}
	}
	return upTo + r.beyond, nil
}

// want checks the effects that have run so far.
func (r *rig) want(calls ...call) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := cmp.Diff(calls, r.calls, cmp.Comparer(errors.Is)); d != "" {
		r.t.Errorf("effects (-want +got):\n%s", d)
	}
}

// at advances the clock to d after the beginning.
func (r *rig) at(d time.Duration) {
	time.Sleep(d - time.Since(r.start))
	synctest.Wait()
}

func (r *rig) now() time.Duration { return time.Since(r.start) }

// answer is how a Wait ended.
type answer struct {
	At  time.Duration
	Err error
}

// wait begins a Wait and returns its answer to come.
func (r *rig) wait(ctx context.Context, pos uint64) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		err := r.Wait(ctx, pos)
		if err == nil && r.Settled() < pos {
			r.t.Errorf("Wait(%d) = nil with Settled() = %d", pos, r.Settled())
		}
		c <- answer{r.now(), err}
	}()
	synctest.Wait()
	return c
}

// wantAnswer checks an answer that must be there by now.
func (r *rig) wantAnswer(name string, c <-chan answer, want answer) {
	r.t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got.At != want.At || !errors.Is(got.Err, want.Err) || (got.Err == nil) != (want.Err == nil) {
			r.t.Errorf("%s: answered at %v with %v, want at %v with %v", name, got.At, got.Err, want.At, want.Err)
		}
	default:
		r.t.Errorf("%s: not answered at %v", name, r.now())
	}
}

func (r *rig) wantNone(name string, c <-chan answer) {
	r.t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		r.t.Errorf("%s: answered at %v with %v, want no answer yet", name, got.At, got.Err)
	default:
	}
}

func (r *rig) close(want error) {
	r.t.Helper()
	if err := r.Close(); !errors.Is(err, want) || (err == nil) != (want == nil) {
		r.t.Errorf("Close() = %v, want %v", err, want)
	}
}

const ms = time.Millisecond

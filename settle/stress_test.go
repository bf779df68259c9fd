package settle

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fromEnv reads a number that may be set to repeat a run, or to make it longer.
func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestStress lets appenders, waiters, cancellations, failures and Close meet at
// random and checks what must hold whatever happens. The bubble makes a lost
// wake-up a deadlock, which ends the test at once.
func TestStress(t *testing.T) {
	first := fromEnv(t, "TIDEMARK_SEED", rand.Uint64())
	for i := range fromEnv(t, "TIDEMARK_SEEDS", 300) {
		seed := first + i
		synctest.Test(t, func(t *testing.T) { newStress(t, seed).run() })
		if t.Failed() {
			t.Fatalf("repeat with: TIDEMARK_SEED=%d TIDEMARK_SEEDS=1 go test -run TestStress -count=100 ./settle", seed)
		}
	}
}

// stress is one random life of a settler.
type stress struct {
	t *testing.T
	*Settler
	o        Options
	seed     uint64
	failures int // percent of effects that fail

	appended atomic.Uint64 // what appenders have done; an effect looks at it
	covered  atomic.Uint64 // what successful effects have covered
	inside   atomic.Int32
	failed   atomic.Bool // an effect has failed
	closed   atomic.Bool // Close has returned, and nothing was marked after it
	late     atomic.Bool // marks after Close are allowed to run effects
}

func newStress(t *testing.T, seed uint64) *stress {
	r := rand.New(rand.NewPCG(seed, 1))
	x := &stress{t: t, seed: seed, o: Options{
		Policy:  []Policy{Auto(), All(), Every(ms), Every(20 * ms)}[r.IntN(4)],
		Leading: r.IntN(2) == 0,
		Sticky:  r.IntN(3) == 0,
		Retry:   time.Duration(r.IntN(3)) * ms,
	}}
	if r.IntN(2) == 0 {
		x.failures = []int{1, 20, 100}[r.IntN(3)]
	}
	x.Settler = New(x.effect(rand.New(rand.NewPCG(seed, 2))), x.o)
	return x
}

// effect is called by one goroutine at a time, so r needs no lock; the race
// detector would tell.
func (x *stress) effect(r *rand.Rand) Effect {
	return func(upTo uint64) (uint64, error) {
		if x.inside.Add(1) != 1 {
			x.t.Error("two effects at a time")
		}
		defer x.inside.Add(-1)
		if x.closed.Load() && !x.late.Load() {
			x.t.Error("an effect after Close")
		}
		if x.failed.Load() && x.o.Sticky {
			x.t.Error("an effect after a final error")
		}
		covers := upTo
		if r.IntN(3) == 0 {
			covers = x.appended.Load() // looks before it works
		}
		if covers < upTo {
			x.t.Errorf("told of %d with only %d appended", upTo, covers)
		}
		pause(r)
		if r.IntN(100) < x.failures {
			x.failed.Store(true)
			if r.IntN(4) == 0 {
				panic("stress")
			}
			return covers, errDisk
		}
		raise(&x.covered, covers)
		return covers, nil
	}
}

// pause lets others run, or time pass.
func pause(r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		runtime.Gosched()
	case 1:
		time.Sleep(time.Duration(r.IntN(5)) * ms)
	}
}

func (x *stress) run() {
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() { x.actor(rand.New(rand.NewPCG(x.seed, 10+g))) })
	}
	r := rand.New(rand.NewPCG(x.seed, 3))
	if r.IntN(2) == 0 { // in the middle of it; then marks may be late
		x.late.Store(true)
		time.Sleep(time.Duration(r.IntN(60)) * ms)
		x.close()
		wg.Wait()
	} else {
		wg.Wait()
		if !x.o.Policy.IsAuto() && x.failures == 0 {
			time.Sleep(time.Minute)
			if x.Settled() != x.Marked() {
				x.t.Errorf("settled %d of %d: a mark was forgotten", x.Settled(), x.Marked())
			}
		}
	}
	x.close()
	if x.failures == 0 && x.Settled() != x.appended.Load() {
		x.t.Errorf("settled %d of %d after Close", x.Settled(), x.appended.Load())
	}
	time.Sleep(time.Minute) // whatever is still scheduled would run
}

func (x *stress) close() {
	err := x.Close()
	x.closed.Store(true)
	if x.failures == 0 && err != nil {
		x.t.Errorf("Close() = %v", err)
	}
}

// actor appends, waits and urges.
func (x *stress) actor(r *rand.Rand) {
	for range 60 {
		pos := x.appended.Add(1)
		x.Mark(pos)
		pause(r)
		switch r.IntN(6) {
		case 0:
			x.wait(context.Background(), pos)
		case 1:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(10))*ms)
			x.wait(ctx, pos+uint64(r.IntN(3)))
			cancel()
		case 2:
			x.Urge()
		case 3:
			if settled, marked := x.Settled(), x.Marked(); settled > marked {
				x.t.Errorf("settled %d past marked %d", settled, marked)
			}
		}
	}
}

func (x *stress) wait(ctx context.Context, pos uint64) {
	err := x.Wait(ctx, pos)
	_, panicked := errors.AsType[*PanicError](err)
	switch {
	case err == nil:
		if got := x.covered.Load(); got < pos {
			x.t.Errorf("Wait(%d) = nil with %d covered", pos, got)
		}
	case errors.Is(err, ErrClosed) && x.late.Load():
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case (errors.Is(err, errDisk) || panicked) && x.failures > 0:
	default:
		x.t.Errorf("Wait(%d) = %v", pos, err)
	}
}

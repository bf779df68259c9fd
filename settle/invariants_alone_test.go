package settle

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A lone caller runs the effect, under every policy, and nobody is rung for it.
func TestInvariant21MarkAndWaitAlone(t *testing.T) {
	for _, o := range []Options{{}, {Policy: Every(time.Hour), Leading: true}, {Policy: All()}} {
		t.Run(o.Policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran, told := "", true
				s := New(func(upTo uint64) (uint64, error) {
					if told {
						ran = goid()
					}
					return upTo, nil
				}, o)
				for i := range uint64(3) {
					ran = ""
					if err := s.MarkAndWait(t.Context(), i+1); err != nil || s.Settled() != i+1 {
						t.Fatalf("%v, settled %d", err, s.Settled())
					}
					if ran != goid() {
						t.Errorf("the effect ran in goroutine %s, the caller is %s", ran, goid())
					}
					if len(s.bell.C()) > 0 {
						t.Error("the goroutine was rung")
					}
				}
				if err := s.MarkAndWait(t.Context(), 2); err != nil {
					t.Errorf("of what is settled: %v", err)
				}
				told = false
				if n := testing.AllocsPerRun(1000, func() { _ = s.MarkAndWait(t.Context(), s.Marked()+1) }); n != 0 {
					t.Errorf("%v allocations", n)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := s.MarkAndWait(t.Context(), s.Marked()+1); err != nil {
					t.Errorf("after Close, as Mark: %v", err)
				}
			})
		})
	}
}

// Its errors are those of Wait, and the mark is made all the same.
func TestInvariant21MarkAndWaitErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Retry: time.Second}, func(r *rig) {
			r.outcome = func(n int, _ uint64) error {
				if n == 1 {
					return errDisk
				}
				return nil
			}
		})
		if err := r.MarkAndWait(t.Context(), 1); !errors.Is(err, errDisk) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.MarkAndWait(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		r.at(time.Second) // the failed effect is tried again, and has both
		if r.Settled() != 2 {
			t.Errorf("settled %d", r.Settled())
		}
		r.close(nil)
	})
}

// TestStressMarkAndWait has callers of all kinds at a time: each is answered, and only
// when its mark is settled.
func TestStressMarkAndWait(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Millisecond), All()} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			pos := uint64(0)
			s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: p, Leading: true})
			var all sync.WaitGroup
			for caller := range 8 {
				all.Go(func() {
					for range 2000 {
						mu.Lock()
						pos++
						mine := pos
						if caller%2 == 0 {
							s.Mark(mine)
						}
						mu.Unlock()
						if caller%4 == 0 {
							continue // somebody else, or Close, settles it
						}
						if err := s.MarkAndWait(t.Context(), mine); err != nil || s.Settled() < mine {
							t.Errorf("%v, settled %d of %d", err, s.Settled(), mine)
							return
						}
						spin(rand.IntN(200))
					}
				})
			}
			all.Wait()
			if err := s.Close(); err != nil || s.Settled() != pos {
				t.Errorf("%v, settled %d of %d", err, s.Settled(), pos)
			}
		})
	}
}

package settle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestInvariant09OneEffectAnswersAll(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: p}, func(r *rig) { r.takes = 100 * ms })
				r.Mark(1)
				first := r.wait(t.Context(), 1)
				r.at(10 * ms)
				const n = 200
				var waits [n]<-chan answer
				for i := range waits {
					r.Mark(uint64(i + 2))
					waits[i] = r.wait(t.Context(), uint64(i+2))
				}
				r.at(200 * ms)
				r.wantAnswer("first", first, answer{100 * ms, nil})
				for i, w := range waits {
					r.wantAnswer(fmt.Sprint(i), w, answer{200 * ms, nil})
				}
				r.want(call{0, 1, nil}, call{100 * ms, n + 1, nil})
				r.close(nil)
			})
		})
	}
}

// goid returns the number of the calling goroutine, which nothing but a test may
// ask for.
func goid() string {
	b := make([]byte, 64)
	return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
}

func TestInvariant09LoneCallerRunsTheEffectItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran string
		s := New(func(upTo uint64) (uint64, error) { ran = goid(); return upTo, nil }, Options{})
		for i := range uint64(3) {
			s.Mark(i + 1)
			ran = ""
			if err := s.Wait(t.Context(), i+1); err != nil {
				t.Fatal(err)
			}
			if ran != goid() {
				t.Errorf("effect ran in goroutine %s, the caller is %s", ran, goid())
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestInvariant09DemandCutsAWindowShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(100 * ms)}, nil)
		r.Mark(1)
		r.at(40 * ms)
		r.wantAnswer("wait", r.wait(t.Context(), 1), answer{40 * ms, nil})
		r.at(60 * ms)
		r.Mark(2) // a window of its own
		r.at(159 * ms)
		r.want(call{40 * ms, 1, nil})
		r.at(160 * ms)
		r.want(call{40 * ms, 1, nil}, call{160 * ms, 2, nil})
		r.close(nil)
	})
}

func TestInvariant10NilMeansSettled(t *testing.T) {
	// rig.wait checks it for every answer in this file; here the ways in which
	// something else than an effect ends a wait.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Retry: time.Hour}, func(r *rig) { r.takes = 10 * ms; r.outcome = failFirst(1) })
		r.wantAnswer("position 0", r.wait(t.Context(), 0), answer{0, nil})
		r.Mark(5)
		failed := r.wait(t.Context(), 5)
		r.at(10 * ms)
		r.wantAnswer("failed", failed, answer{10 * ms, errDisk})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.wantAnswer("cancelled before", r.wait(ctx, 5), answer{10 * ms, context.Canceled})
		never := r.wait(t.Context(), 6)
		r.close(nil)
		r.wantAnswer("never marked", never, answer{20 * ms, ErrClosed})
		r.wantAnswer("settled, context ended", r.wait(ctx, 5), answer{20 * ms, nil})
	})
}

func TestInvariant11WaitForAPositionNotYetMarked(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: p}, func(r *rig) { r.takes = 10 * ms })
				nine := r.wait(t.Context(), 9)
				five := r.wait(t.Context(), 5)
				seven := r.wait(t.Context(), 7)
				r.at(100 * ms)
				r.want()
				r.Mark(5)
				r.at(105 * ms)
				r.Mark(8) // while the effect for 5 runs
				r.at(200 * ms)
				r.wantAnswer("five", five, answer{110 * ms, nil})
				r.wantAnswer("seven", seven, answer{120 * ms, nil})
				r.wantNone("nine", nine)
				r.Mark(9)
				r.at(300 * ms)
				r.wantAnswer("nine", nine, answer{210 * ms, nil})
				r.want(call{100 * ms, 5, nil}, call{110 * ms, 8, nil}, call{200 * ms, 9, nil})
				r.close(nil)
			})
		})
	}
}

func TestInvariant11WaitInAnOpenWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(time.Hour)}, nil)
		r.Mark(1) // opens the window: later marks need no attention
		r.at(10 * ms)
		two := r.wait(t.Context(), 2) // but this one does
		r.at(20 * ms)
		r.Mark(2)
		r.wantAnswer("two", two, answer{20 * ms, nil})
		r.want(call{20 * ms, 2, nil})
		r.close(nil)
	})
}

func TestInvariant12FailureIsTriedAgain(t *testing.T) {
	for _, p := range []Policy{All(), Every(50 * ms)} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: p, Leading: true, Retry: 100 * ms}, func(r *rig) { r.outcome = failFirst(7) })
				r.Mark(1)
				synctest.Wait()
				if !errors.Is(r.Err(), errDisk) {
					t.Errorf("Err() = %v, want %v", r.Err(), errDisk)
				}
				r.at(50 * ms)
				r.Mark(2) // does not hurry it
				r.at(time.Minute)
				// Back-off 100, 200, 400, 800, then 1000 = ten times the first.
				want := []call{{0, 1, errDisk}}
				for _, at := range []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 2500 * ms, 3500 * ms} {
					want = append(want, call{at, 2, errDisk})
				}
				want = append(want, call{4500 * ms, 2, nil})
				r.want(want...)
				if r.Err() != nil || r.Settled() != 2 {
					t.Errorf("Err() = %v, Settled() = %d after success", r.Err(), r.Settled())
				}
				// The next failure begins with the first back-off again.
				r.outcome = failFirst(9)
				r.Mark(3)
				r.at(2 * time.Minute)
				r.want(append(want, call{time.Minute, 3, errDisk}, call{time.Minute + 100*ms, 3, nil})...)
				r.close(nil)
			})
		})
	}
}

func TestInvariant12WaitersOfTheAttemptLearnTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All(), Retry: time.Hour}, func(r *rig) { r.takes = 10 * ms; r.outcome = failFirst(1) })
		r.Mark(1)
		r.Mark(2)
		one, two := r.wait(t.Context(), 1), r.wait(t.Context(), 2)
		r.at(5 * ms)
		r.Mark(3)
		three := r.wait(t.Context(), 3) // not of that attempt: begins the next
		r.at(10 * ms)
		r.wantAnswer("one", one, answer{10 * ms, errDisk})
		r.wantAnswer("two", two, answer{10 * ms, errDisk})
		r.wantNone("three", three)
		r.at(20 * ms)
		r.wantAnswer("three", three, answer{20 * ms, nil})
		r.want(call{0, 2, errDisk}, call{10 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant12DemandDoesNotWaitForTheBackoff(t *testing.T) {
	demands := map[string]func(*rig) error{
		"Wait":   func(r *rig) error { return r.Wait(r.t.Context(), 1) },
		"Settle": func(r *rig) error { return r.Settle(r.t.Context()) },
		"Urge":   func(r *rig) error { r.Urge(); return nil },
	}
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: All(), Retry: time.Hour}, func(r *rig) { r.outcome = failFirst(1) })
				r.Mark(1)
				r.at(30 * ms)
				r.want(call{0, 1, errDisk})
				if err := demand(r); err != nil {
					t.Error(err)
				}
				r.want(call{0, 1, errDisk}, call{30 * ms, 1, nil})
				r.close(nil)
			})
		})
	}
}

func TestInvariant12AutoRetriesWhatWasDemanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.outcome = failFirst(1) })
		r.Mark(1)
		r.Urge()
		r.at(time.Hour)
		r.want(call{0, 1, errDisk}, call{DefaultRetry, 1, nil})
		r.Mark(2) // and then is on demand again
		r.at(2 * time.Hour)
		r.want(call{0, 1, errDisk}, call{DefaultRetry, 1, nil})
		r.close(nil)
	})
}

func TestInvariant13StickyErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(50 * ms), Sticky: true}, func(r *rig) {
			r.takes = 10 * ms
			r.outcome = func(n int, _ uint64) error {
				if n == 2 {
					return errDisk
				}
				return nil
			}
		})
		r.Mark(1)
		if err := r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		r.Mark(2)
		two := r.wait(t.Context(), 2)
		r.at(15 * ms)
		r.Mark(3)
		three := r.wait(t.Context(), 3)  // marked while the effect ran
		future := r.wait(t.Context(), 9) // not marked at all
		r.at(20 * ms)
		for name, w := range map[string]<-chan answer{"two": two, "three": three, "future": future} {
			r.wantAnswer(name, w, answer{20 * ms, errDisk})
		}
		r.Mark(4)
		r.Urge()
		r.at(time.Hour)
		r.wantAnswer("settled before", r.wait(t.Context(), 1), answer{time.Hour, nil})
		r.wantAnswer("later", r.wait(t.Context(), 4), answer{time.Hour, errDisk})
		r.wantAnswer("later, not marked", r.wait(t.Context(), 99), answer{time.Hour, errDisk})
		if err := r.Settle(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("Settle() = %v, want %v", err, errDisk)
		}
		if !errors.Is(r.Err(), errDisk) {
			t.Errorf("Err() = %v, want %v", r.Err(), errDisk)
		}
		r.close(errDisk)
		r.Mark(100)
		r.wantAnswer("closed", r.wait(t.Context(), 100), answer{time.Hour, errDisk})
		r.want(call{0, 1, nil}, call{10 * ms, 2, errDisk})
		if r.Settled() != 1 {
			t.Errorf("Settled() = %d, want 1", r.Settled())
		}
	})
}

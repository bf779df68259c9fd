package settle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failFirst makes the first n effects fail.
func failFirst(n int) func(int, uint64) error {
	return func(i int, _ uint64) error {
		if i <= n {
			return errDisk
		}
		return nil
	}
}

func TestInvariant01SettledNeverPassesMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All()}, func(r *rig) { r.beyond = 5 })
		r.Mark(10)
		synctest.Wait()
		if m, s := r.Marked(), r.Settled(); m != 15 || s != 15 {
			t.Errorf("marked, settled = %d, %d after an effect that came to 15", m, s)
		}
		r.Mark(12) // covered already
		r.Mark(3)
		r.want(call{0, 10, nil})
		if m, s := r.Marked(), r.Settled(); m != 15 || s != 15 {
			t.Errorf("marked, settled = %d, %d went back", m, s)
		}
		r.Mark(16)
		r.want(call{0, 10, nil}, call{0, 16, nil})
		r.close(nil)
	})
}

func TestInvariant01StartIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All(), Start: 100}, nil)
		r.wantAnswer("old", r.wait(t.Context(), 100), answer{0, nil})
		r.Mark(100)
		r.want()
		r.Mark(101)
		r.want(call{0, 101, nil})
		r.close(nil)
	})
}

func TestInvariant02SnapshotBeforeTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 10 * ms })
		r.Mark(1)
		one := r.wait(t.Context(), 1)
		r.at(5 * ms)
		r.Mark(2) // while the effect runs
		two := r.wait(t.Context(), 2)
		r.at(10 * ms)
		r.wantAnswer("one", one, answer{10 * ms, nil})
		r.wantNone("two", two)
		if r.Settled() != 1 {
			t.Errorf("Settled() = %d, want 1", r.Settled())
		}
		r.at(20 * ms)
		r.wantAnswer("two", two, answer{20 * ms, nil})
		r.want(call{0, 1, nil}, call{10 * ms, 2, nil})
		r.close(nil)
	})
}

func TestInvariant02EffectMayComeFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(50 * ms)}, func(r *rig) { r.takes = 10 * ms; r.beyond = 1 })
		r.Mark(1)
		one := r.wait(t.Context(), 1)
		r.at(5 * ms)
		r.Mark(2) // the effect will say that it came to 2
		r.at(10 * ms)
		r.wantAnswer("one", one, answer{10 * ms, nil})
		r.wantAnswer("two", r.wait(t.Context(), 2), answer{10 * ms, nil})
		r.at(500 * ms)
		r.want(call{0, 1, nil})
		// The window opened by 2 is over: the next mark opens one of its own.
		r.Mark(3)
		r.at(549 * ms)
		r.want(call{0, 1, nil})
		r.at(600 * ms)
		r.want(call{0, 1, nil}, call{550 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant02CoveringLessIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(upTo uint64) (uint64, error) { return upTo - 1, nil }, Options{Sticky: true})
		s.Mark(2)
		if err := s.Settle(t.Context()); !errors.Is(err, ErrShort) {
			t.Errorf("Settle() = %v, want ErrShort", err)
		}
		if s.Settled() != 0 {
			t.Errorf("Settled() = %d, want 0", s.Settled())
		}
		if err := s.Close(); !errors.Is(err, ErrShort) {
			t.Errorf("Close() = %v, want ErrShort", err)
		}
	})
}

func TestInvariant03OneEffectAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The rig counts who is inside. Everything that can begin an effect does.
		r := newRig(t, Options{Policy: Every(3 * ms), Leading: true, Retry: 2 * ms}, func(r *rig) {
			r.takes = 10 * ms
			r.outcome = func(n int, _ uint64) error {
				if n%3 == 0 {
					return errDisk
				}
				return nil
			}
		})
		for i := range uint64(40) {
			r.Mark(i + 1)
			go func() { _ = r.Wait(t.Context(), i+1) }()
			go func() { _ = r.Settle(t.Context()) }()
			r.Urge()
			time.Sleep(time.Duration(i%7) * ms)
		}
		go func() { _ = r.Close() }()
		_ = r.Close()
		r.Mark(1000)
		synctest.Wait()
		if r.Settled() != 1000 {
			t.Errorf("Settled() = %d, want 1000", r.Settled())
		}
	})
}

func TestInvariant04NoMarkIsForgotten(t *testing.T) {
	for _, p := range []Policy{All(), Every(7 * ms)} {
		for _, leading := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v leading=%v", p, leading), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, Options{Policy: p, Leading: leading, Retry: ms}, func(r *rig) {
						r.takes = 5 * ms
						r.outcome = func(n int, _ uint64) error {
							if n%4 == 1 {
								return errDisk
							}
							return nil
						}
					})
					// Marks at every distance from the beginning and the end of an
					// effect; after each a quiet time in which it must be settled.
					for i := range uint64(30) {
						r.Mark(2*i + 1)
						time.Sleep(time.Duration(i) * ms / 2)
						r.Mark(2*i + 2)
						time.Sleep(50 * ms)
						synctest.Wait()
						if r.Settled() != r.Marked() {
							t.Fatalf("mark %d: settled %d of %d", i, r.Settled(), r.Marked())
						}
					}
					r.close(nil)
				})
			})
		}
	}
}

func TestInvariant05WindowBeginsAtTheFirstUnsettledMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(100 * ms)}, nil)
		r.at(30 * ms)
		r.Mark(1)
		for i := range uint64(9) { // later marks do not push it back
			r.at(time.Duration(40+10*i) * ms)
			r.Mark(2 + i)
		}
		r.at(129 * ms)
		r.want()
		r.at(130 * ms)
		r.want(call{130 * ms, 10, nil})
		r.at(1000 * ms) // nothing owed, nothing run
		r.want(call{130 * ms, 10, nil})
		r.Mark(11)
		r.at(1200 * ms)
		r.want(call{130 * ms, 10, nil}, call{1100 * ms, 11, nil})
		r.close(nil)
	})
}

func TestInvariant05MarkDuringAnEffectOpensItsOwnWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(100 * ms)}, func(r *rig) { r.takes = 60 * ms })
		r.Mark(1) // effect 100 … 160
		r.at(120 * ms)
		r.Mark(2) // its window ends at 220, not at 260
		r.at(150 * ms)
		r.Mark(3)
		r.at(400 * ms)
		r.want(call{100 * ms, 1, nil}, call{220 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant05SlowEffectRunsBackToBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(10 * ms)}, func(r *rig) { r.takes = 100 * ms })
		for i := range uint64(25) {
			r.at(time.Duration(i) * 10 * ms)
			r.Mark(i + 1)
		}
		r.at(1000 * ms)
		// The last mark before each is that of the same instant at the latest.
		if n := len(r.calls); n != 4 {
			t.Errorf("%d effects, want 4: %v", n, r.calls)
		}
		for i, c := range r.calls {
			if want := time.Duration(10+100*i) * ms; c.At != want {
				t.Errorf("effect %d began at %v, want %v", i+1, c.At, want)
			}
		}
		r.close(nil)
	})
}

func TestInvariant05StreamCostsOneEffectAWindow(t *testing.T) {
	for _, leading := range []bool{false, true} {
		t.Run(fmt.Sprintf("leading=%v", leading), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: Every(50 * ms), Leading: leading}, nil)
				for i := range uint64(1000) {
					r.Mark(i + 1)
					time.Sleep(ms)
				}
				synctest.Wait()
				if n := len(r.calls); n < 19 || n > 21 {
					t.Errorf("%d effects in 1 s with a window of 50 ms, want 20", n)
				}
				r.close(nil)
			})
		})
	}
}

func TestInvariant06FirstMarkAfterQuietIsSettledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(250 * ms), Leading: true}, nil)
		r.at(7 * ms)
		r.Mark(1) // lone
		r.want(call{7 * ms, 1, nil})
		r.at(10 * ms)
		r.Mark(2) // in the window of 1: with the rest of the stream
		r.at(200 * ms)
		r.Mark(3)
		r.at(256 * ms)
		r.want(call{7 * ms, 1, nil})
		r.at(257 * ms)
		r.want(call{7 * ms, 1, nil}, call{257 * ms, 3, nil})
		r.at(506 * ms)
		r.Mark(4) // one millisecond before quiet
		r.at(507 * ms)
		r.want(call{7 * ms, 1, nil}, call{257 * ms, 3, nil}, call{507 * ms, 4, nil})
		r.at(2000 * ms)
		r.Mark(5) // quiet again
		r.want(call{7 * ms, 1, nil}, call{257 * ms, 3, nil}, call{507 * ms, 4, nil}, call{2000 * ms, 5, nil})
		r.close(nil)
	})
}

func TestInvariant06DemandedEffectEndsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(100 * ms), Leading: true}, nil)
		r.Mark(1)
		r.at(50 * ms)
		r.Mark(2)
		if err := r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		r.at(120 * ms)
		r.Mark(3)
		r.at(149 * ms)
		r.want(call{0, 1, nil}, call{50 * ms, 2, nil})
		r.at(150 * ms)
		r.want(call{0, 1, nil}, call{50 * ms, 2, nil}, call{150 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant06WithoutLeadingTheFirstMarkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(250 * ms)}, nil)
		r.Mark(1)
		r.at(249 * ms)
		r.want()
		r.at(250 * ms)
		r.want(call{250 * ms, 1, nil})
		r.close(nil)
	})
}

func TestInvariant07AllRunsBackToBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All()}, func(r *rig) { r.takes = 100 * ms })
		r.Mark(1)
		r.at(10 * ms)
		r.Mark(2)
		r.at(90 * ms)
		r.Mark(3)
		r.at(199 * ms)
		r.Mark(4)
		r.at(1000 * ms)
		r.want(call{0, 1, nil}, call{100 * ms, 3, nil}, call{200 * ms, 4, nil})
		r.Mark(5)
		r.want(call{0, 1, nil}, call{100 * ms, 3, nil}, call{200 * ms, 4, nil}, call{1000 * ms, 5, nil})
		r.close(nil)
	})
}

func TestInvariant08AutoRunsOnDemandOnly(t *testing.T) {
	demands := map[string]func(*rig){
		"Wait":   func(r *rig) { _ = r.Wait(r.t.Context(), 1) },
		"Settle": func(r *rig) { _ = r.Settle(r.t.Context()) },
		"Urge":   func(r *rig) { r.Urge() },
		"Close":  func(r *rig) { _ = r.Close() },
	}
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{}, nil)
				r.Mark(1)
				r.at(time.Hour)
				r.Mark(2)
				r.at(2 * time.Hour)
				r.want()
				demand(r)
				r.want(call{2 * time.Hour, 2, nil})
				r.Mark(3)
				if name != "Close" {
					r.at(9 * time.Hour)
					r.want(call{2 * time.Hour, 2, nil})
				}
				_ = r.Close()
			})
		})
	}
}

func TestInvariant08UrgeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 100 * ms })
		r.Urge() // nothing owed
		r.want()
		r.Mark(1)
		r.Urge()
		if r.now() != 0 {
			t.Errorf("Urge took %v", r.now())
		}
		r.at(50 * ms)
		r.Urge() // the running effect covers it
		r.Mark(2)
		r.Urge() // and this it does not
		r.Mark(3)
		r.at(1000 * ms)
		r.want(call{0, 1, nil}, call{100 * ms, 3, nil})
		r.close(nil)
	})
}

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

func TestInvariant14PanicIsAnError(t *testing.T) {
	for _, lead := range []bool{true, false} {
		t.Run(fmt.Sprintf("lead=%v", lead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				s := New(func(upTo uint64) (uint64, error) {
					if n++; n == 1 {
						time.Sleep(10 * ms)
						panic(errDisk)
					}
					return upTo, nil
				}, Options{Retry: time.Hour})
				s.Mark(1)
				if !lead {
					s.Urge()
					synctest.Wait()
				}
				answers := make(chan error, 2)
				for range 2 {
					go func() { answers <- s.Wait(t.Context(), 1) }()
				}
				for range 2 {
					err := <-answers
					p, ok := errors.AsType[*PanicError](err)
					if !ok {
						t.Fatalf("Wait() = %v, want a *PanicError", err)
					}
					if !errors.Is(err, errDisk) || !strings.Contains(string(p.Stack), "TestInvariant14") {
						t.Errorf("Wait() = %v with value %v and stack\n%s", err, p.Value, p.Stack)
					}
				}
				if err := s.Settle(t.Context()); err != nil {
					t.Errorf("Settle() = %v after the panic", err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestInvariant14GoexitIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := New(func(upTo uint64) (uint64, error) {
			if n++; n <= 2 {
				time.Sleep(10 * ms)
				runtime.Goexit()
			}
			return upTo, nil
		}, Options{Retry: 20 * ms})
		s.Mark(1)
		s.Urge() // ends the settler's goroutine
		synctest.Wait()
		if err := s.Wait(t.Context(), 1); !errors.Is(err, ErrGoexit) {
			t.Errorf("Wait() = %v, want ErrGoexit", err)
		}
		left := make(chan struct{})
		go func() { // ends the goroutine of the one who leads
			defer close(left)
			_ = s.Wait(t.Context(), 1)
			t.Error("Wait returned from an effect that ended its goroutine")
		}()
		<-left
		time.Sleep(time.Second) // a new goroutine tries again
		synctest.Wait()
		if s.Settled() != 1 || n != 3 {
			t.Errorf("Settled() = %d after %d effects, want 1 after 3", s.Settled(), n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestInvariant15CloseServesEveryone(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v fails=%v", p, fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var want error
					r := newRig(t, Options{Policy: p, Retry: time.Hour}, func(r *rig) {
						r.takes = 10 * ms
						if fails {
							want = errDisk
							r.outcome = func(n int, _ uint64) error {
								if n > 1 {
									return errDisk
								}
								return nil
							}
						}
					})
					r.Mark(1)
					one := r.wait(t.Context(), 1) // 0 … 10
					r.Mark(2)
					two := r.wait(t.Context(), 2) // 10 … 20, by Close or by itself
					future := r.wait(t.Context(), 3)
					r.at(5 * ms)
					closed := make(chan answer, 2)
					for range 2 {
						go func() {
							err := r.Close()
							closed <- answer{r.now(), err}
						}()
					}
					r.at(6 * ms)
					during := r.wait(t.Context(), 2)
					r.at(time.Minute)
					r.wantAnswer("one", one, answer{10 * ms, nil})
					r.wantAnswer("two", two, answer{20 * ms, want})
					r.wantAnswer("during Close", during, answer{20 * ms, want})
					r.wantAnswer("future", future, answer{20 * ms, ErrClosed})
					for range 2 {
						r.wantAnswer("Close", closed, answer{20 * ms, want})
					}
					r.close(want)
					r.wantAnswer("after", r.wait(t.Context(), 3), answer{time.Minute, ErrClosed})
					// The bubble ends only if no goroutine is left.
				})
			})
		}
	}
}

func TestInvariant15CloseWithNothingPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All()}, nil)
		r.Mark(1)
		synctest.Wait()
		r.close(nil)
		r.close(nil)
		r.want(call{0, 1, nil})
	})
}

func TestInvariant15CloseTriesAFailedEffectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All(), Retry: time.Hour}, func(r *rig) { r.outcome = failFirst(9) })
		r.Mark(1)
		r.at(5 * ms)
		r.close(errDisk)
		r.want(call{0, 1, errDisk}, call{5 * ms, 1, errDisk})
		if err := r.Wait(t.Context(), 1); !errors.Is(err, ErrClosed) || !errors.Is(err, errDisk) {
			t.Errorf("Wait() = %v, want ErrClosed and the reason", err)
		}
	})
}

func TestInvariant15MarkDuringCloseIsSettledByClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) {
			r.takes = 10 * ms
			r.during = func(n int) {
				if n == 1 {
					r.Mark(2) // does not run anything itself, nor block
				}
			}
		})
		r.Mark(1)
		r.close(nil)
		r.want(call{0, 1, nil}, call{10 * ms, 2, nil})
	})
}

func TestInvariant16MarkAfterCloseRunsAtOnce(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Policy: p}, func(r *rig) { r.takes = 10 * ms })
				r.close(nil)
				r.Mark(1)
				if r.Settled() != 1 {
					t.Errorf("Settled() = %d after Mark(1)", r.Settled())
				}
				go r.Mark(2)
				synctest.Wait()
				r.Mark(3) // while that effect runs: its runner takes it along
				if r.now() != 10*ms {
					t.Errorf("Mark took %v", r.now()-10*ms)
				}
				r.at(time.Minute)
				r.want(call{0, 1, nil}, call{10 * ms, 2, nil}, call{20 * ms, 3, nil})
				if err := r.Wait(t.Context(), 3); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestInvariant16MarkAfterCloseOfAnOpenWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 2 opens a window while an effect runs that will cover it. Close finds
		// nothing to do, and still marks have to run what they owe from then on.
		r := newRig(t, Options{Policy: Every(time.Hour)}, func(r *rig) { r.takes = 10 * ms; r.beyond = 1 })
		r.Mark(1)
		r.Urge()
		r.at(5 * ms)
		r.Mark(2)
		r.close(nil)
		r.want(call{0, 1, nil})
		r.Mark(3)
		r.want(call{0, 1, nil}, call{10 * ms, 3, nil})
	})
}

func TestInvariant17CancelledWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 100 * ms })
		ctx, cancel := context.WithTimeout(t.Context(), 30*ms)
		defer cancel()
		r.Mark(1)
		lead := r.wait(ctx, 1) // runs the effect: stays for it
		r.Mark(2)
		gone, stays := r.wait(ctx, 2), r.wait(t.Context(), 2)
		future := r.wait(ctx, 9)
		r.at(30 * ms)
		r.wantAnswer("gone", gone, answer{30 * ms, context.DeadlineExceeded})
		r.wantAnswer("future", future, answer{30 * ms, context.DeadlineExceeded})
		r.at(300 * ms)
		r.wantAnswer("lead", lead, answer{100 * ms, nil})
		r.wantAnswer("stays", stays, answer{200 * ms, nil})
		r.Mark(9) // nobody waits for it any more
		r.at(time.Hour)
		r.want(call{0, 1, nil}, call{100 * ms, 2, nil})
		r.close(nil)
	})
}

func TestInvariant17DemandLeavesWithItsWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 100 * ms })
		r.Mark(1)
		one := r.wait(t.Context(), 1)
		r.Mark(2)
		ctx, cancel := context.WithTimeout(t.Context(), 30*ms)
		defer cancel()
		two := r.wait(ctx, 2)
		r.at(time.Hour)
		r.wantAnswer("one", one, answer{100 * ms, nil})
		r.wantAnswer("two", two, answer{30 * ms, context.DeadlineExceeded})
		r.want(call{0, 1, nil})
		r.close(nil)
	})
}

func TestInvariant17CancelledAsItWasChosenToLead(t *testing.T) {
	// Both happen at 100 ms: the effect ends and hands the next one to a waiter
	// whose context ends. Whatever comes first, the others are answered.
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, func(r *rig) { r.takes = 100 * ms })
			r.Mark(1)
			one := r.wait(t.Context(), 1)
			r.Mark(2)
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			two, also := r.wait(ctx, 2), r.wait(t.Context(), 2)
			r.at(time.Hour)
			r.wantAnswer("one", one, answer{100 * ms, nil})
			if got := <-two; got.Err != nil && got.At != 100*ms {
				t.Errorf("two: %v at %v", got.Err, got.At)
			}
			r.wantAnswer("also", also, answer{200 * ms, nil})
			r.want(call{0, 1, nil}, call{100 * ms, 2, nil})
			r.close(nil)
		})
	}
}

func TestInvariant18MarkDoesNotAllocate(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: p})
		pos := uint64(0)
		if n := testing.AllocsPerRun(1000, func() { pos++; s.Mark(pos) }); n != 0 {
			t.Errorf("%v: Mark allocates %v times", p, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInvariant18MarkDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All()}, func(r *rig) { r.takes = time.Hour })
		for i := range uint64(100) {
			r.Mark(i + 1)
		}
		synctest.Wait()
		for i := range uint64(100) { // an effect runs
			r.Mark(i + 101)
		}
		if r.now() != 0 {
			t.Errorf("Mark took %v", r.now())
		}
		r.close(nil)
	})
}

func TestInvariant19WindowIsAskedOnceAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, windows := 0, []time.Duration{5 * ms, 0, -time.Hour, time.Hour, 30 * ms, 10 * ms}
		r := newRig(t, Options{Policy: Every(100 * ms), Window: func() time.Duration {
			asked++
			return windows[asked-1]
		}}, nil)
		r.at(ms)
		r.Mark(1) // 5 ms
		r.at(4 * ms)
		r.Mark(2)
		r.at(50 * ms)
		r.want(call{6 * ms, 2, nil})
		r.Mark(3) // 0
		r.at(60 * ms)
		r.Mark(4) // less
		r.at(70 * ms)
		r.want(call{6 * ms, 2, nil}, call{50 * ms, 3, nil}, call{60 * ms, 4, nil})
		r.Mark(5) // more than the policy's
		for i := range uint64(9) {
			r.at(time.Duration(80+10*i) * ms)
			r.Mark(6 + i)
		}
		r.at(200 * ms)
		r.Mark(15) // 30 ms, cut short by a demand
		r.wantAnswer("wait", r.wait(t.Context(), 15), answer{200 * ms, nil})
		r.at(210 * ms)
		r.Mark(16) // 10 ms, from here on
		r.at(time.Second)
		r.want(call{6 * ms, 2, nil}, call{50 * ms, 3, nil}, call{60 * ms, 4, nil},
			call{170 * ms, 14, nil}, call{200 * ms, 15, nil}, call{220 * ms, 16, nil})
		if asked != len(windows) {
			t.Errorf("Window was asked %d times for %d windows", asked, len(windows))
		}
		r.close(nil)
	})
}

func TestInvariant19WindowOfAMarkDuringAnEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := []time.Duration{0, 20 * ms, 5 * ms}
		r := newRig(t, Options{Policy: Every(time.Hour), Window: func() time.Duration {
			d := windows[0]
			windows = windows[1:]
			return d
		}}, func(r *rig) { r.takes = 10 * ms })
		r.Mark(1) // effect 0 … 10
		r.at(4 * ms)
		r.Mark(2) // its window ends at 24, the effect at 34
		r.at(30 * ms)
		r.Mark(3) // its window ends at 35
		r.at(time.Second)
		r.want(call{0, 1, nil}, call{24 * ms, 2, nil}, call{35 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant19WindowIsThatOfLeadingToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: Every(time.Hour), Leading: true, Window: func() time.Duration { return 50 * ms }}, nil)
		r.Mark(1)
		r.at(20 * ms)
		r.Mark(2)
		r.at(time.Second)
		r.Mark(3)
		r.want(call{0, 1, nil}, call{50 * ms, 2, nil}, call{1000 * ms, 3, nil})
		r.close(nil)
	})
}

func TestInvariant19OtherPoliciesDoNotAsk(t *testing.T) {
	for _, p := range []Policy{Auto(), All()} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Policy: p, Window: func() time.Duration {
				t.Errorf("%v asks for a window", p)
				return time.Hour
			}}, nil)
			r.Mark(1)
			r.wantAnswer("wait", r.wait(t.Context(), 1), answer{0, nil})
			r.close(nil)
		})
	}
}

func TestObserveIsToldOfEveryEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		r := newRig(t, Options{Observe: func(d time.Duration, covered uint64, err error) {
			seen = append(seen, fmt.Sprintf("%v %d %v", d, covered, err))
		}}, func(r *rig) { r.takes = 10 * ms; r.outcome = failFirst(1) })
		r.Mark(7)
		_ = r.Settle(t.Context())
		_ = r.Settle(t.Context())
		want := "10ms 0 disk is gone, 10ms 7 <nil>"
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("observed %q, want %q", got, want)
		}
		r.close(nil)
	})
}

// TestEveryInvariantHasATest keeps the numbers of doc.go and of this file in
// step.
func TestEveryInvariantHasATest(t *testing.T) {
	find := func(file, pattern string) map[string]bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return found
	}
	stated := find("doc.go", `(?m)^//  (\d+)\. `)
	tested := find("invariants_test.go", `(?m)^func TestInvariant0?(\d+)[A-Z]`)
	if len(stated) < 18 {
		t.Errorf("found %d numbered invariants in doc.go, want 18 or more", len(stated))
	}
	for n := range stated {
		if !tested[n] {
			t.Errorf("invariant %s of doc.go has no test TestInvariant%02s…", n, n)
		}
	}
	for n := range tested {
		if !stated[n] {
			t.Errorf("TestInvariant%02s… tests an invariant that doc.go does not state", n)
		}
	}
}

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

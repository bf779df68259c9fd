package settle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// TestEveryInvariantHasATest keeps the numbers of doc.go and of these files in
// step.
func TestEveryInvariantHasATest(t *testing.T) {
	find := func(files, pattern string) map[string]bool {
		paths, err := filepath.Glob(files)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = true
			}
		}
		return found
	}
	stated := find("doc.go", `(?m)^//  (\d+)\. `)
	tested := find("invariants*_test.go", `(?m)^func TestInvariant0?(\d+)[A-Z]`)
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

package settle

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// crowded is a rig at 20 ms whose second effect has released three, for position
// 4, while two have queued, for 5 and 6: a gather for five lasts until 22.5 ms.
func crowded(t *testing.T, o Options, set func(*rig)) (r *rig, queued []<-chan answer) {
	r = newRig(t, o, func(r *rig) {
		r.takes = 10 * ms
		if set != nil {
			set(r)
		}
	})
	r.Mark(1)
	r.wait(t.Context(), 1) // 0 … 10, alone: nothing is gathered for it
	r.at(5 * ms)
	r.queue(t.Context(), 2, 3, 4) // 10 … 20
	r.at(15 * ms)
	queued = r.queue(t.Context(), 5, 6)
	r.at(20 * ms)
	return r, queued
}

// queue marks positions and waits for each.
func (r *rig) queue(ctx context.Context, positions ...uint64) (waits []<-chan answer) {
	for _, pos := range positions {
		r.Mark(pos)
		waits = append(waits, r.wait(ctx, pos))
	}
	return waits
}

// wantAnswers checks that all have been answered at the same time.
func (r *rig) wantAnswers(waits []<-chan answer, at time.Duration, err error) {
	r.t.Helper()
	for i, w := range waits {
		r.wantAnswer(fmt.Sprint(i), w, answer{at, err})
	}
}

// firstTwo are the effects of crowded.
func firstTwo(more ...call) []call {
	return append([]call{{0, 1, nil}, {10 * ms, 4, nil}}, more...)
}

func TestInvariant20GatherBeginsWhenAsManyHaveQueued(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), Every(ms), All()} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, waits := crowded(t, Options{Policy: p}, nil)
				r.at(21 * ms)
				waits = append(waits, r.queue(t.Context(), 7, 8)...)
				r.at(22 * ms)
				r.want(firstTwo()...)
				waits = append(waits, r.queue(t.Context(), 9)...) // the fifth
				r.at(40 * ms)
				r.wantAnswers(waits, 32*ms, nil)
				r.want(firstTwo(call{22 * ms, 9, nil})...)
				r.close(nil)
			})
		})
	}
}

// A bell that was rung before the gather began is heard during it.
func TestInvariant20GatherIsNotEndedByALateBell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, waits := crowded(t, Options{Policy: All()}, nil)
		r.at(21 * ms)
		r.bell.Ring()
		r.want(firstTwo()...)
		r.at(time.Second)
		r.wantAnswers(waits, 32500*time.Microsecond, nil)
		r.want(firstTwo(call{22500 * time.Microsecond, 6, nil})...)
		r.close(nil)
	})
}

func TestInvariant20LastCallerRunsTheEffectItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := ""
		r, _ := crowded(t, Options{}, func(r *rig) { r.during = func(int) { ran = goid() } })
		r.queue(t.Context(), 7, 8)
		r.Mark(9)
		if err := r.Wait(t.Context(), 9); err != nil || ran != goid() {
			t.Errorf("Wait() = %v with the effect in goroutine %s, the caller is %s", err, ran, goid())
		}
		r.close(nil)
	})
}

func TestInvariant20GatherTakesAQuarterAtMost(t *testing.T) {
	for _, p := range []Policy{Auto(), Every(time.Hour), All()} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, waits := crowded(t, Options{Policy: p}, nil)
				r.at(21 * ms)
				waits = append(waits, r.queue(t.Context(), 7)...)
				r.at(time.Second)
				r.wantAnswers(waits, 32500*time.Microsecond, nil)
				r.want(firstTwo(call{22500 * time.Microsecond, 7, nil})...)
				r.close(nil)
			})
		})
	}
}

func TestInvariant20CallersComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Two crowds, of one and of nine, become one: what invariant 9 alone leaves
		// apart for ever.
		const callers, effects = 10, 10
		var last atomic.Uint64
		r := newRig(t, Options{}, func(r *rig) { r.takes = 10 * ms })
		for range callers {
			go func() {
				for r.now() <= (effects-1)*10*ms {
					pos := last.Add(1)
					r.Mark(pos)
					_ = r.Wait(t.Context(), pos)
				}
			}()
		}
		r.at(time.Second)
		want := slices.Clone(r.calls[:2]) // the crowds
		for i := 2; i < effects; i++ {    // nobody waits for anybody: all come back at once
			want = append(want, call{time.Duration(i) * 10 * ms, want[i-1].UpTo + callers, nil})
		}
		r.want(want...)
		r.close(nil)
	})
}

func TestInvariant20LoneCallerIsNotMadeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 10 * ms })
		for i := range uint64(5) {
			r.Mark(i + 1)
			if err := r.Wait(t.Context(), i+1); err != nil {
				t.Error(err)
			}
		}
		// Nor is one who meets another: each is a group of one.
		one := r.queue(t.Context(), 6)
		r.at(55 * ms)
		two := r.queue(t.Context(), 7)
		r.at(time.Second)
		r.wantAnswers(one, 60*ms, nil)
		r.wantAnswers(two, 70*ms, nil)
		r.close(nil)
	})
}

func TestInvariant20NobodyIsMadeToWaitAfterTheQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := crowded(t, Options{}, nil) // 22.5 … 32.5, and the next gather until 35
		r.at(36 * ms)
		late := r.queue(t.Context(), 7)
		r.at(time.Second)
		r.wantAnswers(late, 46*ms, nil)
		r.want(firstTwo(call{22500 * time.Microsecond, 6, nil}, call{36 * ms, 7, nil})...)
		r.close(nil)
	})
}

func TestInvariant20ShortEffectsAreNotGatheredFor(t *testing.T) {
	for takes, gathers := range map[time.Duration]bool{gatherGate - 1: false, gatherGate: true} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{}, func(r *rig) { r.takes = takes })
				r.queue(t.Context(), 1)
				r.queue(t.Context(), 2, 3, 4)
				r.at(takes)
				waits := r.queue(t.Context(), 5, 6)
				r.at(time.Second)
				at := 3 * takes
				if gathers {
					at += takes / 4
				}
				r.wantAnswers(waits, at, nil)
				r.close(nil)
			})
		})
	}
}

func TestInvariant20LengthIsSmoothed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := crowded(t, Options{}, func(r *rig) {
			r.during = func(n int) {
				if n == 2 {
					time.Sleep(32 * ms) // 10 ms + 32 ms: an eighth of it counts
				}
			}
		})
		r.at(time.Second)
		r.want(firstTwo(call{52*ms + (10+4)*ms/4, 6, nil})...)
		r.close(nil)
	})
}

func TestInvariant20UrgeAndCloseEndAGather(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"Urge":  func(r *rig) { r.Urge() },
		"Close": func(r *rig) { r.close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, waits := crowded(t, Options{}, nil)
				r.at(21 * ms)
				end(r)
				r.at(time.Second)
				r.wantAnswers(waits, 31*ms, nil)
				r.want(firstTwo(call{21 * ms, 6, nil})...)
				r.close(nil)
			})
		})
	}
}

func TestInvariant20CancelledWaiterIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, waits := crowded(t, Options{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone := r.queue(ctx, 7)
		cancel()
		r.wantAnswers(gone, 20*ms, context.Canceled)
		r.at(21 * ms)
		waits = append(waits, r.queue(t.Context(), 8, 9)...)
		r.want(firstTwo()...) // four of five
		r.at(22 * ms)
		waits = append(waits, r.queue(t.Context(), 10)...)
		r.at(time.Second)
		r.wantAnswers(waits, 32*ms, nil)
		r.close(nil)
	})
}

func TestInvariant20WaiterCountsOnceItsPositionIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, waits := crowded(t, Options{}, nil)
		for pos := uint64(7); pos <= 9; pos++ {
			waits = append(waits, r.wait(t.Context(), pos))
		}
		r.at(21 * ms)
		r.Mark(8) // four of five
		r.want(firstTwo()...)
		r.at(22 * ms)
		r.Mark(9)
		r.at(time.Second)
		r.wantAnswers(waits, 32*ms, nil)
		r.want(firstTwo(call{22 * ms, 9, nil})...)
		r.close(nil)
	})
}

func TestInvariant20NothingIsGatheredAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Retry: time.Hour}, func(r *rig) {
			r.takes = 10 * ms
			r.outcome = func(n int, _ uint64) error {
				if n == 2 {
					return errDisk
				}
				return nil
			}
		})
		r.queue(t.Context(), 1)
		failed := r.queue(t.Context(), 2, 3, 4)
		r.at(15 * ms)
		waits := r.queue(t.Context(), 5, 6)
		r.at(time.Second)
		r.wantAnswers(failed, 20*ms, errDisk)
		r.wantAnswers(waits, 30*ms, nil)
		r.close(nil)
	})
}

// Callers who do not come back at once: each effect releases four, four more have
// queued, and nobody else comes.
func TestInvariant20GathersInVainBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Uint64
		r := newRig(t, Options{}, func(r *rig) {
			r.takes = 8 * ms
			r.during = func(n int) { // four who wait for the next effect
				for range 4 {
					if n == 100 {
						break
					}
					go func() {
						pos := last.Add(1)
						r.Mark(pos)
						_ = r.Wait(t.Context(), pos)
					}()
				}
			}
		})
		last.Store(1)
		r.queue(t.Context(), 1)
		r.at(time.Hour)
		var gathered []int // which effects were gathered for
		for i := 1; i < len(r.calls); i++ {
			switch pause := r.calls[i].At - r.calls[i-1].At - r.takes; pause {
			case 0:
			case 2 * ms:
				gathered = append(gathered, i+1)
			default:
				t.Errorf("effect %d began %v after the one before", i+1, pause)
			}
		}
		// None for 1, 2, 4, 8, 16 and 32 effects; the first released one only.
		want := []int{3, 5, 8, 13, 22, 39, 72}
		if len(r.calls) != 100 || fmt.Sprint(gathered) != fmt.Sprint(want) {
			t.Errorf("gathered for the effects %v of %d, want %v", gathered, len(r.calls), want)
		}
		r.close(nil)
	})
}

func TestInvariant20GatherThatSucceedsForgetsThoseInVain(t *testing.T) {
	g := gather{gate: ms, smooth: 8 * ms}
	for i, effect := range []struct{ comes, skip int }{
		{0, 1},
		{0, 0},
		{0, 2},
		{0, 1},
		{0, 0},
		{1, 4},
		{0, 3},
		{0, 2},
		{0, 1},
		{0, 0},
		{2, 0}, // half as many again
		{0, 1},
		{0, 0},
		{4, 0}, // all
		{0, 1},
	} {
		g.begin(time.Now(), 4, 4)
		g.queued += effect.comes
		g.end()
		if g.skip != effect.skip {
			t.Errorf("effect %d: %d are not gathered for, want %d", i, g.skip, effect.skip)
		}
	}
}

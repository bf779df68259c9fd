package settle

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// tenth is how long the effects of these tests take: less than gatherGate.
const tenth = 100 * time.Microsecond

// shortCrowd is a rig at 0.2 ms whose second effect has released three while one, for
// position 5, has queued.
func shortCrowd(t *testing.T, g Gather) (r *rig, queued []<-chan answer) {
	r = newRig(t, Options{Gather: g}, func(r *rig) { r.takes = tenth })
	r.queue(t.Context(), 1) // 0 … 0.1, alone
	r.at(tenth / 2)
	r.queue(t.Context(), 2, 3, 4) // 0.1 … 0.2
	r.at(3 * tenth / 2)
	queued = r.queue(t.Context(), 5)
	r.at(2 * tenth)
	return r, queued
}

func TestInvariant22ShortEffectsAreGatheredForAsOptionsSay(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Gather
		at   time.Duration // when the third effect begins; 6, 7 and 8 come at 0.3, 0.4 and 0.5 ms
		upTo uint64
	}{
		{"all who are there", Gather{From: 4, Limit: ms}, 5 * tenth, 8},
		{"as many as Most", Gather{From: 4, Most: 3, Limit: ms}, 4 * tenth, 7},
		{"Most have queued already", Gather{From: 4, Most: 1, Limit: ms}, 2 * tenth, 5},
		{"as long as Limit", Gather{From: 4, Limit: 3 * tenth / 2}, 7 * tenth / 2, 6},
		{"fewer than From", Gather{From: 5, Limit: ms}, 2 * tenth, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, waits := shortCrowd(t, tt.g)
				for pos := uint64(6); pos <= 8; pos++ {
					r.at(time.Duration(pos-3) * tenth)
					waits = append(waits, r.queue(t.Context(), pos)...)
				}
				r.at(time.Second)
				r.wantAnswers(waits[:tt.upTo-4], tt.at+tenth, nil)
				if got := r.calls[2]; got != (call{tt.at, tt.upTo, nil}) {
					t.Errorf("third effect %v", got)
				}
				r.close(nil)
			})
		})
	}
}

// answering is a rig whose owner answers its callers, in answers, and a func that tells
// what Answer was told since.
func answering(t *testing.T, o Options, set func(*rig), answers func(r *rig, n int)) (r *rig, told func() string) {
	var r2 *rig
	text, n := "", 0
	o.Policy = All()
	o.Answer = func(covered uint64, err error) {
		text += fmt.Sprintf("%v %d %v; ", r2.now(), covered, err)
		if n++; answers != nil {
			answers(r2, n)
		}
	}
	r2 = newRig(t, o, set)
	return r2, func() string { return text }
}

// marks marks so many positions more, one by one.
func (r *rig) marks(n int) {
	for range n {
		r.Mark(r.Marked() + 1)
	}
}

// Those marked while their callers are answered are these callers, who ask again.
func TestInvariant23AnswersAreCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := answering(t, Options{}, func(r *rig) { r.takes = 10 * ms }, func(r *rig, n int) {
			if n == 2 {
				r.marks(1)
				time.Sleep(ms) // no part of the effect's length
				r.marks(1)
			}
		})
		r.marks(1) // 0 … 10
		r.at(5 * ms)
		r.marks(3) // 10 … 20
		r.at(15 * ms)
		r.marks(2)
		r.at(22 * ms)
		r.want(call{0, 1, nil}, call{10 * ms, 4, nil}) // three have queued, of five
		r.marks(1)
		r.at(time.Second)
		r.want(call{0, 1, nil}, call{10 * ms, 4, nil}, call{22 * ms, 9, nil})
		if got, want := told(), "10ms 1 <nil>; 20ms 4 <nil>; 32ms 9 <nil>; "; got != want {
			t.Errorf("Answer was told %s, want %s", got, want)
		}
		r.close(nil)
	})
}

func TestInvariant23GatherForAnswersEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again int // callers who ask again while they are answered
		late  int // at 21 ms
		at    time.Duration
		upTo  uint64
	}{
		{"all at once", 3, 0, 20 * ms, 9},
		{"when time is up", 1, 0, 22500 * time.Microsecond, 7},
		{"nobody comes", 0, 0, 22500 * time.Microsecond, 6},
		{"more than are missing", 0, 4, 21 * ms, 0}, // begins with the third
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := answering(t, Options{}, func(r *rig) { r.takes = 10 * ms }, func(r *rig, n int) {
					if n == 2 {
						r.marks(tt.again)
					}
				})
				r.marks(1)
				r.at(5 * ms)
				r.marks(3)
				r.at(15 * ms)
				r.marks(2)
				r.at(21 * ms)
				r.marks(tt.late)
				r.at(23 * ms)
				r.mu.Lock()
				if got := r.calls[2]; got.At != tt.at || tt.upTo > 0 && got.UpTo != tt.upTo || got.UpTo < 6 {
					t.Errorf("third effect %v", got)
				}
				r.mu.Unlock()
				r.close(nil)
			})
		})
	}
}

// A caller who finds everything settled has the effect run at once, also when a gather
// is over to which nobody came.
func TestInvariant23NobodyIsMadeToWaitAfterAGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := answering(t, Options{}, func(r *rig) { r.takes = 10 * ms }, nil)
		r.marks(1)
		r.at(5 * ms)
		r.marks(3) // 10 … 20, and a gather for three until 22.5
		r.at(30 * ms)
		r.marks(1)
		r.at(35 * ms)
		r.want(call{0, 1, nil}, call{10 * ms, 4, nil}, call{30 * ms, 5, nil})
		r.close(nil)
	})
}

func TestInvariant23AnswerIsToldOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, told := answering(t, Options{Retry: 50 * ms}, func(r *rig) {
			r.takes = 10 * ms
			r.outcome = func(n int, _ uint64) error {
				if n == 1 {
					return errDisk
				}
				return nil
			}
		}, nil)
		r.marks(3)
		r.at(time.Second)
		if got, want := told(), "10ms 0 disk is gone; 70ms 3 <nil>; "; got != want {
			t.Errorf("Answer was told %s, want %s", got, want)
		}
		r.close(nil)
	})
}

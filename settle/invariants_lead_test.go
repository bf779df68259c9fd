package settle

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestInvariant24LeadRunsTheEffectItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := ""
		r := newRig(t, Options{}, func(r *rig) { r.takes, r.during = 10*ms, func(int) { ran = goid() } })
		if err := r.Lead(1); err != nil || ran != "" {
			t.Errorf("Lead() of what is not marked = %v, effect in goroutine %q", err, ran)
		}
		r.Mark(1)
		if err := r.Lead(1); err != nil || ran != goid() || r.now() != 10*ms {
			t.Errorf("Lead() = %v at %v with the effect in goroutine %s, the caller is %s", err, r.now(), ran, goid())
		}
		if err := r.Lead(1); err != nil {
			t.Error(err)
		}
		r.want(call{0, 1, nil})
		r.close(nil)
	})
}

func TestInvariant24LeadWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Policy: All()}, func(r *rig) { r.takes = 10 * ms })
		r.Mark(1)
		r.at(5 * ms)
		r.Mark(2)
		if err := r.Lead(2); err != nil || r.now() != 5*ms {
			t.Errorf("Lead() = %v at %v", err, r.now())
		}
		r.at(time.Second)
		r.want(call{0, 1, nil}, call{10 * ms, 2, nil})
		r.close(nil)
	})
}

func TestInvariant24LeadTellsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(r *rig) { r.outcome = func(int, uint64) error { return errDisk } }
		sticky := newRig(t, Options{Sticky: true}, fails)
		sticky.Mark(1)
		for range 2 {
			if err := sticky.Lead(1); !errors.Is(err, errDisk) {
				t.Errorf("Lead() = %v", err)
			}
		}
		sticky.want(call{0, 1, errDisk})
		sticky.close(errDisk)
		shut := newRig(t, Options{}, nil)
		shut.close(nil)
		if err := shut.Lead(1); !errors.Is(err, ErrClosed) {
			t.Errorf("Lead() after Close = %v", err)
		}
	})
}

func TestInvariant25FailAnswersWhoWaitsForWhatIsNotMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(r *rig) { r.takes = 10 * ms })
		r.Mark(1)
		running := r.wait(t.Context(), 1)
		two, three, four := r.wait(t.Context(), 2), r.wait(t.Context(), 3), r.wait(t.Context(), 4)
		r.Mark(2)
		r.at(5 * ms)
		r.Fail(3, errDisk)
		r.wantAnswer("not marked", three, answer{5 * ms, errDisk})
		r.wantNone("beyond", four)
		r.Mark(4) // it is watched still
		r.at(time.Second)
		r.wantAnswer("running", running, answer{10 * ms, nil})
		r.wantAnswer("marked", two, answer{20 * ms, nil})
		r.wantAnswer("beyond", four, answer{20 * ms, nil})
		r.want(call{0, 1, nil}, call{10 * ms, 4, nil})
		r.close(nil)
	})
}

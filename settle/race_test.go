package settle

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The tests in this file aim at windows of a few instructions between two
// goroutines that run at the same time, by trying many small offsets. When all
// are parked nothing may be left undone.

// spin takes a few nanoseconds times n.
func spin(n int) {
	x := 0
	for i := range n {
		x ^= i
	}
	runtime.KeepAlive(x)
}

// duel starts two funcs at the same moment, as nearly as that can be done, the
// first of them after a random offset.
type duel struct {
	get       chan func()
	up, start atomic.Bool
}

func newDuel() *duel {
	d := &duel{get: make(chan func())}
	go func() {
		for f := range d.get {
			d.up.Store(true)
			for !d.start.Load() {
				runtime.Gosched()
			}
			f()
		}
	}()
	return d
}

// fight runs a here and b on the other side, and returns when everybody in the
// bubble is parked.
func (d *duel) fight(a, b func()) {
	d.up.Store(false)
	d.start.Store(false)
	d.get <- b
	for !d.up.Load() {
		runtime.Gosched()
	}
	d.start.Store(true)
	spin(rand.IntN(2000))
	a()
	synctest.Wait()
}

// TestMarkAgainstParking lets the last mark of a burst come as the settler finds
// nothing to do and parks.
func TestMarkAgainstParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: All()})
		d := newDuel()
		defer close(d.get)
		pos := uint64(0)
		for round := range 10_000 {
			pos += 3
			d.fight(func() { s.Mark(pos) }, func() {
				s.Mark(pos - 2)
				spin(round % 300)
				s.Mark(pos - 1)
			})
			if s.Settled() != pos {
				t.Fatalf("round %d: settled %d of %d, and everybody sleeps", round, s.Settled(), pos)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestMarkAgainstDisarming lets a mark come as an effect ends that has covered
// all marks before, also the one which has opened the next window.
func TestMarkAgainstDisarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Settler
		var inside, end atomic.Bool
		s = New(func(upTo uint64) (uint64, error) {
			if upTo%3 != 1 {
				return upTo, nil
			}
			s.Mark(upTo + 1)
			inside.Store(true)
			for !end.Load() {
				runtime.Gosched()
			}
			return upTo + 1, nil
		}, Options{Policy: All()})
		for round := range uint64(10_000) {
			pos := 3*round + 1
			inside.Store(false)
			end.Store(false)
			s.Mark(pos)
			for !inside.Load() {
				runtime.Gosched()
			}
			end.Store(true)
			spin(rand.IntN(3000))
			s.Mark(pos + 2)
			synctest.Wait()
			if s.Settled() != pos+2 {
				t.Fatalf("round %d: settled %d of %d, and everybody sleeps", round, s.Settled(), pos+2)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitAgainstMark lets a wait for a position and the mark of it meet, in a
// window in which marks need no attention.
func TestWaitAgainstMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: Every(time.Hour)})
		d := newDuel()
		defer close(d.get)
		answers := make(chan error, 1)
		for round := range uint64(10_000) {
			pos := 2 * (round + 1)
			s.Mark(pos - 1)
			d.fight(func() { s.Mark(pos) }, func() { answers <- s.Wait(t.Context(), pos) })
			select {
			case err := <-answers:
				if err != nil {
					t.Fatal(err)
				}
			default:
				t.Fatalf("round %d: %d is marked, somebody waits for it, and everybody sleeps", round, pos)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestMarkAgainstClose lets a mark come at every moment of Close. One of the two
// takes care of it.
func TestMarkAgainstClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel()
		defer close(d.get)
		for round := range uint64(10_000) {
			s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: Every(time.Hour)})
			s.Mark(round % 2) // pending, or not
			d.fight(func() { s.Mark(2) }, func() { _ = s.Close() })
			if s.Settled() != 2 {
				t.Fatalf("round %d: settled %d of 2, and everybody sleeps", round, s.Settled())
			}
		}
	})
}

// TestWaitAgainstClose lets a wait come at every moment of Close. It is answered,
// and truly.
func TestWaitAgainstClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel()
		defer close(d.get)
		answers := make(chan error, 1)
		for round := range uint64(10_000) {
			s := New(func(upTo uint64) (uint64, error) { return upTo, nil }, Options{Policy: Every(time.Hour)})
			s.Mark(1)
			pos := 1 + round%2 // marked, or never
			d.fight(func() { answers <- s.Wait(t.Context(), pos) }, func() { _ = s.Close() })
			select {
			case err := <-answers:
				if (pos == 1) != (err == nil) {
					t.Fatalf("round %d: Wait(%d) = %v", round, pos, err)
				}
			default:
				t.Fatalf("round %d: nobody answered, and everybody sleeps", round)
			}
		}
	})
}

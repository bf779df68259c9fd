package histogram

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrders(t *testing.T) {
	for v, want := range map[uint64]int{
		0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 7: 2, 8: 3, 1023: 9, 1024: 10,
		1<<31 - 1: 30, 1 << 31: 31, 1 << 32: 31, math.MaxUint64: 31,
	} {
		if got := order(v); got != want {
			t.Errorf("%d is of order %d, want %d", v, got, want)
		}
	}
	for i := range Orders - 1 {
		if a, b := order(Last(i)), order(Last(i)+1); a != i || b != i+1 {
			t.Errorf("order %d ends at %d, which is of order %d, the next of %d", i, Last(i), a, b)
		}
	}
}

func TestCounts(t *testing.T) {
	var h Histogram
	if c := h.Counts(); c.String() != "0" || c.Total() != 0 {
		t.Errorf("empty: %s, %d", c, c.Total())
	}
	for _, d := range []time.Duration{-time.Second, 999 * time.Nanosecond, 2 * time.Microsecond, 9 * time.Microsecond, 15999 * time.Nanosecond} {
		h.AddTime(d)
	}
	c := h.Counts()
	if c.String() != "2 1 0 2" || c.Total() != 5 || c.Sum != 0+0+2+9+15 {
		t.Errorf("%s, %d values, together %d", c, c.Total(), c.Sum)
	}
	var other Histogram
	other.Add(1)
	other.Add(16)
	c.Merge(other.Counts())
	if c.String() != "3 1 0 2 1" || c.Sum != 43 {
		t.Errorf("merged: %s, together %d", c, c.Sum)
	}
}

// TestConcurrent: nothing is lost.
func TestConcurrent(t *testing.T) {
	const each = 1000
	var h Histogram
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range each {
				h.Add(1 << i)
			}
		})
	}
	wg.Wait()
	want := Counts{Sum: each * 15}
	for i := range 4 {
		want.N[i] = each
	}
	if diff := cmp.Diff(want, h.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.AddTime(time.Millisecond); _ = h.Counts() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for b.Loop() {
		h.AddTime(time.Millisecond)
	}
}

package selfbench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestQuantiles holds quantiles against those of the sorted durations.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l Latencies
	var all []time.Duration
	for range 20000 {
		d := time.Duration(math.Exp(r.Float64() * 25)) // 1 ns to 72 s
		all = append(all, d)
		l.Add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
		if got := l.Quantile(q); got < want || float64(got) > float64(want)*1.032+1 {
			t.Errorf("quantile %g is %d, want %d or up to 3 %% more", q, got, want)
		}
	}
	if l.Quantile(1) != l.Max() || l.Max() != all[len(all)-1] || l.N() != 20000 {
		t.Errorf("max %d, quantile 1 %d, n %d; want %d twice, 20000", l.Max(), l.Quantile(1), l.N(), all[len(all)-1])
	}
}

// TestBuckets goes over the borders of buckets.
func TestBuckets(t *testing.T) {
	last := -1
	for _, v := range []uint64{0, 1, 31, 32, 33, 63, 64, 65, 66, 127, 128, 131, 132, 1 << 40, 1<<62 + 1<<57, math.MaxInt64} {
		i := bucket(v)
		if longest(i) < v || i > 0 && longest(i-1) >= v {
			t.Errorf("%d is in bucket %d, which goes from %d to %d", v, i, longest(i-1)+1, longest(i))
		}
		if i < last {
			t.Errorf("%d is in bucket %d, below that of a smaller one", v, i)
		}
		last = i
	}
	if last >= len(new(Latencies).counts) {
		t.Errorf("the longest duration is in bucket %d of %d", last, len(new(Latencies).counts))
	}
}

func TestMerge(t *testing.T) {
	var a, b Latencies
	a.Add(-5)
	a.Add(3 * time.Microsecond)
	b.Add(time.Second)
	a.Merge(&b)
	if a.N() != 3 || a.Max() != time.Second || a.Quantile(0) != 0 || a.Quantile(1) != time.Second {
		t.Errorf("n %d, max %s, quantiles 0 and 1 %s, %s", a.N(), a.Max(), a.Quantile(0), a.Quantile(1))
	}
	if a.orders[0] != 1 || a.orders[2] != 1 || a.orders[20] != 1 {
		t.Errorf("orders %v: want one below 1 µs, one of 2 to 4 µs, one of 0.5 to 1 s", a.orders)
	}
	if new(Latencies).Quantile(0.5) != 0 {
		t.Error("a quantile of nothing is not 0")
	}
}

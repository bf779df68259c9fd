package selfbench

import (
	"math"
	"math/bits"
	"time"
)

const (
	fineBits = 5 // buckets within a power of two: 32, so 3 % wide
	fine     = 1 << fineBits
	orders   = 36 // powers of two in µs, up to 9 hours
)

// Latencies counts durations so that quantiles can be told within 3 %, in memory
// that does not grow. The zero value is empty. It is for one goroutine.
type Latencies struct {
	counts [(64 - fineBits) * fine]uint64
	orders [orders]uint64
	n      uint64
	max    time.Duration
}

// Add counts d; less than 0 is 0.
func (l *Latencies) Add(d time.Duration) {
	d = max(d, 0)
	l.counts[bucket(uint64(d))]++
	l.orders[min(bits.Len64(uint64(d/time.Microsecond)), orders-1)]++
	l.n++
	l.max = max(l.max, d)
}

// Merge counts what o has counted, too.
func (l *Latencies) Merge(o *Latencies) {
	for i, c := range &o.counts {
		l.counts[i] += c
	}
	for i, c := range &o.orders {
		l.orders[i] += c
	}
	l.n += o.n
	l.max = max(l.max, o.max)
}

// N is how many were counted.
func (l *Latencies) N() uint64 { return l.n }

// Max is the longest, exactly.
func (l *Latencies) Max() time.Duration { return l.max }

// Quantile is what at least q (0 … 1) of all do not exceed, at most 3 % too
// long; 0 if there are none.
func (l *Latencies) Quantile(q float64) time.Duration {
	rank := max(1, uint64(math.Ceil(q*float64(l.n))))
	var seen uint64
	for i, c := range &l.counts {
		if seen += c; seen >= rank {
			return min(time.Duration(longest(i)), l.max)
		}
	}
	return 0
}

// bucket is the index of v: exact below 32, then 32 to each power of two.
func bucket(v uint64) int {
	exp := max(bits.Len64(v)-fineBits-1, 0)
	return exp<<fineBits + int(v>>exp)
}

// longest is the largest v of bucket i.
func longest(i int) uint64 {
	exp := max(i>>fineBits-1, 0)
	return uint64(i-exp<<fineBits+1)<<exp - 1
}

// Package histogram counts how large things were by the power of two: order 0 are
// 0 and 1, order i are 2^i to 2^(i+1)-1, as journald prints what its event loop
// takes in µs.
package histogram

import (
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Orders is how many there are. The last one is for everything from 2^31 on: in µs,
// 36 minutes.
const Orders = 32

// Histogram counts values. The zero value is empty and ready. Its methods may be
// called concurrently, wait for nothing and allocate nothing.
type Histogram struct {
	n   [Orders]atomic.Uint64
	sum atomic.Uint64
}

// Add counts one value.
func (h *Histogram) Add(v uint64) {
	h.n[order(v)].Add(1)
	h.sum.Add(v)
}

// AddTime counts one duration, in whole µs.
func (h *Histogram) AddTime(d time.Duration) { h.Add(uint64(max(d, 0).Microseconds())) }

// order is that of v.
func order(v uint64) int { return min(bits.Len64(v|1), Orders) - 1 }

// Counts returns what was counted until now. Values that are added meanwhile are in
// it or not, each wholly in N.
func (h *Histogram) Counts() Counts {
	var c Counts
	for i := range h.n {
		c.N[i] = h.n[i].Load()
	}
	c.Sum = h.sum.Load()
	return c
}

// Counts are the contents of a Histogram.
type Counts struct {
	N   [Orders]uint64 // by order
	Sum uint64         // of all values
}

// Merge adds what another histogram has counted.
func (c *Counts) Merge(other Counts) {
	for i, n := range other.N {
		c.N[i] += n
	}
	c.Sum += other.Sum
}

// Total is the number of values.
func (c *Counts) Total() (n uint64) {
	for _, k := range c.N {
		n += k
	}
	return n
}

// Last is the largest value of an order.
func Last(order int) uint64 { return 1<<(order+1) - 1 }

// String prints the counts from order 0 to the last that is not 0, "0" when there is
// none, as journald prints them.
func (c Counts) String() string {
	last := Orders - 1
	for last > 0 && c.N[last] == 0 {
		last--
	}
	words := make([]string, last+1)
	for i := range words {
		words[i] = strconv.FormatUint(c.N[i], 10)
	}
	return strings.Join(words, " ")
}

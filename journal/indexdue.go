package journal

import (
	"sync/atomic"
	"time"
)

// Writing the index makes entries visible to matches of other processes, and the
// newest one at all. It costs some 50 µs for a lone entry, mostly for the number
// of its writes, and a multiple of what the entries cost if a flood pays it for
// each. So it may take one part in indexShare of the time. What quiet time has
// not used is kept for later, up to indexSaved of it: that pays for a burst.
//
//	a line now and then, a burst   each is whole with the write that brings it
//	a steady stream                whole at most 50 times the cost of an index
//	                               later: a few ms
//	a flood                        once a window
const (
	indexShare = 50
	indexSaved = DefaultIndexWindow
	// indexLeast is what an index counts as at least: clocks are coarse, and
	// whoever looks at each is woken by it.
	indexLeast = 80 * time.Microsecond
)

// wIndexDue says when the index may be written next. It keeps one time: that at
// which all that has been written so far will be paid for. It may lie in the past,
// by what was saved, and in the future by a window at most.
type wIndexDue struct {
	window time.Duration // Options.Index; less than 0: none
	begun  time.Time
	paid   atomic.Int64  // nanoseconds since begun
	cost   time.Duration // what the last index counted as; guarded by Writer.io
}

func (d *wIndexDue) init(window time.Duration) {
	d.window, d.begun, d.cost = window, time.Now(), indexLeast
	d.paid.Store(int64(-d.saved()))
}

func (d *wIndexDue) saved() time.Duration { return min(d.window, indexSaved) }

// in returns how long it is until the index may be written; 0 or less: it may
// now. It may be called concurrently.
func (d *wIndexDue) in() time.Duration {
	return time.Duration(d.paid.Load()) - time.Since(d.begun)
}

// pay counts an index that was written. One that took long counts as twice the
// one before at most: a process that had to wait for a processor once, or for
// another's sync, does not keep readers waiting for a window. A flood is still
// known as one after half a dozen.
func (d *wIndexDue) pay(took time.Duration) {
	d.cost = min(max(took, indexLeast), 2*d.cost)
	now := time.Since(d.begun)
	paid := max(time.Duration(d.paid.Load()), now-d.saved())
	d.paid.Store(int64(min(paid+indexShare*d.cost, now+d.window)))
}

// indexNow tells whether a write includes the index: always without a window;
// when notes for it take a large part of the buffer; else when it is paid for.
// Called with io and mu held.
func (w *Writer) indexNow() bool {
	return w.o.Index < 0 || w.m.owedIndex() > w.o.Buffer/4 || w.due.in() <= 0
}

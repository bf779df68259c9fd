package store

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/journal"
)

// A step back of the clock shorter than smallStep is bridged by repeating the
// last time. A longer one begins a new file, at most once per stepPause; until
// then it is bridged too.
const (
	smallStep = uint64(journal.MaxClockStep)
	stepPause = uint64(time.Minute / time.Microsecond)
)

// tell gives the current file the time of the next append. Called with mu held
// and a current file; it may rotate.
func (sl *slot) tell() {
	realtime, monotonic := sl.store.clock()
	if realtime >= sl.last {
		sl.behind = false
	} else {
		realtime = sl.stepBack(realtime, monotonic)
	}
	sl.f.realtime = realtime
	sl.f.monotonic = max(monotonic, sl.f.monotonic)
}

// stepBack returns the time to use when the clock is behind the last entry.
func (sl *slot) stepBack(realtime, monotonic uint64) uint64 {
	if sl.f.appended+sl.f.n == 0 {
		return realtime // nothing in this file can be out of order
	}
	back := sl.last - realtime
	if back >= smallStep && (sl.step == 0 || monotonic-sl.step >= stepPause) &&
		sl.swap(fmt.Sprintf("the clock went back by %s", time.Duration(back)*time.Microsecond)) {
		sl.step = monotonic
		sl.behind = false
		return realtime
	}
	if !sl.behind {
		sl.behind = true
		sl.store.counts.clockSteps.Add(1)
	}
	return sl.last
}

// systemClock returns a clock that makes no system call: time.Now reads both
// clocks through the vDSO, and its monotonic reading is CLOCK_MONOTONIC less a
// constant, taken once.
func systemClock() func() (realtime, monotonic uint64) {
	start := time.Now()
	var ts unix.Timespec
	base := time.Duration(0)
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) == nil {
		base = time.Duration(ts.Nano())
	}
	return func() (uint64, uint64) {
		now := time.Now()
		return uint64(now.UnixMicro()), uint64((base + now.Sub(start)).Microseconds())
	}
}

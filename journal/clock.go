package journal

import "time"

// systemClock returns a clock that makes no system call: time.Now reads both
// clocks through the vDSO, and its monotonic reading is CLOCK_MONOTONIC less a
// constant that is taken once, here.
func systemClock() func() (realtime, monotonic uint64) {
	start := time.Now()
	base := bootMonotonic()
	return func() (uint64, uint64) {
		now := time.Now()
		return uint64(now.UnixMicro()), uint64((base + now.Sub(start)).Microseconds())
	}
}

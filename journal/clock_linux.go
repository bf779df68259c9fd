package journal

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootMonotonic is CLOCK_MONOTONIC now, since boot. The call cannot fail for
// this clock.
func bootMonotonic() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

//go:build !linux

package journal

import "time"

// bootMonotonic is unknown here: monotonic times count from the opening of the
// file.
func bootMonotonic() time.Duration { return 0 }

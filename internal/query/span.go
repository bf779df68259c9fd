package query

import (
	"fmt"
	"strings"
)

// FormatSpan writes a span of time in µs as systemd does, to the millisecond:
// 10min 57.596s.
func FormatSpan(usec uint64) string {
	const accuracy = 1000
	units := []struct {
		usec   uint64
		digits int // decimals that the accuracy leaves
		suffix string
	}{
		{usecPerYear, 0, "y"},
		{usecPerMonth, 0, "month"},
		{7 * usecPerDay, 0, "w"},
		{usecPerDay, 0, "d"},
		{usecPerHour, 0, "h"},
		{usecPerMin, 0, "min"},
		{usecPerSec, 3, "s"},
		{1000, 0, "ms"},
		{1, 0, "us"},
	}
	var parts []string
	for _, u := range units {
		if usec < accuracy && len(parts) > 0 {
			break
		}
		if usec < u.usec {
			continue
		}
		whole, rest := usec/u.usec, usec%u.usec
		if usec < usecPerMin && rest > 0 && u.digits > 0 {
			parts = append(parts, fmt.Sprintf("%d.%0*d%s", whole, u.digits, rest/accuracy, u.suffix))
			rest = 0
		} else {
			parts = append(parts, fmt.Sprintf("%d%s", whole, u.suffix))
		}
		if usec = rest; usec == 0 {
			break
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " ")
}

package remote

import "time"

// allowance bounds how often a peer's file is ended because the order of its
// entries broke: some times at once, and once more with each minute and with each
// hundred entries. A file's tables take MiB, and it takes the place of another
// archive.
type allowance struct {
	left float64
	at   time.Time
}

const (
	maxBreaks       = 20
	entriesPerBreak = 100
	breakEvery      = time.Minute
)

func newAllowance(now time.Time) allowance { return allowance{maxBreaks, now} }

// earn adds what n entries are good for.
func (a *allowance) earn(n int) { a.left = min(maxBreaks, a.left+float64(n)/entriesPerBreak) }

// take takes one; false when none is left.
func (a *allowance) take(now time.Time) bool {
	a.left = min(maxBreaks, a.left+now.Sub(a.at).Minutes()/breakEvery.Minutes())
	a.at = now
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}

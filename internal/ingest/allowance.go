package ingest

import "time"

const (
	// passedBurst is how many bytes of passed files a user may send at once, and
	// passedRate how many a second in the long run. A file is read while nobody
	// else is heard.
	passedBurst = 256 << 20
	passedRate  = 64 << 20
	// passedFree is the size of a file that is not counted: as large as what a
	// datagram may bring.
	passedFree = 512 << 10
	// maxAllowances bounds how many users are remembered. One that is forgotten
	// begins anew.
	maxAllowances = 1024
)

// allowances are what users may still pass. The zero value is ready for use.
type allowances struct {
	of map[uint32]allowance
}

// allowance is a bucket that fills with time.
type allowance struct {
	spent int64 // bytes
	at    time.Duration
}

// admit reports whether the user may pass a file of size bytes now.
func (a *allowances) admit(uid uint32, size int, now time.Duration) bool {
	if size <= passedFree {
		return true
	}
	was := a.of[uid]
	seconds := min(max(now-was.at, 0), time.Minute).Seconds()
	spent := max(was.spent-int64(seconds*passedRate), 0)
	if spent > 0 && spent+int64(size) > passedBurst {
		return false // what it has spent ages on
	}
	if a.of == nil || len(a.of) >= maxAllowances {
		a.of = make(map[uint32]allowance)
	}
	a.of[uid] = allowance{spent + int64(size), now}
	return true
}

package ingest

import (
	"math/bits"
	"sync"
	"time"
)

// maxGroups is how many units the rate limit remembers, as journald's.
const maxGroups = 2047

// limiter is journald's rate limit: per unit and pool of priorities a burst of
// messages in an interval, which begins with a message. Senders without a unit
// are not limited. It may be used concurrently.
type limiter struct {
	interval time.Duration // 0: off
	burst    uint32        // 0: off
	// free returns the space that is left for the journal in bytes; the more
	// there is, the larger is a burst.
	free func() uint64

	mu     sync.Mutex
	groups map[string]*group // guarded by mu
	oldest group             // guarded by mu; ring of all groups, least recently used first
}

// group is what one unit has sent.
type group struct {
	unit       string
	pools      [5]pool
	interval   time.Duration
	used       time.Duration
	prev, next *group
}

// pool counts the messages of some priorities.
type pool struct {
	begun             bool
	begin             time.Duration
	taken, suppressed uint32
}

func newLimiter(interval time.Duration, burst uint32, free func() uint64) *limiter {
	l := &limiter{interval: interval, burst: burst, free: free, groups: make(map[string]*group)}
	l.oldest.prev, l.oldest.next = &l.oldest, &l.oldest
	return l
}

// poolOf groups the priorities 0–2, 3, 4, 5–6 and 7.
func poolOf(priority uint8) int { return int([8]uint8{0, 0, 0, 1, 2, 3, 3, 4}[priority&7]) }

// admit decides about one message at the time now. suppressed is how many were
// dropped before this one since the interval began that has just ended.
func (l *limiter) admit(f *facts, priority uint8, now time.Duration) (ok bool, suppressed uint32) {
	interval, burst := l.interval, l.burst
	if f.limitSet {
		interval, burst = f.rateInterval, f.rateBurst
	}
	if f.unit == "" || interval <= 0 || burst == 0 {
		return true, 0
	}
	if l.free != nil {
		burst = modulate(burst, l.free())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.group(f.unit, interval, now).pools[poolOf(priority)]
	switch {
	case !p.begun || p.begin+interval < now:
		suppressed = p.suppressed
		*p = pool{begun: true, begin: now, taken: 1}
		return true, suppressed
	case p.taken < burst:
		p.taken++
		return true, 0
	}
	p.suppressed++
	return false, 0
}

// modulate enlarges a burst with the space that is left: × 5/4 at 2 MiB, × 2 at
// 16 MiB, × 4 at 4 GiB.
func modulate(burst uint32, free uint64) uint32 {
	log := bits.Len64(free) - 1
	if log <= 20 {
		return burst
	}
	return uint32(min(uint64(burst)*uint64(log-16)/4, 1<<32-1))
}

// group returns the unit's group as the most recently used one.
func (l *limiter) group(unit string, interval, now time.Duration) *group {
	g := l.groups[unit]
	if g == nil {
		for len(l.groups) > 0 && (len(l.groups) >= maxGroups || l.oldest.next.expired(now)) {
			old := l.oldest.next
			old.unlink()
			delete(l.groups, old.unit)
		}
		g = &group{unit: unit}
		l.groups[unit] = g
	} else {
		g.unlink()
	}
	g.interval, g.used = interval, now
	g.prev, g.next = l.oldest.prev, &l.oldest
	g.prev.next, g.next.prev = g, g
	return g
}

func (g *group) unlink() { g.prev.next, g.next.prev = g.next, g.prev }

// expired reports whether nothing in g matters any more.
func (g *group) expired(now time.Duration) bool {
	for _, p := range g.pools {
		if p.begun && p.begin+g.interval >= now || p.suppressed > 0 {
			return false
		}
	}
	return true
}

package web

import "time"

// Limits of a gather. They are those of settle and linelog, to which all answers of an
// outbox are one caller.
const (
	shortSync  = 500 * time.Microsecond
	gatherPart = 4 // a gather for a longer sync takes at most this part of its length
	gatherTime = time.Millisecond
	gatherFrom = 16 // before a short sync: below it a gather costs more than it saves
	gatherMost = 64 // a sync for so many costs each next to nothing
	smoothing  = 8  // of each sync's length this part goes into the smoothed one
	gatherSkip = 64 // bound of crowd.skip
)

// crowd is how the clients of an outbox come to share syncs. Each asks again when it
// has been answered: without a gather one half of them would ask during the sync for
// the other, and each would wait for two.
type crowd struct {
	timer  *time.Timer
	smooth time.Duration // length of syncs, smoothed; 0: there was none

	missed int // how many syncs are not gathered for after a gather in vain; 0: the last was not
	skip   int // how many of them are left
}

// plan takes in a sync that took so long, and tells for how many answers to wait before
// the next, and how long, when there are so many clients, of whom so many were answered
// and so many have asked again. 0: for none.
func (c *crowd) plan(all, sent, due int, took time.Duration) (want int, limit time.Duration) {
	if c.smooth == 0 {
		c.smooth = took
	}
	c.smooth += (took - c.smooth) / smoothing
	want, limit = all, c.smooth/gatherPart
	if c.smooth < shortSync {
		want, limit = min(want, gatherMost), gatherTime
		if want < gatherFrom {
			return 0, 0
		}
	}
	switch {
	case sent <= 1 || due >= want:
		return 0, 0
	case c.skip > 0:
		c.skip--
		return 0, 0
	}
	return want, limit
}

// result takes in what a gather has come to. One in which time was up before half of
// those who are missing came was in vain: these clients do not ask again at once.
func (c *crowd) result(before, after, want int) {
	if 2*(after-before) >= want-before {
		c.missed = 0
		return
	}
	c.missed = min(max(2*c.missed, 1), gatherSkip)
	c.skip = c.missed
}

// gather waits for clients that have just been answered, so many of all, after a sync
// that took so long.
func (b *outbox) gather(all, sent int, took time.Duration) {
	b.mu.Lock()
	before := len(b.due)
	want, limit := b.crowd.plan(all, sent, before, took)
	b.want = want
	b.mu.Unlock()
	if want == 0 {
		return
	}
	b.crowd.timer.Reset(limit)
	for up := false; !up; {
		select {
		case <-b.crowd.timer.C:
			up = true
		case <-b.bell.C(): // perhaps for what is over
		}
		b.mu.Lock()
		due := len(b.due)
		if due >= want || b.ended.Load() {
			up = true
		}
		if up {
			b.want = 0
			b.crowd.result(before, due, want)
		}
		b.mu.Unlock()
	}
	b.crowd.timer.Stop()
}

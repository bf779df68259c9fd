package settle

import "time"

// gatherGate is the length of an effect from which on gathering pays whatever the
// effect is. Below it the wake-ups of a group take as long as the effect: 200 callers
// lose up to a third by waiting a part of it for one another.
const gatherGate = 500 * time.Microsecond

// Gather says how callers come together before an effect that is shorter than half a
// millisecond. It pays if such an effect costs much processor time: a sync takes some
// 70 µs of it however short the disk is, and many callers would pay for it almost alone.
type Gather struct {
	// From is how many callers there have to be: 0 gathers for no short effect. Below
	// 16 a gather costs more than a sync saves.
	From int
	// Most is for how many callers a gather waits, as an effect for so many costs each
	// next to nothing; 0: for all there are.
	Most int
	// Limit is how long it waits for them; 0: not at all.
	Limit time.Duration
}

// GatherForSyncs is the Gather of syncs: from 16 callers on, for 64 of them and no more,
// and for a millisecond. As it was measured: with fewer callers a gather costs more than
// it saves, and among 64 what a sync costs is next to nothing.
func GatherForSyncs() Gather { return Gather{From: 16, Most: 64, Limit: time.Millisecond} }

const (
	gatherPart = 4  // a gather takes at most this part of an effect's length
	smoothing  = 8  // of each effect's length this part goes into the smoothed one
	maxSkip    = 64 // bound of gather.skip
)

// gather is how a settler lets callers queue between two effects, so that they
// become one group.
//
// In a closed loop, where each caller comes back when it has been answered, two
// crowds form without it: one comes back while the effect for the other runs,
// and each waits for two effects. When an effect ends, those whom it releases
// and those who have queued meanwhile are all there are; when as many have
// queued again, nobody is missing and the effect for all begins.
//
// Guarded by Settler.mu.
type gather struct {
	gate   time.Duration // gatherGate; a test may set another before the first mark
	short  Gather        // Options.Gather
	smooth time.Duration // length of effects, smoothed; 0: none has run

	until  time.Time // no effect begins before, unless want have queued; zero: no gather
	want   int       // callers
	queued int       // callers who wait for a marked position; kept while until is set
	before int       // queued when the gather began

	missed int // how many effects are not gathered for after a gather in vain; 0: the last was not
	skip   int // how many of them are left
}

// length takes in how long an effect took.
func (g *gather) length(took time.Duration) {
	if g.smooth == 0 {
		g.smooth = took
	}
	g.smooth += (took - g.smooth) / smoothing
}

// begin decides as an effect ends whether to gather for the next. The effect has
// released so many callers, and so many have queued. A lone caller is never made
// to wait: there is nobody to wait for.
func (g *gather) begin(now time.Time, released, queued int) {
	want, limit := released+queued, g.smooth/gatherPart
	if g.smooth < g.gate {
		if g.short.From == 0 || want < g.short.From {
			return
		}
		limit = g.short.Limit
		if g.short.Most > 0 {
			want = min(want, g.short.Most)
		}
	}
	switch {
	case released <= 1 || queued >= want:
		return
	case g.skip > 0:
		g.skip--
		return
	}
	g.until = now.Add(limit)
	g.want, g.queued, g.before = want, queued, queued
}

// end ends the gather, if there is one, because an effect begins. One for which
// time was up before half of those who were missing came was in vain: these callers
// do not come back at once. After each in a row twice as many effects are not
// gathered for.
func (g *gather) end() {
	if g.until.IsZero() {
		return
	}
	g.until = time.Time{}
	if 2*(g.queued-g.before) >= g.want-g.before {
		g.missed = 0
		return
	}
	g.missed = min(max(2*g.missed, 1), maxSkip)
	g.skip = g.missed
}

// holds tells whether an effect has to wait for more callers, besides those who
// have queued.
func (g *gather) holds(more int) bool {
	return !g.until.IsZero() && g.queued+more < g.want && time.Now().Before(g.until)
}

// demands counts the callers who wait for a marked position. If the owner answers its
// callers, each position past settled is one.
func (s *Settler) demands() (n int) {
	m := s.marked.Load()
	if s.o.Answer != nil {
		return int(m - s.settled.Load())
	}
	for _, w := range s.waiters {
		if w.pos <= m {
			n++
		}
	}
	return n
}

// recount sets what the gather has come to, when more than one caller may have
// come or gone. Called with mu held.
func (s *Settler) recount() {
	if !s.g.until.IsZero() {
		s.g.queued = s.demands()
	}
}

package settle

import "time"

// gatherGate is the length of an effect from which on gathering pays. Below it
// the wake-ups of a group take as long as the effect: 200 callers lose up to a
// third by waiting for one another.
const gatherGate = 500 * time.Microsecond

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
	switch {
	case released <= 1 || g.smooth < g.gate:
		return
	case g.skip > 0:
		g.skip--
		return
	}
	g.until = now.Add(g.smooth / gatherPart)
	g.want, g.queued, g.before = released+queued, queued, queued
}

// end ends the gather, if there is one, because an effect begins. One for which
// time was up with less than half as many again was in vain: these callers do
// not come back at once. After each in a row twice as many effects are not
// gathered for.
func (g *gather) end() {
	if g.until.IsZero() {
		return
	}
	g.until = time.Time{}
	if g.queued >= g.want || 2*(g.queued-g.before) >= g.before {
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

// demands counts the callers who wait for a marked position.
func (s *Settler) demands() (n int) {
	m := s.marked.Load()
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

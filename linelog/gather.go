package linelog

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// Limits of a gather.
const (
	gatherFrom = 16 // callers there are: below it a gather costs more than it saves
	gatherMost = 64 // callers that are waited for: a sync for so many costs each next to nothing
	gatherTime = time.Millisecond
)

// gather lets callers come together before a short sync. A sync takes some 70 µs of
// processor time however long the disk takes, as much as three HTTP requests; on a
// disk that syncs in 0.3 ms many callers would pay for it almost alone. (For long
// syncs settle gathers by itself.) So while a sync has many callers, and others come
// during it, the next begins when as many have asked for it, or after a millisecond.
type gather struct {
	asked atomic.Uint64 // callers who have asked for a sync
	want  atomic.Uint64 // when asked reaches it the bell rings; MaxUint64: nobody listens
	bell  *settle.Bell
	timer *time.Timer

	snap uint64 // asked when the last sync began; used by the effect only, as what follows
	last uint64 // callers of that sync
	all  uint64 // and of those who asked during it: there are no others, as far as is known
}

// init makes g ready.
func (g *gather) init() {
	g.bell, g.timer = settle.NewBell(), time.NewTimer(time.Hour)
	g.timer.Stop()
	g.want.Store(math.MaxUint64)
}

// ask counts a caller.
func (g *gather) ask() {
	if g.asked.Add(1) == g.want.Load() {
		g.bell.Ring()
	}
}

// wait waits for callers, if there is reason to. It is called by the effect.
func (g *gather) wait() {
	want := min(g.all, gatherMost)
	if want < gatherFrom || g.asked.Load() >= g.snap+want {
		return
	}
	// First want, then the look at asked; ask does it the other way round.
	g.want.Store(g.snap + want)
	if g.asked.Load() < g.snap+want {
		g.timer.Reset(gatherTime)
		select {
		case <-g.bell.C():
			g.timer.Stop()
		case <-g.timer.C:
		}
	}
	g.want.Store(math.MaxUint64)
	select {
	case <-g.bell.C(): // it has rung when time was up
	default:
	}
}

// begin takes note of a sync that begins now.
func (g *gather) begin() {
	asked := g.asked.Load()
	g.last, g.snap = asked-g.snap, asked
}

// end takes note that it has ended.
func (g *gather) end() { g.all = g.last + g.asked.Load() - g.snap }

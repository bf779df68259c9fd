package ingest

import (
	"time"

	"github.com/tidemark-log/tidemark/internal/histogram"
)

// Turn is how long the turns of the loops of a path have taken: from the time at
// which there was something to read until all of it was decoded and handed over,
// waiting for room in the sink's buffer included. In µs.
type Turn struct {
	Name string
	histogram.Counts
}

// turns has a histogram for each path.
type turns struct{ native, syslog, stdout, kmsg histogram.Histogram }

// EachTurn tells what the loops have taken since Open. It may be called at any time,
// and allocates nothing.
func (in *Ingest) EachTurn(tell func(Turn)) {
	t := &in.turns
	tell(Turn{"native", t.native.Counts()})
	tell(Turn{"syslog", t.syslog.Counts()})
	tell(Turn{"stdout", t.stdout.Counts()})
	tell(Turn{"kmsg", t.kmsg.Counts()})
}

// took counts a turn that has begun at a monotonic time.
func (in *Ingest) took(h *histogram.Histogram, begun time.Duration) {
	now, _ := in.now()
	h.AddTime(now - begun)
}

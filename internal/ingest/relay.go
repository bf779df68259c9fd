package ingest

import (
	"context"
	"sync"
	"time"
)

// relayFrom is the number of entries from which a batch of a flood is handed to
// the sink by the relay. Below it the hop costs more than it saves.
const relayFrom = recvPiece

// lot is a batch, and the buffers that the datagrams lie in of which it is made.
type lot struct {
	batch batch
	slots *slots
	began time.Duration
}

// relay hands the batches of a flood to the sink while the next one is read and
// decoded: appending takes longer than these two, and one processor after the
// other would be what bounds a socket.
//
//	source   read, decode 1 | read, decode 2  (waits) | read, decode 3
//	relay                   | append 1                | append 2
//
// One batch is under way at most, so the order is kept, and a sink that takes
// nothing stops the source one batch later. The source, whose methods these are,
// joins it before it hands over anything itself, tells a barrier to go on, or
// ends.
type relay struct {
	hand    func(ctx context.Context, l *lot) error
	work    chan *lot // nil until the first flood
	done    chan error
	running sync.WaitGroup
	busy    bool
}

// give has l handed over. The caller must not touch it before the next join.
func (r *relay) give(ctx context.Context, l *lot) {
	if r.work == nil {
		r.work, r.done = make(chan *lot, 1), make(chan error, 1)
		r.running.Go(func() {
			for l := range r.work {
				r.done <- r.hand(ctx, l)
			}
		})
	}
	r.busy = true
	r.work <- l
}

// join waits until what was given is handed over, and returns its error.
func (r *relay) join() error {
	if !r.busy {
		return nil
	}
	r.busy = false
	return <-r.done
}

// stop ends the relay.
func (r *relay) stop() {
	if r.work == nil {
		return
	}
	r.join() //nolint:errcheck // the source ends
	close(r.work)
	r.running.Wait()
	r.work = nil
}

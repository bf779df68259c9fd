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
//	source   read, decode 1 | read, decode 2 | read, decode 3   (waits for 1)
//	relay                   | append 1          | append 2         | append 3
//
// One goroutine appends, so the order is kept. Two batches are under way at most:
// the second is there when the first is done, else the relay would wait for the
// source to be woken each time. A sink that takes nothing stops the source two
// batches later. The source, whose methods these are, joins it before it hands over
// anything itself, tells a barrier to go on, or ends.
type relay struct {
	hand    func(ctx context.Context, l *lot) error
	work    chan *lot // nil until the first flood
	done    chan error
	running sync.WaitGroup
	given   int // batches whose end has not been waited for
}

// relayDepth is how many batches are under way at most.
const relayDepth = 2

// give has l handed over, once there is room. The caller must not touch it before
// relayDepth others were given, or the next join. The error is of a batch before.
func (r *relay) give(ctx context.Context, l *lot) error {
	if r.work == nil {
		r.work, r.done = make(chan *lot, relayDepth), make(chan error, relayDepth)
		r.running.Go(func() {
			for l := range r.work {
				r.done <- r.hand(ctx, l)
			}
		})
	}
	err := r.await(relayDepth - 1)
	r.given++
	r.work <- l
	return err
}

// join waits until what was given is handed over, and returns the first error.
func (r *relay) join() error { return r.await(0) }

// idle tells whether nothing is under way.
func (r *relay) idle() bool { return r.given == len(r.done) }

// await waits until no more than n batches are under way.
func (r *relay) await(n int) error {
	var first error
	for ; r.given > n; r.given-- {
		if err := <-r.done; first == nil {
			first = err
		}
	}
	return first
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

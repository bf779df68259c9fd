package ingest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Barrier returns nil when everything that the kernel had received for the
// sockets before the call has been handed to the sink. It is bounded in a flood:
// what arrives after the call is not waited for.
//
//   - datagrams: until one with a time stamp after the call was handled, the
//     queue was found empty, or as many were handled as the queue can hold;
//   - streams: the connections pending at the call are accepted, then of each
//     stream the bytes that are queued when its turn comes. A line that has not
//     ended is not a record yet and stays;
//   - the kernel's own messages: until there is no further one.
//
// It may be called concurrently. Before Run it waits for Run. Once Run has been
// told to end it returns ErrClosed: what is sent then is refused by the kernel,
// or may have come too late. A sink that does not take entries delays it until
// ctx is done. When streams wait to be accepted, and the process is out of
// descriptors, it returns an error that wraps EMFILE.
func (in *Ingest) Barrier(ctx context.Context) error {
	// Pending connections first: they are streams afterwards.
	if err := await(ctx, in.listeners()); err != nil {
		return err
	}
	return await(ctx, in.sources())
}

// await asks every gate and waits for all.
func await(ctx context.Context, gates []*gate) error {
	b := &barrier{after: uint64(time.Now().UnixMicro()), done: make(chan struct{})}
	b.left.Store(int32(len(gates)) + 1)
	for _, g := range gates {
		g.ask(b)
	}
	b.arrive()
	select {
	case <-b.done:
		if b.short.Load() {
			return fmt.Errorf("streams wait to be accepted: %w", unix.EMFILE)
		}
		if b.failed.Load() {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// barrier is one call of Barrier on its way through the sources.
type barrier struct {
	after  uint64 // realtime of the call in µs
	left   atomic.Int32
	failed atomic.Bool // a source has ended without having read all
	short  atomic.Bool // a source is out of descriptors
	done   chan struct{}
}

// fail is arrive of a source that does not know what it has missed.
func (b *barrier) fail() {
	b.failed.Store(true)
	b.arrive()
}

// failShort is fail of a source that would need descriptors.
func (b *barrier) failShort() {
	b.short.Store(true)
	b.arrive()
}

func (b *barrier) arrive() {
	if b.left.Add(-1) == 0 {
		close(b.done)
	}
}

// gate is where a source, the owner of one socket, is told to report or to end
// while it may be asleep on the socket.
//
//	Barrier: asked = append(asked, b)  ──▶ wake: deadline in the past
//	source:  deadline = none           ──▶ look: take asked; empty: sleep
//
// A source whose read has timed out clears the deadline before it looks, so a
// request is either seen or wakes it. A timeout says nothing about the socket:
// the wake-up may come late, for a request that was seen before. A source that
// lets messages gather pauses on hint, which every request raises.
type gate struct {
	// deadline sets the read deadline of the socket.
	deadline func(t time.Time) error

	mu     sync.Mutex
	asked  []*barrier // guarded by mu
	ending bool       // guarded by mu; the source is to read what is queued and end
	closed bool       // guarded by mu; the source has ended
	missed bool       // guarded by mu; and has not read to the end

	hint flag // something of the above has changed; raised and lowered under mu
}

// ask registers b, which arrives when the source has handled what is queued. A
// source that is to end has decided already what it reads: b fails.
func (g *gate) ask(b *barrier) {
	g.mu.Lock()
	closed, late := g.closed, g.ending || g.missed
	if !closed && !late {
		g.asked = append(g.asked, b)
		g.hint.raise()
	}
	g.mu.Unlock()
	switch {
	case late:
		b.fail()
	case closed:
		b.arrive()
	default:
		g.wake()
	}
}

// end tells the source to end once it has handled what is queued.
func (g *gate) end() {
	g.mu.Lock()
	g.ending = true
	g.hint.raise()
	g.mu.Unlock()
	g.wake()
}

// wake interrupts a source that sleeps in a read.
func (g *gate) wake() {
	g.deadline(time.Unix(1, 0)) //nolint:errcheck // a closed socket wakes its reader too
}

// woken is called by the source when a read has timed out, before it looks.
func (g *gate) woken() {
	g.deadline(time.Time{}) //nolint:errcheck // a closed socket fails the next read
}

// look is called by the source before each read. It moves new requests to dst.
func (g *gate) look(dst []*barrier) (asked []*barrier, ending bool) {
	if !g.hint.isRaised() {
		return dst, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	dst = append(dst, g.asked...)
	clear(g.asked)
	g.asked = g.asked[:0]
	if !g.ending {
		g.hint.lower()
	}
	return dst, g.ending
}

// close lets everyone who asks, now or later, go on. waiting are the requests
// that the source had taken. They fail if missed says that it has ended before it
// had read all.
func (g *gate) close(waiting []*barrier, missed bool) {
	g.mu.Lock()
	waiting = append(waiting, g.asked...)
	g.asked, g.closed, g.missed = nil, true, missed
	g.mu.Unlock()
	for _, b := range waiting {
		if missed {
			b.fail()
		} else {
			b.arrive()
		}
	}
}

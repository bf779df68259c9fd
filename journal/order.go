package journal

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Order has several files that are written at the same time read as one
// sequence. A reader that follows a directory, such as journalctl -f, shows what
// the files have in the order of time, of CLOCK_MONOTONIC within a boot, and
// never goes back: an entry that comes to light in one file after a later one in
// another is passed over. So the files of one Order are written one at a time;
// before another file is written, the one before gets what its index lacks; and
// entries that would come to light with a time that is not later than all that
// was shown get one that is, by 1 µs. With files that are written in turns under
// load that moves a time by the length of a write or two, a few ms.
//
// It holds for Writers whose Options name it, which refuse entries that bring a
// time (ErrTime), as that could not be moved.
//
// The files share the bound of Options.Buffer too: what one may hold is less by
// what the others do.
type Order struct {
	io        wLock   // Writer.io of all its writers
	last      *Writer // written last: the only one whose index may lag
	monotonic uint64  // the latest time that was shown, in µs

	held atomic.Int64 // bytes accepted and not yet written, of all its writers

	roomMu sync.Mutex
	room   chan struct{} // not nil: somebody waits for room in the buffer; closed when there is
}

// NewOrder returns an Order of no files yet.
func NewOrder() *Order { return &Order{io: make(wLock, 1)} }

// wLock is a mutex. Who waits for it waits for the disk; virtual time in tests
// goes on while a goroutine waits for a channel, and not for a sync.Mutex.
type wLock chan struct{}

func (l wLock) Lock()   { l <- struct{}{} }
func (l wLock) Unlock() { <-l }

// wait returns a channel that is closed when there may be more room.
func (o *Order) wait() <-chan struct{} {
	o.roomMu.Lock()
	defer o.roomMu.Unlock()
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room
}

// more wakes those who wait for room.
func (o *Order) more() {
	o.roomMu.Lock()
	defer o.roomMu.Unlock()
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// account counts what w holds, after it has changed, and publishes what Stats
// tells. Called with w.mu held.
func (w *Writer) account() {
	now := w.m.owed() + w.staged
	w.order.held.Add(now - w.counted)
	w.counted = now
	w.debt.note(w.pos)
	w.publish()
}

// turn lets w write. Called with io held.
func (o *Order) turn(w *Writer) {
	w.mu.Lock()
	old := w.before
	w.before = nil
	w.mu.Unlock()
	for _, l := range [...]*Writer{o.last, old} {
		if l != nil && l != w && l.order == o && !l.left {
			l.complete()
		}
	}
	if old != nil && old.order == o && !old.left && !old.isWritten() {
		old.passed = true
	}
}

// isWritten reports whether everything that was appended to w is in its file.
func (w *Writer) isWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.Load() == w.pos
}

// complete writes what w holds, with all links. What it could not write it tries
// again in its turn: the others go on. Called with io held.
func (w *Writer) complete() {
	w.mu.Lock()
	pos := w.pos
	w.mu.Unlock()
	if w.indexed < pos {
		_, _ = w.putNow(pos, true)
	}
}

// show notes the times that the next stage of w is about to show, raised where
// they must be. What w could not write before its successor wrote keeps its times:
// a follower has shown later numbers of the sequence and passes it over in any
// case, and every other reader needs the times of a sequence to go forward, or
// finds no order of it and the other files. Called with io and w.mu held, before
// the stage is taken.
func (o *Order) show(w *Writer) {
	m := w.m
	if o.last != w {
		if !w.passed {
			m.raise(o.monotonic + 1)
		}
		o.last = w
	}
	if len(m.fresh) > 0 {
		o.monotonic = max(o.monotonic, m.hdr.TailEntryMonotonic)
		m.fresh = m.fresh[:0]
	}
}

// leave forgets w, which is about to be closed.
func (o *Order) leave(w *Writer) {
	o.io.Lock()
	defer o.io.Unlock()
	w.left = true
	if o.last == w {
		o.last = nil
	}
}

// raise gives the entries that are not in the file, and have an earlier
// monotonic time, this one, and moves their realtime by as much. The clocks of a
// file only go forward, or were bridged: so do the raised times.
func (m *wMem) raise(monotonic uint64) {
	h := &m.hdr
	realtime := uint64(0)
	for _, r := range m.fresh {
		b := m.unwritten(r, 0)
		rt, mono := object.U64(b, object.EntryRealtime), object.U64(b, object.EntryMonotonic)
		if mono >= monotonic && rt >= realtime {
			return
		}
		if mono < monotonic {
			rt += monotonic - mono
			mono = monotonic
		}
		realtime = max(rt, realtime)
		object.PutU64(b, object.EntryRealtime, realtime)
		object.PutU64(b, object.EntryMonotonic, mono)
		seqnum := object.U64(b, object.EntrySeqnum)
		if seqnum == h.HeadEntrySeqnum {
			h.HeadEntryRealtime = realtime
		}
		if seqnum == h.TailEntrySeqnum {
			h.TailEntryRealtime, h.TailEntryMonotonic = realtime, mono
		}
	}
}

package journal

import (
	"context"
	"errors"

	"github.com/tidemark-log/tidemark/entry"
)

// Append appends entries in their order and returns the position behind the
// last one, and how many were appended: all of them when err is nil. It copies
// all that it keeps, touches no file, and allocates nothing in the long run.
// While the buffer is full it waits for room, until ctx ends.
//
// Errors, in which case entries[n:] have not been appended:
//   - ErrFull: they belong into a successor file;
//   - *EntryError: entries[n] can never be appended, or, with ErrOrder, not to
//     this file;
//   - ErrClosed; the error of ctx.
//
// What was appended is written at once by another goroutine; Wait tells when. A
// crash before that leaves nothing of it.
func (w *Writer) Append(ctx context.Context, entries []entry.Entry) (Pos, int, error) {
	done := 0
	for {
		pos, n, room, err := w.tryAppend(entries[done:])
		done += n
		if room == nil {
			return pos, done, reindex(err, done-n)
		}
		select {
		case <-room:
		case <-ctx.Done():
			return pos, done, ctx.Err()
		}
	}
}

// TryAppend is Append, but returns ErrBufferFull instead of waiting.
func (w *Writer) TryAppend(entries []entry.Entry) (Pos, int, error) {
	pos, n, room, err := w.tryAppend(entries)
	if room != nil {
		err = ErrBufferFull
	}
	return pos, n, err
}

// reindex corrects the index of an EntryError whose call began at entries[done:].
func reindex(err error, done int) error {
	if err == nil || done == 0 {
		return err
	}
	var e *EntryError // escapes: not before it is needed
	if errors.As(err, &e) {
		e.Index += done
	}
	return err
}

// tryAppend appends what it can. When the buffer is full it returns a channel
// that is closed when there may be room.
func (w *Writer) tryAppend(entries []entry.Entry) (pos Pos, n int, room <-chan struct{}, err error) {
	large := w.prepare(entries)
	w.mu.Lock()
	before := w.pos
	urgent := false
	n, room, err = w.appendLocked(entries, large, &urgent)
	after := w.pos
	w.mu.Unlock()
	if after > before {
		w.write.Mark(after)
		if urgent {
			w.urge(after)
		}
	}
	return Pos(after), n, room, err
}

func (w *Writer) appendLocked(entries []entry.Entry, large []wLarge, urgent *bool) (n int, room <-chan struct{}, err error) {
	var now wStamp // taken once, when an entry first needs it
	m := w.m
	others := w.order.held.Load() - w.counted
	defer func() {
		m.before = nil // the caller may change them now
		w.account()
	}()
	for i := range entries {
		e := &entries[i]
		switch {
		case w.noMore:
			return i, nil, ErrClosed
		case w.full || m.crowded() != "":
			return i, nil, ErrFull
		case m.owed()+w.staged+others >= w.o.Buffer:
			room = w.order.wait()
			if others = w.order.held.Load() - w.counted; m.owed()+w.staged+others >= w.o.Buffer {
				w.stats.blocked++
				return i, room, nil
			}
		}
		s := wStamp{e.Realtime, e.Monotonic, e.BootID}
		if m.ordered && (e.Realtime != 0 || !e.BootID.IsZero() && e.BootID != w.o.BootID) {
			return i, nil, &EntryError{Index: i, Field: -1, Err: ErrTime, Detail: "of its own, in a file of an Order"}
		}
		if e.Realtime == 0 {
			if now.realtime == 0 {
				now = w.now()
			}
			s = m.clamp(now, e.BootID, w.o.BootID)
		}
		m.large, large = largeOf(large, i)
		if m.keeps {
			m.kept = wKept{e.Seqnum, e.XorHash}
		}
		err := m.build(e, s)
		m.large, m.before = nil, e.Fields
		if err != nil {
			if errors.Is(err, errNoRoom) {
				w.full = true
				return i, nil, ErrFull
			}
			return i, nil, reindex(err, i)
		}
		w.pos++
		*urgent = *urgent || e.Urgent
	}
	return len(entries), nil, nil
}

// now reads the clocks.
func (w *Writer) now() wStamp {
	rt, mono := w.o.Clock()
	return wStamp{realtime: rt, monotonic: mono}
}

// clamp makes the time of an entry that has none: now, but not before the entry
// before it.
func (m *wMem) clamp(now wStamp, boot, own entry.ID) wStamp {
	if boot.IsZero() {
		boot = own
	}
	now.boot = boot
	if h := &m.hdr; h.NEntries > 0 {
		now.realtime = max(now.realtime, h.TailEntryRealtime)
		if boot == h.TailEntryBootID {
			now.monotonic = max(now.monotonic, h.TailEntryMonotonic)
		}
	}
	return now
}

// The limits at which journald rotates a file.
const (
	wFillNum, wFillDen = 3, 4 // of the buckets of a table
	wMaxDepth          = 100  // of a chain
)

// crowded tells why the hash tables want rotation, "" if they do not.
func (m *wMem) crowded() string {
	h := &m.hdr
	switch {
	case h.NData*wFillDen > h.DataBuckets()*wFillNum:
		return "data hash table full"
	case h.NFields*wFillDen > h.FieldBuckets()*wFillNum:
		return "field hash table full"
	case h.DataHashChainDepth > wMaxDepth:
		return "data hash chains too deep"
	case h.FieldHashChainDepth > wMaxDepth:
		return "field hash chains too deep"
	}
	return ""
}

// RotateDue tells whether the file should be rotated, and why, for people. An
// Append then returns ErrFull.
func (w *Writer) RotateDue() (reason string, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason = w.m.crowded()
	if reason == "" && w.full {
		reason = "size limit reached"
	}
	return reason, reason != ""
}

package journal

import (
	"math"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/entry"
)

// wShown is what Stats tells while mu is held, by an append of many entries, say,
// or by who takes a long stage: the state when mu was last given back after one
// of these. Each number is right by itself. Written with mu held.
type wShown struct {
	ready atomic.Bool // something was published
	n     [shownCount]atomic.Uint64
	held  atomic.Int64
	ids   atomic.Pointer[wShownIDs]
}

// wShownIDs is what changes seldom.
type wShownIDs struct {
	path        string
	seqnumID    entry.ID
	limit       uint64
	writeErrors uint64 // the last of which is writeErr
	writeErr    error
}

// Numbers of a wShown.
const (
	shownEntries = iota
	shownBytes
	shownAllocated
	shownPos
	shownFill // math.Float64bits
	shownHeadSeqnum
	shownTailSeqnum
	shownHeadRealtime
	shownTailRealtime
	shownWrites
	shownIndexes
	shownBlocked
	shownSynced // bytes
	shownSince  // µs since 1970
	shownCount
)

// publish brings w.shown up to date. Called with mu held.
func (w *Writer) publish() {
	h, s := &w.m.hdr, &w.shown
	for i, v := range [shownCount]uint64{
		shownEntries:      h.NEntries,
		shownBytes:        w.m.end(),
		shownAllocated:    h.HeaderSize + h.ArenaSize,
		shownPos:          w.pos,
		shownFill:         math.Float64bits(w.m.fill()),
		shownHeadSeqnum:   h.HeadEntrySeqnum,
		shownTailSeqnum:   h.TailEntrySeqnum,
		shownHeadRealtime: h.HeadEntryRealtime,
		shownTailRealtime: h.TailEntryRealtime,
		shownWrites:       w.stats.writes,
		shownIndexes:      w.stats.indexes,
		shownBlocked:      w.stats.blocked,
		shownSynced:       w.debt.synced,
		shownSince:        w.debt.sinceMicro(),
	} {
		if n := &s.n[i]; n.Load() != v { // cheaper than to store what is there
			n.Store(v)
		}
	}
	s.held.Store(w.m.owed() + w.staged)
	if ids := s.ids.Load(); ids == nil || ids.path != w.path || ids.seqnumID != h.SeqnumID ||
		ids.writeErrors != w.stats.writeErrors || (ids.writeErr == nil) != (w.writeErr == nil) {
		s.ids.Store(&wShownIDs{w.path, h.SeqnumID, w.m.limit, w.stats.writeErrors, w.writeErr})
	}
	s.ready.Store(true)
}

// stats is what s tells, and the position up to which entries were appended.
func (s *wShown) stats() (st Stats, pos uint64) {
	ids := s.ids.Load()
	n := func(i int) uint64 { return s.n[i].Load() }
	bytes, synced := n(shownBytes), n(shownSynced)
	return Stats{
		Path:      ids.path,
		Entries:   n(shownEntries),
		Bytes:     bytes,
		Allocated: n(shownAllocated),
		MaxSize:   ids.limit,

		UnsyncedBytes: max(bytes, synced) - synced,
		UnsyncedSince: n(shownSince),

		Buffered:     s.held.Load(),
		Fill:         math.Float64frombits(n(shownFill)),
		SeqnumID:     ids.seqnumID,
		HeadSeqnum:   n(shownHeadSeqnum),
		TailSeqnum:   n(shownTailSeqnum),
		HeadRealtime: n(shownHeadRealtime),
		TailRealtime: n(shownTailRealtime),
		Writes:       n(shownWrites),
		Indexes:      n(shownIndexes),
		WriteErrors:  ids.writeErrors,
		Blocked:      n(shownBlocked),
		WriteErr:     ids.writeErr,
	}, n(shownPos)
}

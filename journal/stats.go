package journal

import (
	"github.com/tidemark-log/tidemark/entry"
)

// Stats is a snapshot of a Writer. Times are in µs since 1970, sizes in bytes;
// counts are those since it was opened, but for Entries.
type Stats struct {
	Path                string
	Entries             uint64 // in the file, those not yet written included
	Bytes               uint64 // length of the file's contents, those not yet written included
	Allocated           uint64 // size of the file
	MaxSize             uint64
	Unwritten, Unsynced uint64  // entries
	Buffered            int64   // bytes accepted and not yet written
	Fill                float64 // on the way to rotation, by what is nearest; 1 is full
	SeqnumID            entry.ID
	HeadSeqnum          uint64 // 0 while the file has no entries
	TailSeqnum          uint64
	HeadRealtime        uint64
	TailRealtime        uint64
	Writes, Indexes     uint64 // turns of writing; those that included the links
	WriteErrors         uint64 // turns that failed
	Blocked             uint64 // appends that met a full buffer
	WriteErr            error  // of the last turn, nil if it succeeded
	SyncErr             error  // of the sync that failed, final; nil if none did
}

// wCounts are counters behind Writer.mu.
type wCounts struct {
	writes, indexes, writeErrors, blocked uint64
}

// Stats returns a snapshot. It blocks no longer than an append does.
func (w *Writer) Stats() Stats {
	syncErr := w.sync.Err()
	synced, written := w.sync.Settled(), w.written.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.m.hdr
	return Stats{
		Path:         w.path,
		Entries:      h.NEntries,
		Bytes:        w.m.end(),
		Allocated:    h.HeaderSize + h.ArenaSize,
		MaxSize:      w.m.limit,
		Unwritten:    w.pos - written,
		Unsynced:     w.pos - synced,
		Buffered:     w.m.owed() + w.staged,
		Fill:         w.m.fill(),
		SeqnumID:     h.SeqnumID,
		HeadSeqnum:   h.HeadEntrySeqnum,
		TailSeqnum:   h.TailEntrySeqnum,
		HeadRealtime: h.HeadEntryRealtime,
		TailRealtime: h.TailEntryRealtime,
		Writes:       w.stats.writes,
		Indexes:      w.stats.indexes,
		WriteErrors:  w.stats.writeErrors,
		Blocked:      w.stats.blocked,
		WriteErr:     w.writeErr,
		SyncErr:      syncErr,
	}
}

// fill is how far the file is on its way to rotation: 1 is full.
func (m *wMem) fill() float64 {
	const part = float64(wFillNum) / wFillDen
	first := m.firstObject()
	size := float64(m.end()-first) / float64(max(m.limit, first+1)-first)
	data := float64(m.hdr.NData) / (part * float64(m.hdr.DataBuckets()))
	fields := float64(m.hdr.NFields) / (part * float64(m.hdr.FieldBuckets()))
	return max(size, data, fields)
}

// Seqnum returns the sequence that the file belongs to and the number of its
// last entry, or of the predecessor's while it has none.
func (w *Writer) Seqnum() (id entry.ID, tail uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hdr.SeqnumID, w.m.hdr.TailEntrySeqnum
}

// HeadSeqnum returns the number of the first entry, 0 if there is none.
func (w *Writer) HeadSeqnum() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hdr.HeadEntrySeqnum
}

// HeadRealtime returns the time of the first entry in µs, 0 if there is none.
func (w *Writer) HeadRealtime() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hdr.HeadEntryRealtime
}

// TailRealtime returns the time of the last entry in µs, 0 if there is none.
func (w *Writer) TailRealtime() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hdr.TailEntryRealtime
}

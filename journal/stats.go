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
	UnsyncedBytes       uint64  // by which the file has grown since the last sync began
	UnsyncedSince       uint64  // when the first unsynced entry was appended, or earlier; 0: none
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

// Stats returns a snapshot. It waits for nothing: while an append or a write is at
// work, it tells what was true before that.
func (w *Writer) Stats() Stats {
	syncErr := w.sync.Err()
	synced, written := w.sync.Settled(), w.written.Load()
	switch {
	case w.mu.TryLock():
		w.publish()
		w.mu.Unlock()
	case !w.shown.ready.Load(): // the very first append
		w.mu.Lock()
		w.publish()
		w.mu.Unlock()
	}
	st, pos := w.shown.stats()
	// What was written and synced may be later than what is shown of the appends.
	st.Unwritten, st.Unsynced = max(pos, written)-written, max(pos, synced)-synced
	st.SyncErr = syncErr
	return st
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

// SyncedSeqnum returns the number of the last entry that is known to be synced:
// one from before the file was opened if none is since. It is not for files with
// Options.KeepNumbers.
func (w *Writer) SyncedSeqnum() uint64 {
	synced := w.sync.Settled()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hdr.TailEntrySeqnum - (w.pos - synced)
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

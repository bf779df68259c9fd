package journal

import "time"

// wDebt is what a power cut would take of a file. Guarded by Writer.mu.
type wDebt struct {
	pos     uint64    // up to which note has seen entries
	since   time.Time // when the first was appended that no sync has covered; zero: there is none
	later   time.Time // the same for the first that the running, or last, sync does not cover
	written uint64    // end of what is in the file, in bytes
	synced  uint64    // end of what the last good sync has covered
}

// note is told that entries up to pos have been appended. It asks for the time
// once a sync.
func (d *wDebt) note(pos uint64) {
	if pos == d.pos {
		return
	}
	d.pos = pos
	if d.since.IsZero() || d.later.IsZero() {
		now := time.Now()
		if d.since.IsZero() {
			d.since = now
		}
		if d.later.IsZero() {
			d.later = now
		}
	}
}

// sinceMicro is since in µs since 1970; 0: nothing is owed.
func (d *wDebt) sinceMicro() uint64 {
	if d.since.IsZero() {
		return 0
	}
	return uint64(d.since.UnixMicro())
}

// beginSync returns what a sync that begins now will cover: the entries up to pos,
// the bytes up to end. What is still to be written will be owed as from the first
// that was before.
func (w *Writer) beginSync() (pos, end uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pos = w.written.Load()
	if pos == w.pos {
		w.debt.later = time.Time{}
	}
	return pos, w.debt.written
}

// endSync is told that such a sync has succeeded.
func (w *Writer) endSync(end uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.debt.since, w.debt.synced = w.debt.later, end
	w.publish()
}

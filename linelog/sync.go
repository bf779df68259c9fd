package linelog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// setAsideEvery is how much time passes at least between two files that are set
// aside: a disk that fails each sync is not to be filled with them.
const setAsideEvery = time.Minute

// errUnsynced is told to who waits for a sync when Close has begun that does none.
var errUnsynced = fmt.Errorf("%w, without a sync, as Options.CloseUnsynced says", ErrClosed)

// syncEffect is the effect of the settler sync: it writes what is not written, and
// syncs what was exchanged by Reopen and then the file. What is written before the
// fdatasync begins is what it promises:
//
//	syncEffect                 writeEffect              forbidden
//	fdatasync begins
//	                           write 7; written = 7
//	fdatasync ends
//	return written == 7                                 7 may not be on disk
func (w *Writer) syncEffect(upTo uint64) (pos uint64, err error) {
	defer w.tell()
	w.io.Lock()
	defer w.io.Unlock()
	if w.noSync {
		return 0, errUnsynced
	}
	if err := w.exchangeFailed(); err != nil {
		return 0, err
	}
	if err := w.put(upTo); err != nil {
		return 0, err
	}
	for _, f := range w.old {
		if err := f.settle(); err != nil {
			return 0, w.writeFailed(err)
		}
	}
	pos, below := w.written, w.keep.seal()
	old := slices.Clone(w.old)
	files := make([]*file, 0, len(old)+1)
	for _, f := range old {
		// One that was removed cannot be synced, and need not be if all of it is.
		if f.dirty || f.named != f.names.Load() {
			files = append(files, f)
		}
	}
	if f := w.f; f != nil && f.dirty {
		files = append(files, f)
	}
	for _, f := range files {
		f.dirty = false
	}
	w.io.Unlock()
	var bad *file
	var condemned bool
	for _, f := range files {
		if condemned, err = w.syncFile(f); err != nil {
			bad = f
			break
		}
	}
	w.io.Lock()
	if err != nil {
		for _, f := range files {
			f.dirty = true // some may not have been synced
		}
		return 0, w.syncFailed(bad, condemned, err)
	}
	w.keep.drop(below)
	w.safe = pos
	w.old = slices.Delete(w.old, 0, len(old))
	for _, f := range old {
		f.close() //nolint:errcheck // it is synced, and nothing is left to do about it
		w.closed(f)
	}
	w.syncWorks()
	return pos, nil
}

// syncFile syncs f and counts it.
func (w *Writer) syncFile(f *file) (condemned bool, err error) {
	begin := time.Now()
	condemned, err = f.sync(w.o.FS)
	d := time.Since(begin)
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.regular {
		w.counts.syncs++
		w.counts.syncTime += d
	}
	if err != nil {
		w.counts.syncErrors++
	}
	return condemned, err
}

// syncWorks takes note that everything written is synced.
func (w *Writer) syncWorks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.failing {
		w.err = nil
	}
	if w.unsyncable {
		w.unsyncable = false
		w.news = append(w.news, fmt.Sprintf("line log %s: all is synced again", w.path))
	}
}

// syncFailed decides what becomes of f, whose sync failed, and returns the error for
// those who wait. Called with io held.
func (w *Writer) syncFailed(f *file, condemned bool, err error) error {
	w.mu.Lock()
	w.err = err
	if !w.unsyncable {
		w.unsyncable = true
		w.news = append(w.news, fmt.Sprintf("line log: %v", err))
	}
	w.mu.Unlock()
	if !condemned { // only its name is not known to be on the disk
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	f.failed = err
	w.exchangeFailed() //nolint:errcheck // the next attempt tries again; the error of the sync is the one to tell
	return fmt.Errorf("%w: %w", ErrSync, err)
}

// exchangeFailed sets the files aside whose sync has failed. As long as there is one
// nothing is synced: another sync of it may succeed, and say nothing. Called with io held.
func (w *Writer) exchangeFailed() error {
	for _, f := range slices.Clone(w.old) {
		if f.failed == nil {
			continue
		}
		if w.justSetAside() {
			return fmt.Errorf("%w: %w", ErrSync, f.failed)
		}
		w.setAside = time.Now()
		w.old = slices.DeleteFunc(w.old, func(x *file) bool { return x == f })
		w.takeOver(f, w.setArchiveAside(f))
	}
	if w.f != nil && w.f.failed != nil {
		return w.exchange()
	}
	return nil
}

// justSetAside tells whether it is too early to set another file aside.
func (w *Writer) justSetAside() bool {
	return !w.setAside.IsZero() && time.Since(w.setAside) < setAsideEvery
}

// exchange sets the file aside whose sync failed, and has its lines that are not
// synced written to a fresh one. A shared file stays, since others write to it, and has
// them written to its end again: these pages are new, and the next sync tells of them.
// Called with io held.
func (w *Writer) exchange() error {
	f := w.f
	if w.justSetAside() {
		return fmt.Errorf("%w: %w", ErrSync, f.failed)
	}
	if f.given || f.shared && f.app.IsAt(f.path) {
		w.setAside = time.Now()
		f.failed = nil
		w.takeOver(f, "")
		return nil
	}
	aside := ""
	if f.app.IsAt(f.path) { // else somebody has renamed or removed it
		if st, err := w.o.FS.Stat(f.path); err == nil && !st.Mode().IsRegular() {
			return fmt.Errorf("%w: %w; set the file aside: %s: %w", ErrSync, f.failed, f.path, errLink)
		}
		aside = w.asideName(f.path)
		if err := w.o.FS.RenameNew(f.path, aside); err != nil {
			return fmt.Errorf("%w: %w; set the file aside: %w", ErrSync, f.failed, err)
		}
	}
	w.setAside = time.Now()
	w.part(f)
	w.f = nil
	w.takeOver(f, aside)
	return nil
}

// asideName is a name beside path that is not taken.
func (w *Writer) asideName(path string) string {
	base := path + "." + time.Now().UTC().Format("20060102T150405")
	name := base + "~"
	for n := 2; ; n++ {
		if _, err := w.o.FS.Stat(name); errors.Is(err, fs.ErrNotExist) || n > 1000 {
			return name
		}
		name = fmt.Sprintf("%s-%d~", base, n)
	}
}

// takeOver has the lines of f that are not known to be synced written again, before
// all others, and closes f unless it is the one to be written to. Called with io held.
func (w *Writer) takeOver(f *file, aside string) {
	chunks, lost, lostTo := w.keep.take(f)
	n := uint64(0)
	for _, c := range chunks {
		n += c.lines
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	chunks = w.restage(chunks)
	where := "a file that was renamed or removed"
	switch {
	case f == w.f:
		where = "it"
	case aside != "":
		where = aside
	}
	text := fmt.Sprintf("line log %s: lines written again after a failed sync: %d", w.path, n)
	if aside != "" {
		text += ", the file is kept as " + aside
	}
	if f == w.f && n > 0 {
		chunks = append([]*chunk{{buf: notice("lines written again after a failed sync: %d", n), lines: 1, pos: w.safe}}, chunks...)
	}
	if lost > 0 {
		said := &chunk{buf: notice("lines that could not be read back from %s, whose sync failed: %d", where, lost), lines: 1, pos: w.safe}
		chunks = append([]*chunk{said}, chunks...)
		text += fmt.Sprintf("; lines that could not be read back: %d", lost)
		if w.lostTo == 0 {
			w.lostFrom = w.safe
		}
		w.lostTo = lostTo
		w.untold = true
	}
	w.q.putBack(chunks)
	w.counts.again += n
	w.counts.lost += lost
	w.written = w.safe
	w.news = append(w.news, text)
	if f == w.f {
		return
	}
	w.counts.setAside++
	f.settle() //nolint:errcheck // its lines are elsewhere
	f.close()  //nolint:errcheck // the error that matters was that of its sync
}

// restage puts the stage where it belongs when chunks are to be written again.
// Called with io and mu held.
func (w *Writer) restage(chunks []*chunk) []*chunk {
	c := w.stage
	switch {
	case c == nil:
	case w.f == nil:
		// The file that it may be in, in part, is not in use any more.
		w.stage = nil
		w.q.held -= int64(len(c.buf))
		chunks = append(chunks, c)
	case len(chunks) > 0:
		// It stays the next to be written, since a part may be there. What is behind it
		// is only when the chunks are, too: so their positions change places.
		last := chunks[len(chunks)-1]
		last.pos, last.end = max(last.pos, c.pos), max(last.end, c.end)
		c.pos = w.safe
	}
	return chunks
}

// Reopen opens the path again, for logrotate and its like: when it returns nil, all
// that is written from now on goes to the file that the path leads to, which is made
// if it is not there. The file before is synced and closed by another goroutine;
// Sync waits for that. If the path leads to the file that is open, nothing is done.
// After an error the file before stays in use.
//
// It waits for a write in progress, not for a sync.
func (w *Writer) Reopen() error {
	pos, err := w.reopen()
	if err != nil {
		return err
	}
	if pos > 0 {
		w.sync.Mark(pos)
		w.sync.Urge()
	}
	return nil
}

// reopen exchanges the file. It returns the position whose sync covers the file
// before, 0 if nothing was done.
func (w *Writer) reopen() (pos uint64, err error) {
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	closing := w.closing
	w.mu.Unlock()
	if closing {
		return 0, ErrClosed
	}
	if w.handed {
		return 0, fmt.Errorf("reopen %s: it was given as open files: %w", w.path, errors.ErrUnsupported)
	}
	if w.f != nil && w.f.app.IsAt(w.path) {
		return 0, nil
	}
	f, err := w.open()
	if err != nil {
		return 0, err
	}
	if !f.regular && !w.o.Sync.IsAuto() {
		return 0, errors.Join(fmt.Errorf("open %s: %w", w.path, ErrNoSync), f.close())
	}
	before := w.f
	w.f = f
	w.device.Store(!f.regular)
	switch {
	case before == nil:
	case !before.regular:
		before.close() //nolint:errcheck // a device, and all is written
	case before.failed != nil:
		w.part(before)
		w.takeOver(before, "")
	default:
		w.leave(before)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pos++ // a position of no line: a sync of it covers the file before
	return w.pos, nil
}

// leave has a file that was exchanged synced and closed later. Called with io held.
func (w *Writer) leave(f *file) {
	w.part(f)
	w.old = append(w.old, f)
}

// part finds out what a failed write of the stage has left in f, which gets no more. Of
// that, whole lines are not written again, but by a failed sync as all others of f. Where
// it cannot be found out all of it is, and may be there twice. Called with io held.
func (w *Writer) part(f *file) {
	if !f.unsure || w.stage == nil {
		return
	}
	n, _ := f.found(w.stage.buf) // what is still to be marked is, by settle
	switch {
	case f.unsure: // it could not look
		w.mu.Lock()
		w.counts.again += w.stage.lines
		w.mu.Unlock()
	case n == 0:
	case n == len(w.stage.buf):
		w.staged(f)
	default:
		w.partly(f, n)
	}
}

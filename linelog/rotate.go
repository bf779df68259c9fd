package linelog

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// Naming says what the files before are called.
type Naming uint8

const (
	// ByTime calls them FILE.20261130T101500, by the time of the rotation in UTC. A
	// second one of the same second, or of a second that the clock has gone back to,
	// ends in _0002, and so on: their names sort as they were written.
	ByTime Naming = iota
	// Numbered calls the newest FILE.1, the one before FILE.2, as logrotate does.
	Numbered
)

// Compression says how the files before are stored.
type Compression uint8

const (
	// Zstd compresses them; their names end in .zst.
	Zstd Compression = iota
	// Plain leaves them as they are.
	Plain
)

// ErrNoRotation says that the file is a pipe, a terminal or another device, of which
// there are no older ones.
var ErrNoRotation = errors.New("not a regular file, it cannot be rotated")

// ErrNotOwned says that others write to the log too, or have opened it: it is rotated
// by who renames it and has each of them reopen it.
var ErrNotOwned = errors.New("others write to it: rename it, and have each of them reopen it")

// Rotation says when a Writer begins a new file, and what becomes of those before.
// It needs a regular file that nobody else writes to. The zero value never begins one
// by itself; all that is zero beside it does nothing.
//
// Where both Size and Age are given the first that is reached counts. A file without
// a line is not rotated, and nothing happens while no line comes: an idle log costs
// nothing.
//
// On Windows, where an open file cannot be renamed, each rotation fails.
type Rotation struct {
	// Size is what a file has at most, in bytes, but for one line that is longer, and
	// while 64 files before are not synced. Less than Options.Buffer bounds that, too.
	Size int64
	// Age is how old the first line of a file is at most when another is added. Of a
	// file that was there at Open it counts from the newest file before, or from its
	// last change if there is none.
	Age time.Duration
	// Keep is how many of the files before are kept; the oldest are removed. 0 means
	// all.
	Keep int
	// Naming and Compression of the files before.
	Naming      Naming
	Compression Compression
}

// enabled tells whether anything is asked for.
func (r *Rotation) enabled() bool { return *r != Rotation{} }

// errLink says that the name of the log is a link now, which is not renamed.
var errLink = errors.New("the name has become a symbolic link: open the log again")

// maxUnsynced bounds the files before that are not synced: each has two descriptors,
// and a disk that does not sync is not to take all that a process may have.
const maxUnsynced = 64

// rotation is the state of the rotations of a Writer. Guarded by Writer.io, but
// for the last members.
type rotation struct {
	path   string    // of the file that was rotated last, or opened first
	f      *file     // whose beginning is known
	begun  time.Time // when its first line was written, as far as is known
	notTo  int64     // a rotation has failed: no other before it has this size
	last   stamp     // of the newest archive
	looked bool      // last is known

	flusher  *settle.Settler // begins the write-back of what was rotated; nil as finisher
	finisher *settle.Settler // finishes what was rotated; nil: there is no rotation
	swept    bool            // it has looked for what a killed one has left; used by it only
	failures []error         // of its run; used by it only
	pos      uint64          // position whose sync covers what was rotated, 0: all is told; guarded by Writer.mu
	synced   uint64          // rotated files that are synced, and one for Open; guarded by Writer.mu
}

// startRotation has what an earlier writer has left finished. Called before w is
// used.
func (w *Writer) startRotation() {
	if !w.o.Rotate.enabled() {
		return
	}
	w.rot.path = w.f.path
	w.rot.finisher = settle.New(w.finishEffect, settle.Options{Policy: settle.All(), Observe: w.o.observer("rotate")})
	w.rot.flusher = settle.New(w.flushEffect, settle.Options{Policy: settle.All()})
	w.rot.synced = 1
	w.rot.finisher.Mark(1)
}

// endRotation finishes what is rotated and synced. Called by Close, when nothing is
// written any more.
func (w *Writer) endRotation() {
	if w.rot.finisher != nil {
		w.rot.flusher.Close()  //nolint:errcheck // its effect returns none
		w.rot.finisher.Close() //nolint:errcheck // as above
	}
}

// writeback is a file whose way to the disk can be begun.
type writeback interface {
	BeginWriteback() error
	Close() error
}

// flushEffect is the effect of the settler flusher: it has the kernel begin to write what
// was rotated, while the sync before is under way, so that its own finds most of it done.
// Errors are left to that sync. The file may be synced and closed meanwhile: so it has a
// descriptor of its own.
func (w *Writer) flushEffect(upTo uint64) (uint64, error) {
	w.io.Lock()
	var files []writeback
	for _, f := range w.old {
		if f.flushed {
			continue
		}
		f.flushed = true
		if again, ok := again(f.app).(writeback); ok {
			files = append(files, again)
		}
	}
	w.io.Unlock()
	for _, f := range files {
		f.BeginWriteback() //nolint:errcheck // see above
		f.Close()          //nolint:errcheck // nothing was written to it
	}
	return upTo, nil
}

// Rotate begins a new file now, whatever its size and age, if there is a line in it.
// Who calls it wants Options.Rotate to say what becomes of the one before; without
// it that is called as by ByTime and left alone.
//
// When it returns nil all that is written from now on goes to the new file. It waits
// for a write in progress, not for a sync. After an error the file before stays in
// use, under its name.
func (w *Writer) Rotate() error {
	err := w.rotateNow()
	w.tell()
	return err
}

func (w *Writer) rotateNow() error {
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	closing := w.closing
	w.mu.Unlock()
	switch {
	case closing:
		return ErrClosed
	case w.f == nil, w.f.regular && w.f.end == 0:
		return nil
	case !w.f.regular:
		return fmt.Errorf("rotate %s: %w", w.path, ErrNoRotation)
	case w.o.Shared || w.f.given:
		return fmt.Errorf("rotate %s: %w", w.path, ErrNotOwned)
	case w.f.shared || w.f.given:
		return fmt.Errorf("rotate %s: %w", w.path, ErrNotOwned)
	}
	return w.rotate()
}

// due tells whether a new file is to begin before n bytes are added. A file with a
// fault in it is repaired first. Called with io held.
func (w *Writer) due(n int) bool {
	r, f := &w.o.Rotate, w.f
	if r.Size <= 0 && r.Age <= 0 || !f.regular || f.unsure || len(w.old) >= maxUnsynced || f.owes() {
		return false
	}
	if w.rot.f != f {
		w.rot.f, w.rot.notTo = f, 0
		w.rot.begun = w.beginning(f)
	}
	switch {
	case f.end == 0:
		w.rot.begun = time.Now()
		return false
	case r.Size > 0 && f.end+int64(n) > r.Size && f.end >= w.rot.notTo:
		return true
	}
	return r.Age > 0 && time.Since(w.rot.begun) >= r.Age
}

// beginning is when the first line of f was written, at the latest.
func (w *Writer) beginning(f *file) time.Time {
	if f.end == 0 || w.o.Rotate.Age <= 0 {
		return time.Now()
	}
	begun := time.Now()
	if st, err := w.o.FS.Stat(f.path); err == nil && !st.ModTime().IsZero() {
		begun = st.ModTime()
	}
	w.lookForArchives(f.path)
	if t := w.rot.last.time(); !t.IsZero() && t.Before(begun) {
		begun = t
	}
	return begun
}

// lookForArchives finds the newest archive of path, the first time. Without one, or
// without leave to read the directory, names begin with the time now.
func (w *Writer) lookForArchives(path string) {
	if w.rot.looked {
		return
	}
	w.rot.looked = true
	list, err := w.archives(path)
	if err != nil {
		return // the finisher says so
	}
	for _, a := range list {
		if a.number == 0 && w.rot.last.before(a.stamp) {
			w.rot.last = a.stamp
		}
	}
}

// rotateFailed takes note of errors of a rotation, or of what follows one. The first
// is said.
func (w *Writer) rotateFailed(errs ...error) {
	if len(errs) == 0 {
		return
	}
	text := fmt.Sprintf("line log: %v: tried again at the next rotation", errs[0])
	if len(errs) > 1 {
		text += fmt.Sprintf("; other errors: %d", len(errs)-1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.rotateErrors += uint64(len(errs))
	w.news = append(w.news, text)
}

// rotateIfDue begins a new file if it is time. If that fails the file grows on, by
// another Size or Age. Called with io held.
func (w *Writer) rotateIfDue(n int) {
	if !w.due(n) {
		return
	}
	before := w.f
	if err := w.rotate(); err != nil {
		w.rot.notTo = before.end + w.o.Rotate.Size
		w.rot.begun = time.Now()
		w.rotateFailed(err)
	}
}

// rotate gives the file the name of an archive and opens a fresh one. Whatever fails
// or is killed in between, each line is in the one or the other, and no name is lost:
//
//	rename FILE to FILE.TIME     killed: the next Open makes FILE
//	open FILE                    fails: the name is given back
//	                             killed: the next Open finishes FILE.TIME
//
// Sync, compression and removal are done by others, later. Called with io held.
func (w *Writer) rotate() error {
	before := w.f
	path, perm, renamed := before.path, w.o.Perm, false
	var was fs.FileInfo
	w.rot.path = path
	archive := before.archive // it has one already if its name could not be given back
	if before.app.IsAt(path) {
		st, err := w.o.FS.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("rotate: %w", err)
		case !st.Mode().IsRegular():
			return fmt.Errorf("rotate: %s: %w", path, errLink)
		}
		was, perm = st, st.Mode().Perm()
		name, err := w.toArchive(path)
		switch {
		case before.app.IsAt(name): // also if it was done and an error told
			archive, before.archive, renamed = name, name, true
			before.names.Add(1)
		case err != nil:
			return fmt.Errorf("rotate: %w", err)
		default: // somebody has put another file there just before: theirs
			w.o.FS.RenameNew(name, path) //nolint:errcheck // then its lines are in an archive
		}
	}
	if renamed {
		w.makeOwned(path, was)
	}
	f, err := w.openPath(path, perm)
	if err == nil && !f.regular {
		err = errors.Join(fmt.Errorf("open %s: %w", path, ErrNoRotation), f.close())
	}
	if err != nil {
		if !before.app.IsAt(archive) {
			return fmt.Errorf("rotate: %w", err) // somebody else has renamed or removed it
		}
		if back := w.giveBack(archive, path); back != nil && !before.app.IsAt(path) {
			return fmt.Errorf("rotate: %w; lines go on to %s: %w", err, archive, back)
		}
		before.archive = ""
		return fmt.Errorf("rotate: %w", err)
	}
	if c, ok := f.app.(interface{ Chmod(fs.FileMode) error }); ok && renamed {
		if err := c.Chmod(perm); err != nil { // the umask may have taken something away
			w.rotateFailed(fmt.Errorf("rotate: the mode of the file before: %w", err))
		}
	}
	w.f = f
	w.leave(before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.rotations++
	w.pos++ // a position of no line: a sync of it covers the file before
	w.rot.pos = w.pos
	return nil
}

// giveBack renames an archive to path, which is free, or has an empty file that could be
// made and not be opened twice. Called with io held.
func (w *Writer) giveBack(archive, path string) error {
	err := w.o.FS.RenameNew(archive, path)
	if errors.Is(err, fs.ErrExist) {
		if st, serr := w.o.FS.Stat(path); serr == nil && st.Mode().IsRegular() && st.Size() == 0 {
			err = w.o.FS.Rename(archive, path)
		}
	}
	return err
}

// toArchive renames path to a name that nothing has. Called with io held.
func (w *Writer) toArchive(path string) (name string, err error) {
	for range 10 { // another process that rotates the log may be faster
		if name, err = w.archiveName(path); err != nil {
			break
		}
		if err = w.o.FS.RenameNew(path, name); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return name, err
}

// tellRotation has what was rotated synced, and finished once it is. Called without
// locks, at the end of an effect.
func (w *Writer) tellRotation() {
	w.mu.Lock()
	pos, synced := w.rot.pos, w.rot.synced
	w.rot.pos = 0
	w.mu.Unlock()
	if pos > 0 {
		w.sync.Mark(pos)
		w.sync.Urge()
	}
	if w.rot.finisher != nil {
		w.rot.flusher.Mark(pos)
		w.rot.finisher.Mark(synced)
	}
}

// closed takes note that an exchanged file is synced and closed. Called with io held.
func (w *Writer) closed(f *file) {
	if f.archive == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rot.synced++
}

// setArchiveAside renames an archive whose sync failed, so that it is neither
// compressed nor removed. It returns the new name, "" if there is none. Called with
// io held.
func (w *Writer) setArchiveAside(f *file) string {
	if f.archive == "" || !f.app.IsAt(f.archive) {
		return ""
	}
	aside := w.asideName(f.path)
	if err := w.o.FS.RenameNew(f.archive, aside); err != nil && !f.app.IsAt(aside) {
		w.rotateFailed(fmt.Errorf("set %s aside: %w", f.archive, err))
		return ""
	}
	return aside
}

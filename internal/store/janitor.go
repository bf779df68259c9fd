package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/journal"
)

// retryPause is how long the janitor rests after the disk has refused
// something, unless a bell rings.
const retryPause = time.Second

// never is a deadline that does not come.
const never = time.Duration(1<<63 - 1)

// asidePause is how long at most a file of a slot stays current whose sync has
// failed, while one after the other does. At first it is set aside at once, then
// after retryPause, twice that, and so on; after asidePause when what the last one
// has left could not be stored again: on such a disk another file is of no use.
const asidePause = time.Minute

// Users' files that nobody has written to for idleClose are closed, and the
// least recently used ones when more than maxOpenUsers are open.
const (
	idleClose    = time.Hour
	maxOpenUsers = 64
)

// leaving is a file that has its last name and is to be archived.
type leaving struct {
	f *file
	// aside: its sync has failed, it cannot be archived.
	aside bool
}

// tend is the janitor: it looks after the current files until ctx is done.
func (s *Store) tend(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		timer.Reset(s.turn())
		select {
		case <-s.janitor.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// turn does everything that is due and returns how long until the next thing
// comes of age. It rings only for what has changed: who waits for a file and
// finds none rings the janitor in turn.
func (s *Store) turn() time.Duration {
	next := never
	if err := s.publish(false); err != nil {
		if !outOfSpace(err) { // said by whoever has met it first
			s.saySeldom("give a file its name", err)
		}
		next = retryPause
	}
	next = min(next, s.openWanted())
	next = min(next, s.makeSpace())
	s.findRemoved()
	s.markFailed()
	next = min(next, s.rotateDue())
	next = min(next, s.shareAgain())
	if next > retryPause {
		next = min(next, s.closeIdle())
	}
	s.tellPending()
	return next
}

// makeSpace grows files and prepares the next one, unless the disk has refused
// that a moment ago and nothing was removed since.
func (s *Store) makeSpace() time.Duration {
	_, now := s.clock()
	if again := max(s.refused.Load(), s.unsyncable.Load()); again > now {
		return time.Duration(again-now) * time.Microsecond
	}
	err := s.growAll()
	if err == nil {
		err = s.prepareSpares()
	}
	if err == nil {
		s.refused.Store(0)
		if old := s.refusal.Swap(nil); old != nil && outOfSpace(*old) {
			s.room.again()
		}
		return never
	}
	s.refused.Store(now + uint64(retryPause.Microseconds()))
	s.refusal.Store(&err)
	s.progress.ring() // who waits for a file learns why there is none
	s.archiver.Ring()
	return retryPause
}

// publish gives the files of every rotation their names, the old one first: a
// reader never sees two current files, and a crash in between leaves entries in
// a prepared file that the next start finds. The old one is written to its end
// before that: a follower that has shown an entry of the next never shows what
// comes later with a lower number, and the name of an archived file has the time
// of its first entry, which writing may move. Only with last does a full disk not
// keep it from that. The archiver syncs the names: whichever of them survive a
// power cut, the next start finds all files.
func (s *Store) publish(last bool) error {
	for {
		s.queueMu.Lock()
		if len(s.retired) == 0 {
			s.queueMu.Unlock()
			return nil
		}
		r := s.retired[0]
		s.queueMu.Unlock()
		var gone leaving
		if r.old != nil {
			var err error
			// With another error than a full disk the file may never be whole.
			if err := r.old.w.SettleIndex(context.Background()); !last && outOfSpace(err) {
				return err
			}
			if gone, err = s.nameOld(r); err != nil {
				return err
			}
		}
		if r.next != nil {
			err := s.name(r.next, r.slot)
			if errors.Is(err, fs.ErrNotExist) {
				r.next.markGone() // and is replaced in its turn
			} else if err != nil {
				return err
			}
		}
		s.queueMu.Lock()
		s.retired = s.retired[1:]
		s.renamed = true
		if r.old != nil {
			s.counts.rotations.Add(1)
			s.leaving = append(s.leaving, gone)
		}
		s.queueMu.Unlock()
		s.changed()
		s.archiver.Ring()
		s.progress.ring()
		s.tellRotation(r, gone)
	}
}

// nameOld gives a file that was rotated out its archive name, or that of a file
// set aside when its sync has failed. Calling it again changes nothing.
func (s *Store) nameOld(r retired) (leaving, error) {
	gone := leaving{f: r.old, aside: r.old.failed.Load() != nil}
	if name := filepath.Base(r.old.w.Path()); name != r.slot.base+".journal" && !IsPrepared(name) {
		return gone, nil
	}
	if r.old.unshared.Load() {
		s.share(r.old, r.slot)
	}
	err := r.old.w.Rename(filepath.Join(s.dir, s.lastName(r.slot.base, r.old, gone.aside)))
	if errors.Is(err, fs.ErrNotExist) {
		r.old.markGone()
		return leaving{f: r.old, aside: true}, nil
	}
	return gone, err
}

// lastName is the name of a file that is no longer current.
func (s *Store) lastName(base string, f *file, aside bool) string {
	if aside {
		now, _ := s.clock()
		return journal.DisposedName(base, now, f.asideNumber())
	}
	st := f.w.Stats()
	return journal.ArchiveName(base, st.SeqnumID, st.HeadSeqnum, st.HeadRealtime)
}

// name makes a prepared file visible as the current one of its slot.
func (s *Store) name(f *file, sl *slot) error {
	s.share(f, sl)
	return f.w.Rename(filepath.Join(s.dir, sl.base+".journal"))
}

func (s *Store) tellRotation(r retired, gone leaving) {
	if r.old == nil {
		return
	}
	kept := filepath.Base(r.old.w.Path())
	if r.old.gone.Load() {
		if s.seldom("removed") {
			s.Event(2, msgSetAside, fmt.Sprintf("%s.journal was removed while it was being written: what it held is gone, a new file is begun", r.slot.base))
		}
		return
	}
	if gone.aside {
		s.tellAside(r.slot.base+".journal", r.old, *r.old.failed.Load())
		return
	}
	s.Event(6, msgRotated, fmt.Sprintf("%s.journal rotated to %s: %s", r.slot.base, kept, r.reason))
}

// openWanted opens the closed files that somebody waits for. It returns how long
// until it is to try again what the disk has refused.
func (s *Store) openWanted() time.Duration {
	next := never
	for _, sl := range s.slots() {
		sl.mu.Lock()
		wanted := sl.wanted && sl.onDisk && sl.f == nil
		sl.wanted = false
		sl.mu.Unlock()
		if !wanted {
			continue
		}
		// Nobody else touches a file that is on disk and not open, or gives the slot
		// another.
		f, n, err := s.takeCurrent(sl)
		sl.mu.Lock()
		sl.set(f)
		sl.onDisk, sl.wanted = err != nil, err != nil
		sl.unopened = nil
		if err != nil {
			sl.unopened = &err
		} else {
			_, sl.used = s.clock()
		}
		sl.mu.Unlock()
		if err != nil {
			s.misses.ring()
			s.saySeldom("open a user's file", err)
			next = retryPause
			continue
		}
		s.progress.ring()
		s.archiver.Ring()
		if n != nil {
			s.Event(n.priority, n.id, n.text)
		}
	}
	return next
}

// growAll grows the files that ask for it; it returns the error of one that could
// not be grown.
func (s *Store) growAll() (err error) {
	for _, sl := range s.slots() {
		sl.mu.Lock()
		f := sl.f
		sl.mu.Unlock()
		if f == nil || !f.grow.Swap(false) {
			continue
		}
		s.makeRoom()
		if growErr := f.w.GrowAhead(); growErr != nil {
			f.grow.Store(true)
			err = growErr
		}
	}
	return err
}

// rotateDue rotates the files that are too old or whose sync has failed. It
// returns how long until the next one is too old.
func (s *Store) rotateDue() time.Duration {
	next := never
	for _, sl := range s.slots() {
		next = min(next, sl.rotateDue())
	}
	return next
}

func (sl *slot) rotateDue() time.Duration {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	head := sl.head
	switch {
	case sl.closed:
		return never
	case sl.f == nil && !sl.onDisk:
		return never
	case sl.f != nil && sl.f.failed.Load() != nil:
		return sl.setAside()
	case sl.f != nil && sl.f.appended+sl.f.n == 0:
		return never
	case sl.f != nil:
		head = sl.f.w.HeadRealtime()
	}
	age := sl.store.settings.Load().Limits.MaxFileAge
	if age <= 0 || head == 0 {
		return never
	}
	now, _ := sl.store.clock()
	if left := age - since(head, now); left > 0 {
		return left
	}
	// A closed file is opened first, and archived the next time round.
	if sl.f == nil && !sl.begin() {
		return never
	}
	if !sl.end(fmt.Sprintf("its first entry is older than %s", age)) {
		return retryPause
	}
	return never
}

// setAside ends a file whose sync has failed, but not as often as one fails: on a
// disk that fails every sync, each file would be followed by another. Until then
// entries go on into it, and who waits for them to be synced learns the error.
// Called with mu held; it returns how long until it is to be called again.
func (sl *slot) setAside() time.Duration {
	s, f := sl.store, sl.f
	_, now := s.clock()
	if f.gone.Load() {
		if s.spares.len() == 0 || !sl.swap("it was removed") {
			return retryPause
		}
		return never
	}
	if wait := sl.asideWait(now); wait > 0 {
		return wait
	}
	if s.spares.len() == 0 || !sl.swap("its sync failed") {
		return retryPause
	}
	sl.aside = now
	sl.asides++
	return never
}

// asideWait is how long to wait until another file may be set aside. Called with
// mu held.
func (sl *slot) asideWait(now uint64) time.Duration {
	passed := since(sl.aside, now)
	if passed >= 2*asidePause {
		sl.asides = 0
	}
	switch {
	case sl.asides == 0:
		return 0
	case sl.stuck:
		return asidePause - passed
	}
	return min(retryPause<<min(sl.asides-1, 10), asidePause) - passed
}

// since is the time from a to b, both in µs; 0 when a is later.
func since(a, b uint64) time.Duration {
	if a >= b {
		return 0
	}
	return time.Duration(b-a) * time.Microsecond
}

// closeIdle closes users' files that are not in use, and returns how long until
// the next one is idle. A closed file is opened again when it is needed.
func (s *Store) closeIdle() time.Duration {
	_, now := s.clock()
	next, open := never, 0
	var oldest *slot
	oldestUse := uint64(0)
	for _, sl := range s.slots() {
		if sl == s.system {
			continue
		}
		sl.mu.Lock()
		used, isOpen := sl.used, sl.f != nil
		sl.mu.Unlock()
		idle := since(used, now)
		if isOpen && (oldest == nil || used < oldestUse) {
			oldest, oldestUse = sl, used
		}
		switch {
		case !isOpen:
		case idle >= idleClose:
			s.closeSlot(sl)
		default:
			open++
			next = min(next, idleClose-idle)
		}
	}
	if open > maxOpenUsers && oldest != nil {
		s.closeSlot(oldest)
	}
	return next
}

// closeSlot closes the current file of a slot.
func (s *Store) closeSlot(sl *slot) {
	sl.mu.Lock()
	f := sl.f
	if sl.closed || f == nil {
		sl.mu.Unlock()
		return
	}
	s.queueMu.Lock()
	s.closing = append(s.closing, f)
	s.queueMu.Unlock()
	sl.set(nil) // see open
	sl.onDisk, sl.head = true, f.w.HeadRealtime()
	sl.seqnumID, sl.seqnum = f.w.Seqnum()
	sl.mu.Unlock()
	defer s.closedFile(f)
	if err := f.w.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
		f.failed.CompareAndSwap(nil, &err)
		s.Event(3, msgStore, fmt.Sprintf("close %s.journal: %v", sl.base, err))
		sl.setAsideClosed(f, err)
	}
}

// closedFile takes a file off the list of those being closed.
func (s *Store) closedFile(f *file) {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.closing = slices.DeleteFunc(s.closing, func(o *file) bool { return o == f })
}

package store

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// slot is one sequence of files: the system's, or one user's.
type slot struct {
	store *Store
	base  string // "system" or "user-UID"
	uid   uint32

	// mu orders appends and changes of f. Held for the time of one append to
	// memory.
	mu     sync.Mutex
	f      *file  // current; nil: none is open; changed by set
	closed bool   // no appends any more
	onDisk bool   // a file of this name is on disk, closed
	head   uint64 // realtime of the first entry of that file; 0: none
	wanted bool   // somebody waits for the janitor to open it
	// unopened is why the janitor could not, the last time that it tried; nil: it did
	// not try, or could.
	unopened *error
	used     uint64 // monotonic time of the last append
	last     uint64 // realtime of the last append
	step     uint64 // monotonic time of the last rotation for a clock step; 0: none
	behind   bool   // the clock is behind last
	aside    uint64 // monotonic time when a file was last set aside
	asides   int    // how many were, each a moment after the one before
	stuck    bool   // what such files have left could not be stored again
	// seqnumID and seqnum are where the sequence goes on when f is nil; zero: it
	// begins with the file.
	seqnumID entry.ID
	seqnum   uint64
	ended    *journal.Writer // of the file that end took out of use; nil: it has a successor

	shown atomic.Pointer[file] // f, for who must not wait for an append
}

// set makes f the current file. Called with mu held.
func (sl *slot) set(f *file) {
	sl.f = f
	sl.shown.Store(f)
}

// retired is a rotation that the janitor has yet to give names to.
type retired struct {
	slot   *slot
	old    *file // nil: the slot had none
	next   *file // nil: a user's file, begun with the next entry
	reason string
}

// Append appends entries in their order, each to its owner's file. While a
// buffer is full, or the next file is not ready, it waits until ctx is done. An
// entry that no file can hold is left out, counted and told as an event; that is
// no error.
func (s *Store) Append(ctx context.Context, entries []entry.Entry) (journal.Ticket, error) {
	return s.put(ctx, entries, true)
}

// TryAppend is Append without waiting: the error wraps journal.ErrBufferFull
// when it would have to wait, and syscall.ENOSPC when the disk is full. Entries
// before the one that did not fit are appended. An entry that no file can hold
// is a *journal.EntryError; the others are appended all the same.
func (s *Store) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	return s.put(context.Background(), entries, false)
}

func (s *Store) put(ctx context.Context, entries []entry.Entry, wait bool) (t journal.Ticket, err error) {
	for len(entries) > 0 {
		sl := s.slotOf(entries[0].Owner)
		n := 1
		for n < len(entries) && (entries[n].Owner == entries[0].Owner || s.slotOf(entries[n].Owner) == sl) {
			n++
		}
		left, runErr := sl.put(ctx, entries[:n], &t, wait)
		err = errors.Join(err, runErr)
		if left > 0 {
			return t, err
		}
		entries = entries[n:]
	}
	return t, err
}

// put appends a run of entries, all of this slot, and returns how many are left
// because of the error. Entries that no file can hold are not among them.
func (sl *slot) put(ctx context.Context, run []entry.Entry, t *journal.Ticket, wait bool) (left int, err error) {
	var changed <-chan struct{}
	var unstorable error
	for len(run) > 0 {
		n, err := sl.try(run, t, !wait)
		run = run[n:]
		if n > 0 {
			changed = nil
		}
		switch {
		case err == nil:
		case isEntryError(err):
			sl.store.counts.unstorable.Add(1)
			if wait {
				sl.store.later(event{4, msgStore, "an entry was left out: " + err.Error()})
				sl.store.janitor.Ring()
			} else {
				unstorable = errors.Join(unstorable, err)
			}
			run = run[1:]
		case !wait || errors.Is(err, ErrClosed):
			return len(run), errors.Join(unstorable, err)
		case changed == nil:
			if outOfSpace(err) {
				sl.store.room.end(err)
			}
			// What it waits for may have come about since: look once more.
			changed = sl.store.progress.C()
		default:
			select {
			case <-changed:
				changed = nil
			case <-ctx.Done():
				return len(run), errors.Join(unstorable, context.Cause(ctx))
			}
		}
	}
	return 0, unstorable
}

// isEntryError reports whether err is about one entry, which no file can hold.
func isEntryError(err error) bool {
	_, ok := errors.AsType[*journal.EntryError](err)
	return ok
}

// try appends what it can without waiting: n entries. refuseFull refuses at
// once when the disk is full, instead of filling the buffer.
func (sl *slot) try(run []entry.Entry, t *journal.Ticket, refuseFull bool) (n int, err error) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	for {
		switch {
		case sl.closed:
			return n, ErrClosed
		case sl.f == nil && !sl.begin():
			return n, sl.store.notReady()
		case refuseFull && sl.f.full.Load():
			return n, errDiskFull
		}
		sl.tell()
		f := sl.f
		pos, k, err := f.w.TryAppend(run[n:])
		if k > 0 {
			t.Add(f.w, pos)
			f.appended += uint64(k)
			sl.used, sl.last = f.monotonic, f.realtime
		}
		n += k
		if !errors.Is(err, journal.ErrFull) {
			return n, err
		}
		if f.appended+f.n == 0 {
			return n, &journal.EntryError{Field: -1, Err: journal.ErrTooLarge}
		}
		reason, due := f.w.RotateDue()
		if !due {
			reason = "the file is full"
		}
		if !sl.swap(reason) {
			return n, sl.store.notReady()
		}
	}
}

// begin gives a slot without a file the prepared one, or asks the janitor for
// it or for the one on disk. Called with mu held.
func (sl *slot) begin() bool {
	if sl.onDisk {
		sl.wanted = true
		sl.store.janitor.Ring()
		return false
	}
	return sl.swap("")
}

// swap makes the prepared file the current one and leaves names and archiving
// to the janitor. It returns false when none is prepared. Called with mu held.
func (sl *slot) swap(reason string) bool {
	s := sl.store
	next := s.takeSpare()
	if next == nil {
		return false // the janitor is at it, or tries again in a while
	}
	defer s.janitor.Ring() // behind all it is to find
	old := sl.f
	sl.adopt(next)
	s.queueMu.Lock()
	s.retired = append(s.retired, retired{sl, old, next, reason})
	s.queueMu.Unlock()
	sl.set(next) // see open
	return true
}

// takeSpare returns a prepared file; nil when there is none with the present
// settings.
func (s *Store) takeSpare() *file {
	next, stale := s.spares.take(s.settings.Load())
	if stale {
		s.janitor.Ring()
	}
	return next
}

// end takes the current file out of use. The system's needs its successor at
// once and end returns false when none is prepared; a user's begins with the
// user's next entry. Called with mu held.
func (sl *slot) end(reason string) bool {
	s := sl.store
	if sl == s.system {
		return sl.swap(reason)
	}
	sl.seqnumID, sl.seqnum = sl.f.w.Seqnum()
	sl.ended = sl.f.w
	s.queueMu.Lock()
	s.retired = append(s.retired, retired{slot: sl, old: sl.f, reason: reason})
	s.queueMu.Unlock()
	sl.set(nil)
	s.janitor.Ring()
	return true
}

// settle writes what the current file, if there is one, has accepted.
func (sl *slot) settle(ctx context.Context) error {
	sl.mu.Lock()
	f := sl.f
	sl.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.w.SettleIndex(ctx)
}

// adopt lets an empty file go on with the slot's sequence.
func (sl *slot) adopt(next *file) {
	switch {
	case sl.f != nil:
		next.w.Succeed(sl.f.w)
	case sl.ended != nil:
		next.w.Succeed(sl.ended)
		sl.ended = nil
	case !sl.seqnumID.IsZero():
		next.w.Adopt(sl.seqnumID, sl.seqnum)
	}
}

// whyUnopened is why the file on disk could not be opened.
func (sl *slot) whyUnopened() *error {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.unopened
}

// tryRotate is one try of Rotate.
func (sl *slot) tryRotate(reason string) error {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	switch {
	case sl.closed:
		return ErrClosed
	case sl.f == nil && !sl.onDisk:
		return nil
	case sl.f == nil && !sl.begin():
		return errNoFile
	case sl.f.appended+sl.f.n == 0:
		return nil
	case !sl.end(reason):
		return errNoFile
	default:
		return nil
	}
}

// slotOf returns the slot of a user's entries.
func (s *Store) slotOf(uid uint32) *slot {
	if !s.cfg.Split || !hasOwnFile(uid) {
		return s.system
	}
	s.usersMu.RLock()
	sl := s.users[uid]
	s.usersMu.RUnlock()
	if sl != nil {
		return sl
	}
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	return s.addUser(uid)
}

// addUser returns the slot of uid, made if there is none. Called with usersMu
// held.
func (s *Store) addUser(uid uint32) *slot {
	sl := s.users[uid]
	if sl == nil {
		sl = &slot{store: s, base: "user-" + strconv.FormatUint(uint64(uid), 10), uid: uid, closed: s.closed.Load()}
		s.users[uid] = sl
	}
	return sl
}

// User ids whose entries go to the system file: those of the system, systemd's
// dynamic ones, and nobody.
const (
	systemUIDMax  = 999
	dynamicUIDMin = 61184
	dynamicUIDMax = 65519
	nobodyUID     = 65534
)

// hasOwnFile reports whether journald would give uid a file of its own.
func hasOwnFile(uid uint32) bool {
	return uid > systemUIDMax && uid != nobodyUID && (uid < dynamicUIDMin || uid > dynamicUIDMax)
}

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// A file whose sync has failed is set aside, and stays as it is. What it has behind
// its last good sync is read back, entry by entry, and what is proven whole is
// stored again, in an archive of its own and under the same numbers, so that it
// survives a power cut and readers show it once. The archiver does this: appends go
// on into the next file meanwhile, whose numbers are behind all of them.

// owed is what is to be stored again of the files of a slot that were set aside.
type owed struct {
	slot  *slot
	files []aside // in the order in which they were written
	tries int     // that have failed
	due   uint64  // monotonic time in µs before which it is not tried again
}

// aside is such a file: its entries with numbers in (after, last] are owed.
type aside struct {
	name        string // in the directory
	seqnumID    entry.ID
	after, last uint64

	all    uint64   // how many there were to begin with
	stored uint64   // how many of them are synced in other files
	kept   []string // the names of these
	held   uint64   // how many are in the file that is being written
	heldTo uint64   // held > 0: the number of the last of them
}

// readBackBuffer bounds what a copy has accepted and not yet written, in bytes.
const readBackBuffer = 4 << 20

// maxSyncPause is how long it is at most until entries are stored again whose last
// attempt ended with a failed sync.
const maxSyncPause = time.Hour

// pause is how long to wait before the next attempt: doubled each time from
// retryPause to asidePause, and from asidePause to maxSyncPause if a sync has
// failed, for each attempt writes all of it.
func (o *owed) pause(err error) time.Duration {
	from, to := retryPause, asidePause
	if errors.Is(err, journal.ErrSync) {
		from, to = asidePause, maxSyncPause
	}
	return min(from<<min(o.tries, 20), to)
}

// asideNumber is what the name of f has, where journald has a random number: the
// number of the last entry that was synced, which tells the next start what is to
// be stored again, and no other file of the sequence has. When all are synced it is
// random.
func (f *file) asideNumber() uint64 {
	if after, _, owes := f.unsynced(); owes {
		return after
	}
	return rand.Uint64()
}

// unsynced tells which entries of f no sync has covered: those in (after, last].
func (f *file) unsynced() (after, last uint64, any bool) {
	after = f.w.SyncedSeqnum()
	_, last = f.w.Seqnum()
	return after, last, after < last
}

// owe notes what is to be stored again of f, which is closed and was set aside.
// Its writer tells what was synced, its name which file it is.
func (s *Store) owe(f *file) {
	name := filepath.Base(f.w.Path())
	base, _, _ := strings.Cut(name, "@")
	after, last, owes := f.unsynced()
	if sl := s.slotNamed(base); sl != nil && owes && !f.gone.Load() && strings.HasSuffix(name, "~") {
		id, _ := f.w.Seqnum()
		s.oweFile(sl, aside{name: name, seqnumID: id, after: after, last: last, all: last - after})
	}
}

func (s *Store) oweFile(sl *slot, a aside) {
	for _, o := range s.owed {
		if o.slot == sl {
			o.files = append(o.files, a)
			return
		}
	}
	s.owed = append(s.owed, &owed{slot: sl, files: []aside{a}})
}

// isAside reports whether f, which could not be closed because of why, is to be
// set aside: also when all of its entries are synced, for its links may not be.
func (f *file) isAside(why error) bool {
	return errors.Is(why, journal.ErrSync) && !f.gone.Load()
}

// setAsideLate renames a file whose sync has failed only when it was closed.
func (s *Store) setAsideLate(f *file, why error) {
	if !f.isAside(why) {
		return
	}
	s.mark(f) // should the disk refuse the name, or the process die before it has it
	from := filepath.Base(f.w.Path())
	base, _, archived := strings.Cut(from, "@")
	if !archived {
		base = strings.TrimSuffix(from, ".journal")
	}
	if err := f.w.Rename(filepath.Join(s.dir, s.lastName(base, f, true))); err != nil {
		s.Event(3, msgStore, fmt.Sprintf("set %s aside: %v", from, err))
		return
	}
	s.queueMu.Lock()
	s.renamed = true
	s.queueMu.Unlock()
	s.tellAside(from, f, why)
}

// setAsideClosed is that for a file that was closed because it was idle. The next
// entry of the slot begins a new one.
func (sl *slot) setAsideClosed(f *file, why error) {
	s := sl.store
	if !f.isAside(why) {
		s.queueMu.Lock()
		s.lose(f)
		s.queueMu.Unlock()
		return
	}
	sl.mu.Lock()
	sl.onDisk, sl.wanted, sl.head = false, false, 0
	sl.mu.Unlock()
	s.queueMu.Lock()
	s.retired = append(s.retired, retired{slot: sl, old: f, reason: "its sync failed"})
	s.queueMu.Unlock()
	s.janitor.Ring()
	s.progress.ring()
}

func (s *Store) tellAside(name string, f *file, why error) {
	s.Event(2, msgSetAside, fmt.Sprintf("%s set aside as %s, since a sync of it failed: what it holds may not survive a power cut: %v", name, filepath.Base(f.w.Path()), why))
}

// xattrUnsynced marks a file whose sync has failed and that is not set aside yet. A
// start that finds it must not make the file whole and trust a sync of its own: the
// kernel has told of the loss once, and tells no more.
const xattrUnsynced = "user.tidemark.unsynced"

// markFailed marks the files whose sync has failed. Current ones are set aside once
// a minute at most, those on their way to the archive when the disk takes their last
// entries, and names; the process may die before.
func (s *Store) markFailed() {
	for _, f := range s.open() {
		if f.failed.Load() != nil && !f.gone.Load() {
			s.mark(f)
		}
	}
}

// mark marks f, once.
func (s *Store) mark(f *file) {
	if f.marked.Swap(true) {
		return
	}
	s.setXattr(f.w.Path(), xattrUnsynced) // where there are none, the next start trusts its sync
}

// xattrReadBack marks a file that was set aside and of which all is stored again that
// can be: what is missing is told once, not by every start.
const xattrReadBack = "user.tidemark.readback"

// setXattr gives a file an extended attribute, if it can.
func (s *Store) setXattr(path, attr string) {
	if f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0); err == nil {
		f.SetXattr(attr, []byte("1")) //nolint:errcheck // see who asks
		f.Close()                     //nolint:errcheck // nothing was written
	}
}

// oweLeft notes what an earlier run has set aside and not stored again, or not all
// of it. The number in the name of another file that was set aside is, but by a
// rare chance, none of an entry of it.
//
// That is for what is left of the process only. After a reboot what is read comes
// from the disk, and such a file is repaired like any other.
func (s *Store) oweLeft() (notes []note, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	return s.oweFound(entries, func(string) bool { return true }), nil
}

// oweFound is that for the files of the directory that are wanted.
func (s *Store) oweFound(entries []fs.DirEntry, wanted func(name string) bool) (notes []note) {
	var found []*owed
	var heads []journal.Header
	for _, e := range entries {
		f, ok := parseStored(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		h, err := s.header(f.name)
		if err != nil || h.MachineID != s.cfg.MachineID {
			continue
		}
		if !f.aside() {
			heads = append(heads, h)
			continue
		}
		base, _, _ := strings.Cut(f.name, "@")
		after, sl := syncedByName(f.name), s.slotNamed(base)
		upload := isUpload(f.name)
		if upload {
			sl = &slot{store: s, base: base}
			s.known[f.name] = true
		}
		switch {
		case !wanted(f.name), s.hasXattr(f.name, xattrReadBack) && (upload || h.TailEntryBootID == s.cfg.BootID):
		case sl == nil || h.State != journal.StateOnline || after+1 < h.HeadEntrySeqnum || after >= h.TailEntrySeqnum:
		case h.TailEntryBootID != s.cfg.BootID && !upload: // an upload's is another machine's
			notes = append(notes, s.repairAside(f.name))
		default:
			found = append(found, &owed{slot: sl, files: []aside{{name: f.name, seqnumID: h.SeqnumID, after: after, last: h.TailEntrySeqnum}}})
		}
	}
	slices.SortFunc(found, func(a, b *owed) int { return cmp.Compare(a.files[0].after, b.files[0].after) })
	for _, o := range found {
		a := o.files[0]
		a.after = storedUpTo(heads, a.seqnumID, a.after)
		if a.after < a.last {
			a.all = a.last - a.after
			s.oweFile(o.slot, a)
		}
	}
	return notes
}

// isUpload reports whether name is that of an upload's file.
func isUpload(name string) bool { return strings.HasPrefix(name, "remote-") }

// oweUploads notes what uploads' files have that were set aside meanwhile. Who writes
// them has closed them, and has said LookAgain.
func (s *Store) oweUploads() {
	if !s.uploads.Swap(false) {
		return
	}
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return // as the vacuum finds, and says
	}
	fresh := make(map[string]bool)
	for _, e := range entries {
		if f, ok := parseStored(e.Name()); ok && f.aside() && isUpload(f.name) && !s.known[f.name] {
			fresh[f.name] = true
		}
	}
	if len(fresh) > 0 {
		s.oweFound(entries, func(name string) bool { return fresh[name] })
	}
}

// repairAside repairs a file that was set aside before the machine was booted.
func (s *Store) repairAside(name string) note {
	report, err := journal.Repair(filepath.Join(s.dir, name), journal.RepairOptions{FS: s.fs})
	if err != nil {
		return note{3, msgUnclean, fmt.Sprintf("%s was set aside, and cannot be repaired after the reboot: %v", name, err)}
	}
	return note{5, msgUnclean, fmt.Sprintf("%s was set aside: repaired after the reboot, entries: %d", name, report.Entries)}
}

// syncedByName is the number in the name of a file that was set aside.
func syncedByName(name string) uint64 {
	body := strings.TrimSuffix(name, ".journal~")
	n, err := strconv.ParseUint(body[strings.LastIndexByte(body, '-')+1:], 16, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

// storedUpTo is the number up to which files have the entries of a sequence that
// follow number after.
func storedUpTo(files []journal.Header, id entry.ID, after uint64) uint64 {
	for again := true; again; {
		again = false
		for _, h := range files {
			if h.SeqnumID == id && h.HeadEntrySeqnum <= after+1 && h.TailEntrySeqnum > after {
				after, again = h.TailEntrySeqnum, true
			}
		}
	}
	return after
}

// readBackAll stores again what is due, and with last all. It returns how long
// until the next is due.
func (s *Store) readBackAll(ctx context.Context, last bool) time.Duration {
	next := never
	s.owed = slices.DeleteFunc(s.owed, func(o *owed) bool {
		_, now := s.clock()
		if o.due > now && !last {
			next = min(next, time.Duration(o.due-now)*time.Microsecond)
			return false
		}
		err := s.readBack(ctx, o)
		o.slot.mu.Lock()
		o.slot.stuck = err != nil
		o.slot.mu.Unlock()
		if err == nil {
			s.janitor.Ring()
			return true
		}
		d := o.pause(err)
		if o.tries++; o.tries == 1 || last {
			s.Event(3, msgReadBack, fmt.Sprintf("store again what %s has not synced: %v", o.files[0].name, err))
		}
		o.due = now + uint64(d.Microseconds())
		next = min(next, d)
		return false
	})
	return next
}

// readBack stores what is owed of a slot again, and tells how many entries could
// not be read. An error is one of storing, after which the copy is removed and o
// says what is left to do.
func (s *Store) readBack(ctx context.Context, o *owed) error {
	c := copying{store: s, owed: o}
	for i := range o.files {
		a := &o.files[i]
		if err := s.eachWhole(a, func(e *entry.Entry) error { return c.add(ctx, a, e) }); err != nil {
			c.abandon()
			return err
		}
	}
	if err := c.finish(ctx); err != nil {
		c.abandon()
		return err
	}
	for i := range o.files {
		s.tellReadBack(&o.files[i])
		s.setXattr(filepath.Join(s.dir, o.files[i].name), xattrReadBack)
	}
	return nil
}

func (s *Store) tellReadBack(a *aside) {
	text := fmt.Sprintf("%d of the %d entries that %s has not synced are stored again", a.stored, a.all, a.name)
	if len(a.kept) > 0 {
		text += " as " + strings.Join(a.kept, ", ")
	}
	priority := 5
	if lost := a.all - a.stored; lost > 0 {
		priority = 2
		text += fmt.Sprintf("; %d could not be read back", lost)
		s.counts.notReadBack.Add(lost)
	}
	s.Event(priority, msgReadBack, text)
}

// eachWhole calls do for the entries of a that can be read and are proven to be
// what was appended; none if the file is gone, or is no journal any more.
func (s *Store) eachWhole(a *aside, do func(*entry.Entry) error) error {
	path := filepath.Join(s.dir, a.name)
	f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	jf, err := journalFile(f, path)
	if _, ok := errors.AsType[*journal.FormatError](err); ok {
		return nil
	}
	if err != nil {
		return err
	}
	for e := range jf.Whole(a.after, a.last) {
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
)

// note is an event of the start, told once there is a file to tell it in.
type note event

// takeOver brings the files that an earlier run has left into order: a current
// file that was closed is gone on with, one that was not is repaired and
// archived, and what cannot be repaired is kept under a name of its own.
func (s *Store) takeOver() (notes []note, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	s.followAll(entries)
	for _, e := range entries {
		n, err := s.takeEntry(e)
		if err != nil {
			return nil, err
		}
		if n != nil {
			notes = append(notes, *n)
		}
	}
	left, err := s.oweLeft()
	return append(notes, left...), err
}

func (s *Store) takeEntry(e fs.DirEntry) (*note, error) {
	name := e.Name()
	base, uid, current := currentBase(name)
	_, archived := parseStored(name)
	prepared := IsPrepared(name)
	switch {
	case !current && !archived && !prepared:
		return nil, nil
	case e.Type()&fs.ModeSymlink != 0:
		return nil, &os.PathError{Op: "open", Path: filepath.Join(s.dir, name), Err: errors.New("is a symbolic link: remove it")}
	case !e.Type().IsRegular():
		return nil, &os.PathError{Op: "open", Path: filepath.Join(s.dir, name), Err: errors.New("is not a regular file: remove it")}
	case prepared:
		return s.takeLost(name)
	case archived && !strings.HasSuffix(name, "~") && s.online(name):
		base, _, _ := strings.Cut(name, "@")
		if h, failed := s.isUnsynced(name); failed { // its number is known: see followAll
			return s.putAsideUnsynced(base, name, h)
		}
		f, n, err := s.repair(base, name)
		if sl := s.slotNamed(base); sl != nil && f != nil {
			sl.continues(f.w.Seqnum())
		}
		return n, err
	case current && base == "system":
		f, n, err := s.takeCurrent(s.system)
		s.system.set(f)
		return n, err
	case current && s.cfg.Split:
		s.usersMu.Lock()
		sl := s.addUser(uid)
		s.usersMu.Unlock()
		if h, err := s.header(name); err == nil && h.State == journal.StateOffline {
			sl.onDisk, sl.head = true, h.HeadEntryRealtime // opened when its user says something
			return nil, nil
		}
		f, n, err := s.takeCurrent(sl)
		sl.set(f)
		return n, err
	default:
		return nil, nil
	}
}

// online reports whether a file of this machine was not closed, as far as its
// header tells. Those of others are not touched: their writers may be at work.
func (s *Store) online(name string) bool {
	h, err := s.header(name)
	return err == nil && h.MachineID == s.cfg.MachineID && h.State != journal.StateOffline && h.State != journal.StateArchived
}

// header reads the header of a file of the directory.
func (s *Store) header(name string) (journal.Header, error) {
	path := filepath.Join(s.dir, name)
	f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return journal.Header{}, err
	}
	defer f.Close()
	jf, err := journalFile(f, path)
	if err != nil {
		return journal.Header{}, err
	}
	return jf.Header(), nil
}

// journalFile reads the journal file f.
func journalFile(f vfs.File, path string) (*journal.File, error) {
	return journal.NewFile(f, func() int64 {
		n, err := f.Size()
		if err != nil {
			return 0
		}
		return n
	}, path)
}

// takeCurrent opens the current file of a slot to go on with it. It returns nil
// when there is nothing to go on with, and a note when the file was not in
// order. The sequence goes on either way, if the file tells it. With an error the
// file still has its name, and no other may take it.
func (s *Store) takeCurrent(sl *slot) (*file, *note, error) {
	name := sl.base + ".journal"
	path := filepath.Join(s.dir, name)
	f, err := s.reopen(path)
	if err == nil {
		f, n := s.goOn(sl, f)
		return f, n, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	h, herr := s.header(name)
	switch {
	case herr != nil:
	case h.MachineID == s.cfg.MachineID:
		sl.raise(h.SeqnumID, h.TailEntrySeqnum)
		sl.last = max(sl.last, h.TailEntryRealtime)
	case errors.Is(err, journal.ErrUnclean):
		err = fmt.Errorf("%w: %s", journal.ErrOtherMachine, h.MachineID)
	}
	if errors.Is(err, journal.ErrArchived) {
		if rerr := s.renameArchived(sl.base, name); rerr == nil {
			return nil, nil, nil
		}
	}
	if h, failed := s.isUnsynced(name); errors.Is(err, journal.ErrUnclean) && failed {
		n, err := s.putAsideUnsynced(sl.base, name, h)
		return nil, n, err
	}
	if errors.Is(err, journal.ErrUnclean) && s.foreign(path) {
		err = fmt.Errorf("another program's: %w", err) // it is not ours to change
	} else if errors.Is(err, journal.ErrUnclean) {
		f, n, err := s.repair(sl.base, name)
		if f != nil {
			sl.raise(f.w.Seqnum())
			sl.last = max(sl.last, f.w.TailRealtime())
		}
		return nil, n, err
	}
	n, err := s.putAside(sl.base, name, err)
	return nil, n, err
}

// isUnsynced reports whether an earlier run since the machine was booted has marked
// a file of ours as one whose sync has failed, and returns its header.
func (s *Store) isUnsynced(name string) (journal.Header, bool) {
	h, err := s.header(name)
	if err != nil || h.MachineID != s.cfg.MachineID || h.TailEntryBootID != s.cfg.BootID || h.State != journal.StateOnline {
		return h, false
	}
	return h, s.hasXattr(name, xattrUnsynced)
}

// hasXattr reports whether a file of the directory has an extended attribute.
func (s *Store) hasXattr(name, attr string) bool {
	f, err := s.fs.OpenFile(filepath.Join(s.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.HasXattr(attr)
}

// putAsideUnsynced sets a file aside which the last run had not yet: all of it is
// stored again.
func (s *Store) putAsideUnsynced(base, name string, h journal.Header) (*note, error) {
	now, _ := s.clock()
	kept := journal.DisposedName(base, now, max(h.HeadEntrySeqnum, 1)-1)
	err := s.fs.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, kept))
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("set %s aside, since a sync of it failed: %w", name, err)
	}
	return &note{4, msgUnclean, fmt.Sprintf("%s was not closed and a sync of it had failed: set aside as %s", name, kept)}, nil
}

// foreign reports whether another program has created the file.
func (s *Store) foreign(path string) bool {
	f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return journal.Foreign(f)
}

// goOn makes a clean file the slot's, unless the clock has been set back by so
// much that its times and those to come do not belong into one file.
func (s *Store) goOn(sl *slot, f *file) (*file, *note) {
	sl.last = f.w.TailRealtime()
	if f.n == 0 && !sl.seqnumID.IsZero() {
		f.w.Adopt(sl.seqnumID, sl.seqnum)
	}
	now, _ := s.clock()
	back := since(now, sl.last)
	if back < time.Duration(smallStep)*time.Microsecond {
		return f, nil
	}
	kept := s.lastName(sl.base, f, false)
	if f.w.Rename(filepath.Join(s.dir, kept)) != nil {
		return f, nil // the next append tries to rotate it
	}
	sl.raise(f.w.Seqnum())
	sl.last = 0
	s.queueMu.Lock()
	s.leaving = append(s.leaving, leaving{f: f})
	s.queueMu.Unlock()
	s.archiver.Ring()
	return nil, &note{6, msgRotated, fmt.Sprintf("%s.journal rotated to %s: the clock went back by %s", sl.base, kept, back)}
}

// shortestHeader is the size of the oldest journal header, in bytes.
const shortestHeader = 208

// takeLost puts a prepared file into the archive that had entries but not its
// name yet, and removes one without.
func (s *Store) takeLost(name string) (*note, error) {
	path := filepath.Join(s.dir, name)
	h, err := s.header(name)
	// A kill while the file was created: its header is written last, so there is
	// nothing else.
	fi, statErr := s.fs.Stat(path)
	noHeader := errors.Is(err, journal.ErrNotJournal) || err != nil && statErr == nil && fi.Size() < shortestHeader
	if noHeader && s.fs.Remove(path) == nil {
		return nil, nil
	}
	if err == nil && h.NEntries == 0 && h.TailObjectOffset <= h.DataHashTableOffset && s.fs.Remove(path) == nil {
		return nil, nil
	}
	if err == nil && h.MachineID != s.cfg.MachineID {
		return s.putAside("system", name, fmt.Errorf("%w: %s", journal.ErrOtherMachine, h.MachineID))
	}
	sl := s.system
	if uid, ok := s.ownerOf(path); ok {
		s.usersMu.Lock()
		sl = s.addUser(uid)
		s.usersMu.Unlock()
		s.allow(path, uid)
	}
	if err == nil && h.State == journal.StateArchived { // see copying.finish
		sl.continues(h.SeqnumID, h.TailEntrySeqnum)
		return nil, s.renameArchived(sl.base, name)
	}
	if h, failed := s.isUnsynced(name); failed {
		sl.raise(h.SeqnumID, h.TailEntrySeqnum)
		sl.last = max(sl.last, h.TailEntryRealtime)
		return s.putAsideUnsynced(sl.base, name, h)
	}
	f, n, err := s.repair(sl.base, name)
	if f != nil {
		sl.raise(f.w.Seqnum())
		sl.last = max(sl.last, f.w.TailRealtime())
	}
	return n, err
}

// ownerOf finds the user whose entries a file has, by the trusted field of the
// first one; false when they are the system's.
func (s *Store) ownerOf(path string) (uid uint32, ok bool) {
	if !s.cfg.Split {
		return 0, false
	}
	j, err := journal.Open([]string{path})
	if err != nil {
		return 0, false
	}
	defer j.Close()
	e, err := j.Next()
	if err != nil {
		return 0, false
	}
	text, _ := e.Get("_UID")
	n, err := strconv.ParseUint(string(text), 10, 32)
	return uint32(n), err == nil && hasOwnFile(uint32(n))
}

// repair makes an unclean file whole and hands it to the archiver. What the disk
// keeps from that is left as it is for the next start.
func (s *Store) repair(base, name string) (*file, *note, error) {
	path := filepath.Join(s.dir, name)
	report, err := journal.Repair(path, journal.RepairOptions{FS: s.fs})
	if err != nil {
		n, err := s.putAside(base, name, fmt.Errorf("repair: %w", err))
		return nil, n, err
	}
	f, err := s.reopen(path)
	if err != nil {
		n, err := s.putAside(base, name, fmt.Errorf("open after repair: %w", err))
		return nil, n, err
	}
	if f.n == 0 {
		f.discard()
		return f, nil, nil
	}
	kept := s.lastName(base, f, false)
	if kept != name {
		if err := f.w.Rename(filepath.Join(s.dir, kept)); err != nil {
			f.w.Close() //nolint:errcheck // the error that led here is told
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.queueMu.Lock()
	s.leaving = append(s.leaving, leaving{f: f})
	s.queueMu.Unlock()
	s.archiver.Ring()
	text := fmt.Sprintf("%s was not closed: repaired, entries: %d, kept as %s", name, f.n, kept)
	if report.Lost > 0 {
		text += fmt.Sprintf(", %d lost", report.Lost)
	}
	return f, &note{4, msgUnclean, text}, nil
}

// renameArchived gives a file that is archived already its archive name.
func (s *Store) renameArchived(base, name string) error {
	h, err := s.header(name)
	if err != nil {
		return err
	}
	kept := journal.ArchiveName(base, h.SeqnumID, h.HeadEntrySeqnum, h.HeadEntryRealtime)
	if err := s.fs.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, kept)); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// diskFailed reports whether err says that the file system refused something,
// and nothing about what is in a file.
func diskFailed(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok || errors.Is(err, io.ErrShortWrite)
}

// putAside takes a file that is not gone on with out of the way: one that is
// damaged, or another's, under a name of its own for ever; one that the disk
// keeps from being repaired under the name of an archive, so that the next start
// tries again. With an error it has the name that it had.
func (s *Store) putAside(base, name string, why error) (*note, error) {
	now, _ := s.clock()
	kept := journal.DisposedName(base, now, rand.Uint64())
	text := "%s cannot be gone on with, kept as %s: %v"
	if diskFailed(why) {
		if !isCurrent(name) {
			return &note{3, msgUnclean, fmt.Sprintf("%s is left for the next start: %v", name, why)}, nil
		}
		h, err := s.header(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, why)
		}
		kept = journal.ArchiveName(base, h.SeqnumID, h.HeadEntrySeqnum, h.HeadEntryRealtime)
		text = "%s cannot be gone on with now, left for the next start as %s: %v"
		if !s.lacks(filepath.Join(s.dir, kept)) {
			return nil, fmt.Errorf("%s: %w; and there is a %s already", name, why, kept)
		}
	}
	err := s.fs.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, kept))
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be gone on with (%w) and not be kept as %s: %w", name, why, kept, err)
	}
	return &note{4, msgUnclean, fmt.Sprintf(text, name, kept, why)}, nil
}

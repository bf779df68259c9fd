package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
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
	for _, e := range entries {
		n, err := s.takeEntry(e)
		if err != nil {
			return nil, err
		}
		if n != nil {
			notes = append(notes, *n)
		}
	}
	return notes, nil
}

func (s *Store) takeEntry(e fs.DirEntry) (*note, error) {
	name := e.Name()
	base, uid, current := currentBase(name)
	_, archived := parseStored(name)
	prepared := strings.HasPrefix(name, nextPrefix)
	switch {
	case !current && !archived && !prepared:
		return nil, nil
	case e.Type()&fs.ModeSymlink != 0:
		return nil, &os.PathError{Op: "open", Path: filepath.Join(s.dir, name), Err: errors.New("is a symbolic link: remove it")}
	case !e.Type().IsRegular():
		return nil, &os.PathError{Op: "open", Path: filepath.Join(s.dir, name), Err: errors.New("is not a regular file: remove it")}
	case prepared:
		return s.takeLost(name), nil
	case archived && !strings.HasSuffix(name, "~") && s.online(name):
		base, _, _ := strings.Cut(name, "@")
		_, n := s.repair(base, name)
		return n, nil
	case current && base == "system":
		f, n := s.takeCurrent(s.system)
		s.system.f = f
		return n, nil
	case current && s.cfg.Split:
		s.usersMu.Lock()
		sl := s.addUser(uid)
		s.usersMu.Unlock()
		if h, err := s.header(name); err == nil && h.State == journal.StateOffline {
			sl.onDisk, sl.head = true, h.HeadEntryRealtime // opened when its user says something
			return nil, nil
		}
		f, n := s.takeCurrent(sl)
		sl.f = f
		return n, nil
	default:
		return nil, nil
	}
}

// online reports whether a file was not closed, as far as its header tells.
func (s *Store) online(name string) bool {
	h, err := s.header(name)
	return err == nil && h.State != journal.StateOffline && h.State != journal.StateArchived
}

// header reads the header of a file of the directory.
func (s *Store) header(name string) (journal.Header, error) {
	path := filepath.Join(s.dir, name)
	f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return journal.Header{}, err
	}
	defer f.Close()
	jf, err := journal.NewFile(f, func() int64 {
		n, err := f.Size()
		if err != nil {
			return 0
		}
		return n
	}, path)
	if err != nil {
		return journal.Header{}, err
	}
	return jf.Header(), nil
}

// takeCurrent opens the current file of a slot to go on with it. It returns nil
// when there is nothing to go on with, and a note when the file was not in
// order. The sequence goes on either way, if the file tells it.
func (s *Store) takeCurrent(sl *slot) (*file, *note) {
	name := sl.base + ".journal"
	path := filepath.Join(s.dir, name)
	f, err := s.reopen(path)
	if err == nil {
		return s.goOn(sl, f)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if h, herr := s.header(name); herr == nil && h.MachineID == s.cfg.MachineID {
		sl.raise(h.SeqnumID, h.TailEntrySeqnum)
		sl.last = max(sl.last, h.TailEntryRealtime)
	}
	if errors.Is(err, journal.ErrArchived) {
		if rerr := s.renameArchived(sl.base, name); rerr == nil {
			return nil, nil
		}
	}
	if !errors.Is(err, journal.ErrUnclean) {
		return nil, s.dispose(sl.base, name, err)
	}
	f, n := s.repair(sl.base, name)
	if f != nil {
		sl.raise(f.w.Seqnum())
		sl.last = max(sl.last, f.w.TailRealtime())
	}
	return nil, n
}

// goOn makes a clean file the slot's, unless the clock has been set back by so
// much that its times and those to come do not belong into one file.
func (s *Store) goOn(sl *slot, f *file) (*file, *note) {
	sl.last = f.w.TailRealtime()
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

// takeLost puts a prepared file into the archive that had entries but not its
// name yet, and removes one without.
func (s *Store) takeLost(name string) *note {
	path := filepath.Join(s.dir, name)
	h, err := s.header(name)
	if err == nil && h.NEntries == 0 && h.TailObjectOffset <= h.DataHashTableOffset && s.fs.Remove(path) == nil {
		return nil
	}
	sl := s.system
	if uid, ok := s.ownerOf(path); ok {
		s.usersMu.Lock()
		sl = s.addUser(uid)
		s.usersMu.Unlock()
		s.allow(path, uid)
	}
	f, n := s.repair(sl.base, name)
	if f != nil {
		sl.raise(f.w.Seqnum())
		sl.last = max(sl.last, f.w.TailRealtime())
	}
	return n
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

// raise lets the slot's sequence go on behind n. Another sequence than the one
// it has takes its place.
func (sl *slot) raise(id entry.ID, n uint64) {
	if id == sl.seqnumID {
		n = max(n, sl.seqnum)
	}
	sl.seqnumID, sl.seqnum = id, n
}

// repair makes an unclean file whole and hands it to the archiver.
func (s *Store) repair(base, name string) (*file, *note) {
	path := filepath.Join(s.dir, name)
	report, err := journal.Repair(path, journal.RepairOptions{FS: s.fs})
	if err != nil {
		return nil, s.dispose(base, name, fmt.Errorf("repair: %w", err))
	}
	f, err := s.reopen(path)
	if err != nil {
		return nil, s.dispose(base, name, fmt.Errorf("open after repair: %w", err))
	}
	if f.n == 0 {
		f.discard(s)
		return f, nil
	}
	kept := s.lastName(base, f, false)
	if kept != name {
		if err := f.w.Rename(filepath.Join(s.dir, kept)); err != nil {
			f.w.Close() //nolint:errcheck // the error that led here is told
			return nil, s.dispose(base, name, err)
		}
	}
	s.queueMu.Lock()
	s.leaving = append(s.leaving, leaving{f: f})
	s.queueMu.Unlock()
	s.archiver.Ring()
	text := fmt.Sprintf("%s was not closed: repaired, %d entries kept as %s", name, f.n, kept)
	if report.Lost > 0 {
		text += fmt.Sprintf(", %d lost", report.Lost)
	}
	return f, &note{4, msgUnclean, text}
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

// dispose keeps a file that is not gone on with under a name of its own.
func (s *Store) dispose(base, name string, why error) *note {
	now, _ := s.clock()
	kept := journal.DisposedName(base, now, rand.Uint64())
	err := s.fs.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, kept))
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return &note{3, msgUnclean, fmt.Sprintf("%s cannot be gone on with (%v) and not be kept as %s: %v", name, why, kept, err)}
	}
	return &note{4, msgUnclean, fmt.Sprintf("%s cannot be gone on with, kept as %s: %v", name, kept, why)}
}

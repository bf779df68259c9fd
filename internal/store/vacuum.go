package store

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// growStep is how much a file grows at a time, in bytes.
const growStep = 8 << 20

// Usage is what the files take and what is left, in bytes. What other processes
// have changed is seen when the archiver looks: after a rotation or a growth, and
// when a Status finds that the last look is a second ago, for the next Status.
type Usage struct {
	Bytes, Limit, Available uint64
	// Archived counts the files that may be removed.
	Archived int

	rest uint64 // of Bytes, what the files take that are not open
	at   uint64 // when this was found, monotonic µs
}

// usageAge is the age in µs from which on a Status asks for another look.
const usageAge = 1e6

// stored is a file of the directory that is not current.
type stored struct {
	name     string
	size     uint64
	seqnumID entry.ID // zero for a file that was set aside
	seqnum   uint64
	realtime uint64 // of its first entry, or when it was set aside, in µs
}

// aside reports whether f was set aside, not archived.
func (f stored) aside() bool { return strings.HasSuffix(f.name, "~") }

// spareTaken keeps what this start has repaired or archived from being removed just
// because others have filled the disk, until the first rotation: it is what the
// operator looks for after a crash.
func (s *Store) spareTaken() {
	s.vacuumMu.Lock()
	defer s.vacuumMu.Unlock()
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.spared = make(map[string]bool)
	for _, l := range s.leaving {
		s.spared[filepath.Base(l.f.w.Path())] = true
	}
}

// LookAgain has the archiver look at what all files take, and remove what is too
// much: somebody else has put a file into the directory. Of an upload's file that was
// set aside it stores again what was not synced. It waits for nothing.
func (s *Store) LookAgain() {
	s.uploads.Store(true)
	s.archiver.Ring()
}

// makeRoom removes old files when growing by one step would take from what is
// to be kept free.
func (s *Store) makeRoom() {
	avail, _, err := s.fs.Free(s.dir)
	if err != nil || avail >= s.settings.Load().Limits.KeepFree+growStep {
		return
	}
	if _, err := s.vacuum(growStep); err != nil {
		s.saySeldom("look for space", err)
	}
}

// vacuum removes archived files, the oldest first, until they fit the limits
// when need bytes more are taken. It returns how long until the next one is too
// old.
func (s *Store) vacuum(need uint64) (next time.Duration, err error) {
	s.vacuumMu.Lock()
	defer s.vacuumMu.Unlock()
	files, sum, open, current, err := s.survey()
	if err != nil {
		return retryPause, err
	}
	avail, _, err := s.fs.Free(s.dir)
	if err != nil {
		return retryPause, err
	}
	if s.counts.rotations.Load() > 0 {
		s.spared = nil
	}
	limits := s.settings.Load().Limits
	now, monotonic := s.clock()
	u := Usage{Bytes: sum, Limit: limits.allowed(sum, avail-min(need, avail)), Available: avail, at: monotonic}
	var removed []string
	freed, kept := uint64(0), len(files)
	aside := 0
	for _, f := range files {
		if f.aside() {
			aside++
		}
	}
	next = never
	for _, f := range files {
		count := kept - aside + current
		if f.aside() { // those are counted among themselves
			count = aside
		}
		limit := u.Limit
		if s.spared[f.name] {
			limit = limits.MaxUse
		}
		reason := limits.excess(f, now, u.Bytes, limit, count)
		if reason == "" {
			if limits.MaxRetention > 0 {
				next = min(next, limits.MaxRetention-since(f.realtime, now))
			}
			continue
		}
		if err := s.fs.Remove(filepath.Join(s.dir, f.name)); err != nil {
			return retryPause, err
		}
		removed = append(removed, f.name+": "+reason)
		freed += f.size
		u.Bytes -= min(f.size, u.Bytes)
		u.Available += f.size
		kept--
		if f.aside() {
			aside--
		}
	}
	u.Archived, u.rest = kept, u.Bytes-min(open, u.Bytes)
	if old := s.usage.Swap(&u); old.Archived != u.Archived {
		s.changed()
	}
	if len(removed) > 0 {
		if err := s.fs.SyncDir(s.dir); err != nil {
			return retryPause, err
		}
		s.counts.removed.Add(uint64(len(removed)))
		s.refused.Store(0)
		s.janitor.Ring()
		s.Event(6, msgRemoved, fmt.Sprintf("removed %d bytes: %s", freed, strings.Join(removed, "; ")))
	}
	return next, nil
}

// allowed is how much all files may take when they take used now. It goes below
// that when others have taken what is to be kept free.
func (l Limits) allowed(used, avail uint64) uint64 {
	limit := used + avail
	limit -= min(l.KeepFree, limit)
	return min(max(limit, l.minUse), l.MaxUse)
}

// excess says why f is to be removed; empty when it may stay.
func (l Limits) excess(f stored, now, sum, limit uint64, count int) string {
	switch {
	case l.MaxRetention > 0 && since(f.realtime, now) >= l.MaxRetention:
		return fmt.Sprintf("older than %s", l.MaxRetention)
	case sum > limit:
		return fmt.Sprintf("all files take %d bytes, %d are allowed", sum, limit)
	case l.MaxFiles > 0 && count > l.MaxFiles:
		return fmt.Sprintf("more files than are allowed, %d", l.MaxFiles)
	default:
		return ""
	}
}

// survey lists the files that may be removed, the oldest first, and adds up
// what all files take, and what of that those that are open. current counts those
// that may not be removed, but for the prepared one.
func (s *Store) survey() (files []stored, sum, open uint64, current int, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, 0, 0, 0, err
	}
	busy := make(map[string]bool)
	for _, f := range s.open() {
		busy[filepath.Base(f.w.Path())] = true
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		size := blocks(info)
		f, old := parseStored(e.Name())
		switch {
		case old && !busy[f.name]:
			f.size = size
			files = append(files, f)
		case old || isCurrent(e.Name()):
			current++
		case IsPrepared(e.Name()): // takes space, but is no file to anyone yet
		default:
			continue
		}
		sum += size
		if busy[e.Name()] {
			open += size
		}
	}
	slices.SortStableFunc(files, older)
	return files, sum, open, current, nil
}

// older orders archives of one writer by their numbers, others by time.
func older(a, b stored) int {
	if a.seqnumID == b.seqnumID && !a.seqnumID.IsZero() {
		return cmp.Compare(a.seqnum, b.seqnum)
	}
	return cmp.Compare(a.realtime, b.realtime)
}

// blocks is the space a file takes; its size where that is not known.
func blocks(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Blocks) * 512
	}
	return uint64(info.Size())
}

// parseStored reads the name of an archived file, or of one set aside.
func parseStored(name string) (f stored, ok bool) {
	f.name = name
	base, rest, ok := strings.Cut(name, "@")
	if !ok || base == "" {
		return f, false
	}
	if body, aside := strings.CutSuffix(rest, ".journal~"); aside {
		when, random, _ := strings.Cut(body, "-")
		var err error
		f.realtime, err = strconv.ParseUint(when, 16, 64)
		return f, err == nil && len(when) == 16 && len(random) == 16
	}
	body, archived := strings.CutSuffix(rest, ".journal")
	parts := strings.Split(body, "-")
	if !archived || len(parts) != 3 || len(parts[1]) != 16 || len(parts[2]) != 16 {
		return f, false
	}
	var errs [3]error
	f.seqnumID, errs[0] = entry.ParseID(parts[0])
	f.seqnum, errs[1] = strconv.ParseUint(parts[1], 16, 64)
	f.realtime, errs[2] = strconv.ParseUint(parts[2], 16, 64)
	return f, errs == [3]error{}
}

// isCurrent reports whether name is that of a file that is being written:
// system.journal, user-UID.journal or, by who takes uploads, remote-PEER.journal.
func isCurrent(name string) bool {
	_, _, ok := currentBase(name)
	return ok || strings.HasPrefix(name, "remote-") && strings.HasSuffix(name, ".journal") && !strings.Contains(name, "@")
}

// currentBase splits the name of a current file.
func currentBase(name string) (base string, uid uint32, ok bool) {
	base, ok = strings.CutSuffix(name, ".journal")
	if !ok || base == "system" {
		return base, 0, ok
	}
	digits, ok := strings.CutPrefix(base, "user-")
	n, err := strconv.ParseUint(digits, 10, 32)
	return base, uint32(n), ok && err == nil && strconv.FormatUint(n, 10) == digits
}

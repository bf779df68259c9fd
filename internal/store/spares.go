package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/journal"
)

// Prepared files. One has a name of nextPrefix, which no reader opens, until it is
// whole, and then one that every reader of the directory opens: a follower that
// merges several files by time, and never goes back, has to know of a file before
// there is an entry in it, for it shows later ones of the others meanwhile.
const (
	nextPrefix  = ".next-"
	sparePrefix = "upcoming@"
	spareSuffix = ".journal"
)

// Files written to within spareUse count when it comes to how many prepared ones
// there should be: they may need one each, at the same time. But no more than
// maxSpares, and one only while there is little space.
const (
	spareUse  = time.Minute
	maxSpares = 4
)

// IsPrepared reports whether name is that of a prepared file, ready or not, or of
// one that is current and waits for its name.
func IsPrepared(name string) bool {
	return strings.HasPrefix(name, nextPrefix) || strings.HasPrefix(name, sparePrefix) && strings.HasSuffix(name, spareSuffix)
}

// spares are prepared files, empty and nobody's yet. Their methods may be called
// concurrently, and touch no file.
type spares struct {
	mu    sync.Mutex
	files []*file // the oldest first
	stale []*file // prepared with other settings, to be removed
}

// take returns the oldest file with these settings; nil when there is none. Others
// that are older become stale, which it tells.
func (sp *spares) take(set *Settings) (f *file, stale bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for len(sp.files) > 0 {
		f := sp.files[0]
		sp.files = sp.files[1:]
		if f.set == set {
			return f, stale
		}
		sp.stale = append(sp.stale, f)
		stale = true
	}
	return nil, stale
}

func (sp *spares) add(f *file) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.files = append(sp.files, f)
}

// list returns the files that are ready.
func (sp *spares) list() []*file {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return slices.Clone(sp.files)
}

func (sp *spares) len() int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return len(sp.files)
}

// drop makes f stale, unless it was taken meanwhile.
func (sp *spares) drop(f *file) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if i := slices.Index(sp.files, f); i >= 0 {
		sp.files = slices.Delete(sp.files, i, i+1)
		sp.stale = append(sp.stale, f)
	}
}

// takeStale returns the files to be removed; with all, those that are ready too.
func (sp *spares) takeStale(all bool) []*file {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	stale := sp.stale
	sp.stale = nil
	if all {
		stale = append(stale, sp.files...)
		sp.files = nil
	}
	return stale
}

// discardStale removes files that were prepared with other settings.
func (s *Store) discardStale(all bool) {
	for _, f := range s.spares.takeStale(all) {
		f.discard()
	}
}

// sparesWanted is how many prepared files there should be.
func (s *Store) sparesWanted() int {
	if s.Free() < 4*maxSpares*growStep {
		return 1
	}
	_, now := s.clock()
	n := 1
	for _, sl := range s.slots() {
		if n == maxSpares {
			break
		}
		if sl == s.system {
			continue
		}
		sl.mu.Lock()
		if sl.used != 0 && !sl.onDisk && since(sl.used, now) < spareUse {
			n++
		}
		sl.mu.Unlock()
	}
	return n
}

// prepareSpares makes sure that the next files are ready; the error is why none
// can be made.
func (s *Store) prepareSpares() error {
	set := s.settings.Load()
	for _, f := range s.spares.list() {
		if f.set != set || s.lacks(f.w.Path()) {
			s.spares.drop(f)
		}
	}
	s.discardStale(false)
	for range s.sparesWanted() - s.spares.len() { // not more now, though one of them cannot be synced
		s.makeRoom()
		f, err := s.prepareReady()
		if err != nil {
			if s.preparing.Swap(&err) == nil {
				s.changed()
				text := "prepare the next file: " + err.Error()
				s.say(text)
				s.later(event{3, msgStore, text})
			}
			return err
		}
		if err := s.preparing.Swap(nil); err != nil && outOfSpace(*err) {
			s.changed()
			s.room.again()
		}
		s.spares.add(f)
		s.progress.ring()
		s.archiver.Ring()
	}
	return nil
}

// prepareReady is prepare for a file that readers are to know of.
func (s *Store) prepareReady() (*file, error) {
	f, err := s.prepare()
	if err != nil {
		return nil, err
	}
	if err := f.w.Rename(filepath.Join(s.dir, fmt.Sprintf("%s%016x%s", sparePrefix, rand.Uint64(), spareSuffix))); err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
}

// prepare creates the next file, allocated. Its sync is made up by the archiver, or
// by the first who waits for one.
func (s *Store) prepare() (*file, error) {
	f := &file{}
	f.realtime, f.monotonic = s.clock()
	path := filepath.Join(s.dir, fmt.Sprintf("%s%016x", nextPrefix, rand.Uint64()))
	w, err := journal.Create(path, s.options(f))
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the directory
		if err = s.makeAgain(); err == nil {
			w, err = journal.Create(path, s.options(f))
		}
	}
	if err != nil {
		return nil, err
	}
	f.w = w
	return f, nil
}

// discard removes a file that was never used.
func (f *file) discard() {
	f.w.Discard() //nolint:errcheck // it holds nothing, and the next start removes what is left
}

// notReady says why a slot has no file to append to.
func (s *Store) notReady() error {
	for _, err := range [...]*error{s.preparing.Load(), s.refusal.Load()} {
		if err != nil {
			return fmt.Errorf("prepare the next file: %w", *err)
		}
	}
	return errNoFile
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// sayPause is the least time between two lines about the same thing.
const sayPause = time.Minute

// seldom reports whether the last time for this key is sayPause ago.
func (s *Store) seldom(key string) bool {
	_, now := s.clock()
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	if last, ok := s.saidAt[key]; ok && since(last, now) < sayPause {
		return false
	}
	if s.saidAt == nil {
		s.saidAt = make(map[string]uint64)
	}
	s.saidAt[key] = now
	return true
}

// saySeldom says what would else be said again and again: what could not be
// done, and why, once per sayPause.
func (s *Store) saySeldom(what string, err error) {
	if s.seldom(what) {
		s.say(what + ": " + err.Error())
	}
}

// lacks reports whether there is no file of that name.
func (s *Store) lacks(path string) bool {
	_, err := s.fs.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// findRemoved looks for current files that somebody has removed. What is synced
// there is gone when they are closed: nothing in them counts as synced, and they
// are replaced.
func (s *Store) findRemoved() {
	for _, sl := range s.slots() {
		sl.mu.Lock()
		f := sl.f
		sl.mu.Unlock()
		if f != nil && !f.gone.Load() && s.lacks(f.w.Path()) {
			f.markGone()
		}
	}
}

// markGone makes f one that was removed.
func (f *file) markGone() {
	err := fmt.Errorf("%s: somebody has removed it: %w", f.w.Path(), syscall.EIDRM)
	f.failed.CompareAndSwap(nil, &err)
	f.gone.Store(true)
}

// makeAgain makes the directory when somebody has removed it, and locks it anew.
// Only the start and the janitor call it.
func (s *Store) makeAgain() error {
	if err := s.makeDir(); err != nil {
		return err
	}
	if s.lock == nil || !s.lacks(filepath.Join(s.cfg.Dir, lockName)) {
		return nil
	}
	lock, err := LockDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.lock.Release()
	s.lock = lock
	return nil
}

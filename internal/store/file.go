package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/journal"
)

// file is one open journal file.
type file struct {
	w   *journal.Writer
	set *Settings // that it was opened with
	// realtime and monotonic are the time of the next append, in µs. Guarded by
	// the mutex of the slot that holds the file.
	realtime, monotonic uint64
	// appended counts the entries put in by this process, n those the file had
	// when it was opened. Guarded like realtime.
	appended, n uint64

	grow    atomic.Bool           // wants to be grown ahead
	full    atomic.Bool           // the last write met a full disk
	failing atomic.Pointer[error] // what the last write met, but for a full disk; nil: it did not fail
	failed  atomic.Pointer[error] // the sync that failed; such a file is set aside
	gone    atomic.Bool           // somebody has removed it; failed is set too
	told    atomic.Bool           // a Synchronize has returned that error
	marked  atomic.Bool           // the file says that a sync has failed

	unshared atomic.Bool // its user may not read it yet: the disk was full
}

// reopen goes on with a file that was closed. One from the future, whose last
// entry is later than the clock, is gone on with too: the clock has been set
// back, and the first append sees to that.
func (s *Store) reopen(path string) (*file, error) {
	f := &file{}
	f.realtime, f.monotonic = s.clock()
	if h, err := s.header(filepath.Base(path)); err == nil {
		f.realtime = max(f.realtime, h.TailEntryRealtime)
	}
	w, err := journal.OpenWriter(path, s.options(f))
	if err != nil {
		return nil, err
	}
	f.w = w
	f.n = w.Stats().Entries
	return f, nil
}

// options of every file, with the callbacks of f.
func (s *Store) options(f *file) journal.Options {
	set := s.settings.Load()
	f.set = set
	count := s.cfg.Effects.Of()
	return journal.Options{
		FS:                s.fs,
		Flavour:           set.Flavour,
		MachineID:         s.cfg.MachineID,
		BootID:            s.cfg.BootID,
		MaxSize:           set.Limits.MaxFileSize,
		Sync:              set.Sync,
		Index:             set.Index,
		Buffer:            set.Buffer,
		CompressThreshold: set.CompressThreshold,
		Order:             s.order,
		SyncLater:         true,
		Clock:             func() (uint64, uint64) { return f.realtime, f.monotonic },
		OnWrite:           s.progress.ring,
		Observe: func(effect string, d time.Duration, covered uint64, err error) {
			count(effect, d, covered, err)
			if effect == "sync" {
				s.synced(f, d, err)
			} else {
				s.noteSpace(f, err)
			}
		},
	}
}

// synced is called after every sync of f. A file whose sync has failed is never
// trusted again: the janitor sets it aside.
func (s *Store) synced(f *file, d time.Duration, err error) {
	s.counts.syncs.Add(1)
	s.counts.syncTime.Add(uint64(d.Microseconds()))
	if err != nil {
		s.counts.syncErrors.Add(1)
		f.failed.CompareAndSwap(nil, &err)
		s.janitor.Ring()
	}
}

// errDiskFull refuses entries while a file meets a full disk.
var errDiskFull = fmt.Errorf("append: %w", syscall.ENOSPC)

// outOfSpace reports whether err says that the disk, or a quota, is full.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// noteSpace is called after every write to f, failed ones included.
func (s *Store) noteSpace(f *file, err error) {
	if f.w != nil {
		select {
		case <-f.w.NeedGrow():
			f.grow.Store(true)
			s.janitor.Ring()
		default:
		}
	}
	switch {
	case outOfSpace(err):
		s.room.end(err)
		if !f.full.Swap(true) {
			s.counts.diskFull.Add(1)
			s.changed()
			text := "the disk is full: senders wait until there is space: " + err.Error()
			s.say(text)
			s.later(event{3, msgStore, text}) // with what is stored once there is space
			s.archiver.Ring()
		}
	case err != nil:
		first := f.failing.Swap(&err) == nil
		if first {
			s.changed()
		}
		if first && s.seldom("write") {
			text := "a write failed, it is tried again and senders wait: " + err.Error()
			s.say(text)
			s.later(event{3, msgStore, text})
			s.janitor.Ring()
		}
	default:
		if f.failing.Swap(nil) != nil {
			s.changed()
		}
		if !f.full.Swap(false) {
			return
		}
		s.changed()
		s.room.again()
		const text = "the disk was full and senders waited; there is space again"
		s.say(text)
		s.later(event{4, msgSpaceAgain, text})
		s.janitor.Ring()
		s.archiver.Ring()
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// archive is the archiver: it settles and archives what was rotated out and
// removes what there is no space for, until ctx is done. It may be stuck on the
// disk for long; nothing else waits for it but Close.
func (s *Store) archive(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		s.secure()
		refused := s.archiveQueued(context.WithoutCancel(ctx), false)
		if refused != nil {
			s.unarchived.Store(&refused)
			s.misses.ring()
		}
		if err := s.syncNames(); err != nil {
			s.saySeldom("sync the names of the files", err)
		}
		next, err := s.vacuum(0)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				s.janitor.Ring() // the directory was removed
			} else {
				s.saySeldom("look for space", err)
			}
		}
		s.oweUploads()
		next = min(next, s.readBackAll(context.WithoutCancel(ctx), false))
		if refused != nil {
			next = min(next, retryPause)
		}
		timer.Reset(next)
		select {
		case <-s.archiver.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// secure syncs the files that were prepared or opened, so that nobody who waits for a
// sync later waits for that too.
func (s *Store) secure() {
	for _, f := range s.spares.list() {
		if err := f.w.Secure(); err != nil {
			_, now := s.clock()
			s.unsyncable.Store(now + uint64(retryPause.Microseconds()))
			s.spares.drop(f) // what comes into it would never be synced
			s.saySeldom("sync the next file", err)
			s.janitor.Ring()
		}
	}
	for _, f := range s.open() {
		if err := f.w.Secure(); err != nil && f.failed.CompareAndSwap(nil, &err) {
			s.janitor.Ring() // sets it aside
		}
	}
}

// syncNames syncs the directory if files were renamed in it.
func (s *Store) syncNames() error {
	s.queueMu.Lock()
	due := s.renamed
	s.renamed = false
	s.queueMu.Unlock()
	if !due {
		return nil
	}
	return s.fs.SyncDir(s.dir)
}

// archiveQueued archives the files that have their last name; with last, even
// those that cannot be written now. A file stays in the queue until it is
// archived, since Synchronize waits for it too. The error says that the disk has
// refused one, which is tried again later: what it has accepted is not lost. With
// last it is of all that it has met, but for files that were set aside before.
func (s *Store) archiveQueued(ctx context.Context, last bool) error {
	var refused []error
	s.queueMu.Lock()
	queue := slices.Clone(s.leaving)
	s.queueMu.Unlock()
	for _, l := range queue {
		if err := l.f.w.SettleIndex(ctx); err != nil && !last {
			return err
		}
		if err := l.f.w.Archive(ctx); err != nil && !l.aside {
			l.f.failed.CompareAndSwap(nil, &err)
			name := filepath.Base(l.f.w.Path())
			s.Event(3, msgStore, fmt.Sprintf("archive %s: %v", name, err))
			if last {
				refused = append(refused, err)
			}
			s.setAsideLate(l.f, err)
		}
		s.owe(l.f)
		s.queueMu.Lock()
		s.lose(l.f)
		s.leaving = slices.DeleteFunc(s.leaving, func(o leaving) bool { return o.f == l.f })
		s.queueMu.Unlock()
		s.changed()
		s.progress.ring()
	}
	return errors.Join(refused...)
}

// maxLost bounds the losses that wait to be reported.
const maxLost = 16

// lose keeps the error of a file that is forgotten with entries that were never
// synced, for the next Synchronize. Called with queueMu held.
func (s *Store) lose(f *file) {
	if err := f.failed.Load(); err != nil && !f.told.Load() && len(s.lost) < maxLost {
		s.lost = append(s.lost, fmt.Errorf("sync %s: %w", f.w.Path(), *err))
	}
}

// takeLosses returns what lose has kept.
func (s *Store) takeLosses() []error {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	lost := s.lost
	s.lost = nil
	return lost
}

// Archived returns nil when every file that was rotated before the call is an archive,
// by its header too, and synced; a file that was set aside instead counts as one. It
// has what waits tried again: when the disk refuses a file once more, the error says
// why, and the file stays in the queue. Any number of goroutines may call it. It does
// not poll.
func (s *Store) Archived(ctx context.Context) error {
	s.queueMu.Lock()
	queue := slices.Clone(s.leaving)
	s.queueMu.Unlock()
	known := s.unarchived.Load()
	s.archiver.Ring()
	return s.await(ctx, func() error {
		if !s.anyLeaving(queue) {
			return nil
		}
		if why := s.unarchived.Load(); why != known {
			return fmt.Errorf("archive: %w", *why)
		}
		return errNoFile
	})
}

// anyLeaving reports whether one of the files of queue is not archived yet.
func (s *Store) anyLeaving(queue []leaving) bool {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	return slices.ContainsFunc(s.leaving, func(l leaving) bool {
		return slices.ContainsFunc(queue, func(o leaving) bool { return o.f == l.f })
	})
}

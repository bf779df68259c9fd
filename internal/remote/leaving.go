package remote

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tidemark-log/tidemark/journal"
)

// leaving is a file that has the name of an archive and is to become one.
type leaving struct {
	w    *journal.Writer
	base string
	done chan struct{} // closed when it is an archive, or was set aside
}

// leave hands a file over to be archived, which waits for the disk.
func (f *Files) leave(l leaving) {
	f.mu.Lock()
	f.leaving = append(f.leaving, l)
	f.mu.Unlock()
	f.left.Ring()
}

// leavers lists the files that are to become archives.
func (f *Files) leavers() []leaving {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.leaving)
}

// Archived returns nil when every file that was rotated before the call is an archive,
// or was set aside instead.
func (f *Files) Archived(ctx context.Context) error {
	for _, l := range f.leavers() {
		select {
		case <-l.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// archive makes archives of what was left until ctx is done. It may be stuck on the
// disk for long; nothing else waits for it but Close.
func (f *Files) archive(ctx context.Context) {
	for {
		f.setFailedAside(ctx)
		f.archiveAll() //nolint:errcheck // told as events
		select {
		case <-f.left.C():
		case <-ctx.Done():
			return
		}
	}
}

// fail tells that a sync of the peer's file has failed just now. It does not wait.
func (f *Files) fail(p *peer) {
	f.mu.Lock()
	if !slices.Contains(f.failing, p) {
		f.failing = append(f.failing, p)
	}
	f.mu.Unlock()
	f.left.Ring()
}

// setFailedAside sets the files aside of which a sync has failed, without waiting
// for the next append: were the process killed before that, the next start would
// find an ordinary file and trust a sync of its own, which says nothing about what
// the failed one has lost. A file that is to stay for the rest of asidePause is
// left to the next append.
func (f *Files) setFailedAside(ctx context.Context) {
	f.mu.Lock()
	failing := f.failing
	f.failing = nil
	f.mu.Unlock()
	for _, p := range failing {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return // and Close closes them
		}
		// By now it may have another file.
		if err := p.failed.Load(); err != nil && p.w != nil {
			p.setAside(*err) //nolint:errcheck // tried again by the next append
		}
		p.release()
	}
}

// archiveAll makes archives of what was left. A file counts as open until it is
// one, since Synchronize waits for it too.
func (f *Files) archiveAll() error {
	var errs []error
	for _, l := range f.leavers() {
		err := l.w.Archive(context.Background())
		if err != nil {
			f.tellLost(l, err)
			errs = append(errs, err)
		}
		f.mu.Lock()
		f.leaving = slices.DeleteFunc(f.leaving, func(o leaving) bool { return o.w == l.w })
		f.mu.Unlock()
		close(l.done)
		if f.cfg.Rotated != nil {
			f.cfg.Rotated()
		}
	}
	return errors.Join(errs...)
}

// tellLost sets a file aside that could not be closed, or made an archive, because
// its sync has failed. Another one is whole, and the next start repairs its state.
func (f *Files) tellLost(l leaving, err error) {
	kept := filepath.Base(l.w.Path())
	if !errors.Is(err, journal.ErrSync) || errors.Is(err, syscall.EIDRM) {
		f.event(3, "%s: %v", kept, err)
		return
	}
	aside := asideName(l.base, l.w)
	if rerr := l.w.Rename(f.path(aside)); rerr != nil {
		err = fmt.Errorf("%w; and %w", err, rerr)
		aside = kept
	}
	f.tellAside(kept, aside, err)
}

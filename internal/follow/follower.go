//go:build linux

package follow

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// Follower reads on at the end of a Journal. It is not safe for concurrent use.
//
// With a match, use a Journal with journal.ReadOptions.Scan: the index of a
// file that is being written lags behind its entries.
type Follower struct {
	j *journal.Journal
	w *Watcher
	// list lists the files there are; nil when the set of files is fixed.
	list func() ([]string, error)
	// want tells which files of the directories to read; nil: all.
	want func(path string) bool
	// aside are events that take files away. They wait until all that those files
	// held has been read.
	aside []Event
}

// New returns a Follower of j that w wakes. The directories are listed once
// more, and the headers read again: nothing that came between the opening of j
// and Watch is missed. Closing j and w stays with the caller.
func New(j *journal.Journal, w *Watcher) *Follower { return NewOf(j, w, nil) }

// NewOf is New for only those files of the directories that want accepts; nil
// accepts all.
func NewOf(j *journal.Journal, w *Watcher, want func(path string) bool) *Follower {
	f := &Follower{j: j, w: w, want: want}
	if w.only == nil {
		f.list = func() ([]string, error) {
			paths, err := filesIn(w.roots)
			return slices.DeleteFunc(paths, func(p string) bool { return !f.wants(p) }), err
		}
	}
	f.rescan()
	f.complete()
	f.refresh()
	return f
}

// Next returns the next entry, and waits for one where there is none. The entry
// is valid until the next call. It returns the errors of Wait.
func (f *Follower) Next(ctx context.Context) (*entry.Entry, error) {
	for {
		e, err := f.j.Next()
		if !errors.Is(err, io.EOF) {
			return e, err
		}
		if err := f.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Wait is for callers that have read the Journal to its end themselves. It
// returns when there may be more, with files that came, went or were renamed
// made known to the Journal. It returns the error of ctx, ErrClosed when the
// Watcher was closed, and io.EOF when its output has hung up.
func (f *Follower) Wait(ctx context.Context) error {
	if len(f.aside) > 0 {
		events := f.aside
		f.aside = nil
		f.apply(events)
		f.refresh()
		return nil
	}
	if err := f.w.Wait(ctx); err != nil {
		return err
	}
	events := f.w.Take()
	if takesAway(events) {
		// Read first what has been written to those files before they went.
		f.aside = append(f.aside, events...)
	} else {
		f.apply(events)
	}
	f.refresh()
	return nil
}

func takesAway(events []Event) bool {
	for _, e := range events {
		if e.Kind != Changed {
			return true
		}
	}
	return false
}

// apply tells the Journal of files. A file that cannot be opened, because its
// header is not there yet or reading it is not allowed, is tried again when it
// changes; journal.Journal knows a file under a new name by its inode.
func (f *Follower) apply(events []Event) {
	before := f.files()
	for _, e := range events {
		switch e.Kind {
		case Changed:
			if f.wants(e.Path) {
				_ = f.j.Add(e.Path)
			}
		case Gone:
			f.j.Remove(e.Path)
		case Rescan:
			f.rescan()
		}
	}
	if !maps.Equal(before, f.files()) {
		f.complete()
	}
}

func (f *Follower) wants(path string) bool { return f.want == nil || f.want(path) }

// rescan makes the Journal's files those that are there.
func (f *Follower) rescan() {
	if f.list == nil {
		return
	}
	paths, err := f.list()
	there := make(map[string]bool, len(paths))
	for _, p := range paths {
		_ = f.j.Add(p) // as in apply
		there[p] = true
	}
	if err != nil {
		return // what could not be listed has not gone
	}
	for _, file := range f.j.Files() {
		if !there[file.Name()] {
			f.j.Remove(file.Name())
		}
	}
}

// complete lists the files until there is none that the Journal does not have.
// A name may have gone to the next file, and to the one after that, between the
// event, or the listing, and the opening of the file: those between are known
// by names that have not been heard of yet. Read later than the last one, their
// entries would come out of order, and so not at all.
func (f *Follower) complete() {
	if f.list == nil {
		return
	}
	for {
		before := f.files()
		paths, err := f.list()
		for _, p := range paths {
			_ = f.j.Add(p) // as in apply
		}
		if err != nil || maps.Equal(before, f.files()) {
			return
		}
	}
}

// files are the files of the Journal and their names.
func (f *Follower) files() map[*journal.File]string {
	files := make(map[*journal.File]string)
	for _, file := range f.j.Files() {
		files[file] = file.Name()
	}
	return files
}

// refresh lets the Journal see what has been written. A file whose header is
// not readable at this moment keeps what it had; the Journal notes a warning.
func (f *Follower) refresh() { _ = f.j.Refresh() }

// filesIn lists the journal files of directories. One that has gone has none.
func filesIn(dirs []string) ([]string, error) {
	var paths []string
	var errs []error
	for _, dir := range dirs {
		list, err := journal.FilesIn(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		paths = append(paths, list...)
	}
	return paths, errors.Join(errs...)
}

package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/journal"
)

// requestAge is how long a request with an Idempotency-Key can be repeated.
const requestAge = 24 * time.Hour

// requestLooks bounds how often the files are looked at while they are being
// renamed.
const requestLooks = 20

// errMoving is told when they are renamed all the time.
var errMoving = errors.New("the files are being rotated too often: send again later")

// requests looks for entries of HTTP requests in the journal files. It keeps
// nothing: the hash tables of the files are the index, read by pread.
type requests struct{ *daemon }

// Stored implements web.Requests.
func (q requests) Stored(ctx context.Context, field entry.Field) (n, aside int, err error) {
	err = whileNamed(q.paths, func(paths []string) error {
		n, aside, err = countIn(ctx, paths, field)
		return err
	})
	return n, aside, err
}

// whileNamed calls look with the paths of the files until they have kept their
// names meanwhile: an entry whose file has no name yet, or gets another one, must
// not be missed.
func whileNamed(list func() ([]string, error), look func(paths []string) error) error {
	before, err := list()
	if err != nil {
		return err
	}
	for range requestLooks {
		lookErr := look(before)
		if lookErr != nil && !errors.Is(lookErr, fs.ErrNotExist) {
			return lookErr
		}
		after, err := list()
		if err != nil {
			return err
		}
		if lookErr == nil && slices.Equal(before, after) {
			return nil
		}
		before = after
	}
	return errMoving
}

// Synchronize implements web.Requests.
func (q requests) Synchronize(ctx context.Context) error {
	return q.store.WhileRoom(ctx, q.store.Synchronize)
}

// paths are the files that entries of HTTP requests can be in: the system's, also
// a current one that has not got its name yet. They are sorted.
func (q requests) paths() ([]string, error) {
	st := q.store.Status()
	listed, err := journal.FilesIn(st.Dir)
	if err != nil {
		return nil, err
	}
	listed = slices.DeleteFunc(listed, func(path string) bool { return store.IsPrepared(filepath.Base(path)) }) // empty
	for _, f := range st.Files {
		listed = append(listed, f.Path)
	}
	var paths []string
	for _, path := range listed {
		name := filepath.Base(path)
		if filepath.Dir(path) == st.Dir && (name == "system.journal" || strings.HasPrefix(name, "system@") || store.IsPrepared(name)) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// isAside reports whether a file was set aside: no sync makes it safe any more.
func isAside(path string) bool { return strings.HasSuffix(path, "~") }

// countIn counts the entries with field, and how many are in no other than files
// that were set aside.
func countIn(ctx context.Context, paths []string, field entry.Field) (n, aside int, err error) {
	if n, err = countEntries(ctx, paths, field); err != nil || n == 0 || !slices.ContainsFunc(paths, isAside) {
		return n, 0, err
	}
	safe, err := countEntries(ctx, slices.DeleteFunc(slices.Clone(paths), isAside), field)
	return n, n - safe, err
}

// countEntries counts the entries of the files with field, each once. A file in
// which nothing can be read has none.
func countEntries(ctx context.Context, paths []string, field entry.Field) (n int, err error) {
	oldest := usec(time.Now().Add(-requestAge))
	j := journal.ReadOptions{}.New()
	defer j.Close()
	for _, path := range paths {
		f, err := journal.OpenFile(path)
		if _, damaged := errors.AsType[*journal.FormatError](err); damaged {
			continue
		}
		if err != nil {
			return 0, err
		}
		if f.Header().TailEntryRealtime < oldest {
			f.Close() //nolint:errcheck // it was only read
			continue
		}
		j.AddFile(f)
	}
	j.SetMatch(journal.Term(field))
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return n, ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		if e.Realtime >= oldest {
			n++
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
	}
}

package selfbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

const (
	floodBatch = 64       // entries that are appended at once
	floodFile  = 64 << 20 // length of a file
)

// flood appends entries to journal files, a batch as soon as the one before is
// appended, and has them synced all the time.
type flood struct {
	fs      *SlowFS
	dir     *place
	current atomic.Pointer[journal.Writer]
	cancel  context.CancelFunc
	run     sync.WaitGroup

	files int
	total uint64 // entries that were looked up
	err   error  // read after run
}

func startFlood(ctx context.Context, p *place) (*flood, error) {
	f := &flood{fs: p.disk(ctx), dir: p}
	f.fs.Hurry(true)
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("%w: name another place with --dir", err)
	}
	f.fs.Hurry(false)
	ctx, f.cancel = context.WithCancel(ctx)
	f.run.Go(func() { f.err = f.pour(ctx) })
	return f, nil
}

func (f *flood) open() error {
	f.files++
	path := f.dir.file("flood-" + strconv.Itoa(f.files) + ".journal")
	w, err := journal.Create(path, journal.Options{FS: f.fs, MaxSize: floodFile, Sync: settle.All()})
	if err == nil {
		f.current.Store(w)
	}
	return err
}

// pour appends until ctx ends.
func (f *flood) pour(ctx context.Context) error {
	var entries []entry.Entry
	for i := range floodBatch {
		entries = append(entries, entry.Entry{Fields: []entry.Field{
			entry.Field("MESSAGE=" + floodMessage(uint64(i))), entry.Field("PRIORITY=6"),
		}})
	}
	var appended uint64 // to the current file
	for ctx.Err() == nil {
		w := f.current.Load()
		position, n, err := w.Append(ctx, entries)
		appended += uint64(n)
		if errors.Is(err, journal.ErrFull) { // the next file begins with a whole batch
			if err := errors.Join(f.open(), f.finish(w, appended)); err != nil {
				return err
			}
			appended = 0
			continue
		}
		if err == nil {
			err = w.Wait(ctx, position, settle.Appended)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return f.finish(f.current.Load(), appended)
}

// finish closes a file, looks its entries up and removes it.
func (f *flood) finish(w *journal.Writer, appended uint64) error {
	if err := w.Close(); err != nil {
		return err
	}
	if err := checkFlood(w.Path(), appended); err != nil {
		return err
	}
	f.total += appended
	return os.Remove(w.Path())
}

// checkFlood looks for the first n entries of a flood in a file.
func checkFlood(path string, n uint64) error {
	j, err := journal.Open([]string{path})
	if err != nil {
		return fmt.Errorf("read %s back: %w", path, err)
	}
	defer j.Close()
	var found uint64
	for e, err := range j.All() {
		if err != nil {
			return fmt.Errorf("read %s back: %w", path, err)
		}
		if m, _ := e.Get("MESSAGE"); string(m) != floodMessage(found%floodBatch) {
			return fmt.Errorf("%w: entry %d is %q", ErrLost, found, m)
		}
		found++
	}
	if found != n {
		return fmt.Errorf("%w: %d entries were appended, the file has %d", ErrLost, n, found)
	}
	return nil
}

// floodMessage is the message of entry i of a batch.
func floodMessage(i uint64) string {
	return "request " + strconv.FormatUint(i, 10) + " was answered in time, as all of them are"
}

// end ends the flood and tells how many entries it has had.
func (f *flood) end() (uint64, error) {
	f.cancel()
	f.fs.Hurry(true)
	f.run.Wait()
	return f.total, f.err
}

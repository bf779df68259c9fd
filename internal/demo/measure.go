package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// What the ratios of the demo are measured with.
const (
	measureCallers = 64
	measureFor     = 400 * time.Millisecond
)

// speeds are records per second of measureCallers callers.
type speeds struct {
	each   float64 // every caller syncs its own record, one after the other
	shared float64 // every caller waits for the sync that covers its record
	none   float64 // nobody syncs
}

// measure runs the three ways of appending one after the other in dir, which it
// makes and removes, each for d.
func measure(ctx context.Context, dir string, d time.Duration) (speeds, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return speeds{}, fmt.Errorf("measure: %w", err)
	}
	var s speeds
	for _, way := range []struct {
		name  string
		rate  *float64
		await func(context.Context, *journal.Writer, journal.Pos) error
		alone bool
	}{
		{"each", &s.each, waitSynced, true},
		{"shared", &s.shared, waitSynced, false},
		{"none", &s.none, func(context.Context, *journal.Writer, journal.Pos) error { return nil }, false},
	} {
		w, err := journal.Create(filepath.Join(dir, way.name+".journal"), journal.Options{})
		if err != nil {
			return speeds{}, fmt.Errorf("measure: %w", err)
		}
		n, took, err := callers(ctx, w, d, way.alone, way.await)
		if closeErr := w.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return speeds{}, fmt.Errorf("measure: %w", err)
		}
		*way.rate = float64(n) / took.Seconds()
	}
	return s, os.RemoveAll(dir)
}

func waitSynced(ctx context.Context, w *journal.Writer, p journal.Pos) error {
	return w.Wait(ctx, p, settle.Synced)
}

// callers lets measureCallers goroutines append for d. With alone they take
// turns: append and wait under one lock, which is what a sync per line is.
func callers(ctx context.Context, w *journal.Writer, d time.Duration, alone bool, await func(context.Context, *journal.Writer, journal.Pos) error) (int, time.Duration, error) {
	var (
		wg    sync.WaitGroup
		turn  sync.Mutex
		mu    sync.Mutex // guards total and first
		total int
		first error
	)
	lines := sampleLines()
	began := time.Now()
	for i := range measureCallers {
		wg.Go(func() {
			n := 0
			var err error
			for err == nil && time.Since(began) < d {
				e := []entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=" + lines[(n+i)%len(lines)]), entry.Field("PRIORITY=6")}}}
				if alone {
					turn.Lock()
				}
				var p journal.Pos
				if p, _, err = w.Append(ctx, e); err == nil {
					err = await(ctx, w, p)
				}
				if alone {
					turn.Unlock()
				}
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return total, time.Since(began), first
}

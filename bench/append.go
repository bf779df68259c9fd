package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// steady makes entries of 20 fields of which 3 are new each time, in place.
type steady struct {
	n      int64
	fields [20]entry.Field
	e      [1]entry.Entry
}

func newSteady() *steady {
	s := &steady{}
	for i := range s.fields {
		s.fields[i] = fmt.Appendf(nil, "_FIELD_NUMBER_%d=some value of usual length %d", i, i)
	}
	s.fields[4] = entry.Field("PRIORITY=6")
	s.e[0] = entry.Entry{Fields: s.fields[:], BootID: entry.ID{1}}
	return s
}

func (s *steady) next() []entry.Entry {
	s.n++
	for i, name := range [...]string{"MESSAGE=a message of usual length, number ", "_SOURCE_REALTIME_TIMESTAMP=", "OBJECT_ID="} {
		s.fields[i] = strconv.AppendInt(append(s.fields[i][:0], name...), s.n, 10)
	}
	s.fields[5] = strconv.AppendInt(append(s.fields[5][:0], "_PID="...), s.n%40, 10)
	return s.e[:]
}

// appended is what a round of appends showed.
type appended struct {
	rate, cpu float64 // entries a second, µs of processor time an entry
	mallocs   float64 // allocations an entry
}

// benchAppend appends in this process, on one processor, without waiting for
// anything; the writing that goes on beside it is part of it, syncs are not asked
// for. A file that is full is closed and the next made outside the measurement.
func benchAppend(ctx context.Context, s settings) error {
	fmt.Printf("\n## append: in process, on one processor, 20 fields of which 3 are new; medians of %d rounds of %s\n\n", 2*s.rounds, 4*s.each)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var runs []appended
	for i := range 2 * s.rounds {
		r, err := appendRound(ctx, filepath.Join(s.dir, fmt.Sprintf("append%d", i)), 4*s.each)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	fmt.Println("| entries/s | CPU µs an entry | allocations an entry | wanted |\n|---|---|---|---|")
	fmt.Printf("| %.0f | %.2f | %.4f | 150000 entries/s |\n", median(runs, func(r appended) float64 { return r.rate }),
		median(runs, func(r appended) float64 { return r.cpu }), median(runs, func(r appended) float64 { return r.mallocs }))
	return nil
}

func appendRound(ctx context.Context, dir string, d time.Duration) (appended, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return appended{}, err
	}
	s := newSteady()
	var wall, cpu time.Duration
	var mallocs, files uint64
	entries := -s.n
	for ctx.Err() == nil && wall < d {
		w, err := journal.Create(filepath.Join(dir, strconv.FormatUint(files, 10)+".journal"), journal.Options{})
		if err != nil {
			return appended{}, err
		}
		files++
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu -= processTime()
		began := time.Now()
		for err == nil && (s.n%1024 != 0 || wall+time.Since(began) < d) {
			_, _, err = w.Append(ctx, s.next())
		}
		wall += time.Since(began)
		cpu += processTime()
		runtime.ReadMemStats(&after)
		mallocs += after.Mallocs - before.Mallocs
		if closeErr := w.Close(); err == nil || errors.Is(err, journal.ErrFull) {
			err = closeErr
		}
		if err != nil {
			return appended{}, err
		}
	}
	entries += s.n
	n := float64(max(entries, 1))
	return appended{n / wall.Seconds(), float64(cpu.Microseconds()) / n, float64(mallocs) / n}, errors.Join(ctx.Err(), os.RemoveAll(dir))
}

// processTime is the processor time of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

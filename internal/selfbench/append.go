package selfbench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// AppendOptions are those of Append. Delay is how long a COMMIT takes on the file
// system of another host; 0: files are on this one.
type AppendOptions struct {
	Options
	// Callers are the numbers of processes that live at the same time.
	Callers []int
}

// A process of the table installs files, that is, hashes each and has it stored, and
// appends a line for each to a log that all of them share.
const (
	lifeLines = 4        // files and lines of a process
	lifeFile  = 64 << 10 // length of a file in bytes
)

// life is the log as one process has opened it.
type life interface {
	// line appends a line.
	line(ctx context.Context, r *record) error
	// close returns nil when the lines are in the log.
	close() error
}

// appendWay is one way of having them share it.
type appendWay struct {
	name string
	// serve begins what lives longer than a process; nil: there is nothing.
	serve func(ctx context.Context, p *place, fs vfs.FS, path string) (end func() error, err error)
	// open opens the log for one process; nil: it has none.
	open func(ctx context.Context, p *place, fs vfs.FS, path string) (life, error)
}

// The ways of Append. The ratios are to the first.
var appendWays = [...]appendWay{
	{name: "no log"},
	{name: "lock for each line", open: openLocked(true)},
	{name: "lock for each process", open: openLocked(false)},
	{name: "no lock, a write for each line", open: openLockFree},
	{name: "no lock, whole lines in one write", open: openBatched},
	{name: "through one process (funnel)", serve: serveFunnel, open: openFunnel},
}

// AppendRow is what one way showed with so many processes at a time: the median round
// by its rate.
type AppendRow struct {
	Way     string
	Callers int
	Rate    float64 // lines a second
	ToNone  float64 // the time that takes, in that of no log
}

// Append measures how many files a second processes install that append a line for each
// to one log, and prints the table.
func Append(ctx context.Context, o AppendOptions) (rows []AppendRow, err error) {
	p, err := enter(o.Options, "append")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	p.total = o.Rounds * len(o.Callers) * len(appendWays)
	var lines uint64
	for _, callers := range o.Callers {
		rounds := make([][]*showing, len(appendWays))
		for range o.Rounds {
			for i, way := range appendWays {
				if err := p.next(ctx, fmt.Sprintf("%d processes, %s", callers, way.name)); err != nil {
					return nil, err
				}
				s, err := p.appendOnce(ctx, way, callers)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", way.name, err)
				}
				if way.open != nil {
					lines += s.n()
				}
				rounds[i] = append(rounds[i], s)
			}
		}
		for i, way := range appendWays {
			m := median(rounds[i], func(s *showing) float64 { return s.rate() })
			rows = append(rows, AppendRow{Way: way.name, Callers: callers, Rate: m.rate()})
			rows[len(rows)-1].ToNone = rows[len(rows)-1-i].Rate / m.rate()
		}
	}
	return rows, printAppend(p, rows, lines)
}

// appendOnce runs one round of a way, and looks its lines up.
func (p *place) appendOnce(ctx context.Context, way appendWay, callers int) (s *showing, err error) {
	fs := &remoteFS{SlowFS: p.disk(ctx)}
	path := p.file("log")
	end := func() error { return nil }
	if way.serve != nil {
		if end, err = way.serve(ctx, p, fs, path); err != nil {
			return nil, fmt.Errorf("%w: name another place with --dir", err)
		}
	}
	s, err = p.live(ctx, way, callers, fs, path)
	fs.Hurry(true)
	err = errors.Join(err, end())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case way.open == nil:
		return s, nil
	}
	if err := checkLines(path, s.acked); err != nil {
		return nil, err
	}
	return s, os.Remove(path)
}

// live lets so many processes live at a time, one after the other, at least one each.
func (p *place) live(ctx context.Context, way appendWay, callers int, fs *remoteFS, path string) (*showing, error) {
	s := &showing{acked: make([]uint64, callers)}
	var (
		wg   sync.WaitGroup
		over atomic.Bool
		mu   sync.Mutex // guards errs
		errs error
	)
	stop := context.AfterFunc(ctx, func() { over.Store(true) })
	defer stop()
	began := time.Now()
	for caller := range callers {
		wg.Go(func() {
			r, file := newRecord(caller), make([]byte, lifeFile)
			for s.acked[caller] == 0 || time.Since(began) < p.Duration && !over.Load() {
				if err := p.lifeOf(ctx, way, fs, path, r, file, s.acked[caller]); err != nil {
					over.Store(true)
					mu.Lock()
					defer mu.Unlock()
					errs = errors.Join(errs, err)
					return
				}
				s.acked[caller] += lifeLines
			}
		})
	}
	wg.Wait()
	s.took = time.Since(began)
	return s, errs
}

// lifeOf is the life of one process, whose first record is number from.
func (p *place) lifeOf(ctx context.Context, way appendWay, fs *remoteFS, path string, r *record, file []byte, from uint64) (err error) {
	var log life
	if way.open != nil {
		if log, err = way.open(ctx, p, fs, path); err != nil {
			return err
		}
	}
	for i := range uint64(lifeLines) {
		r.number(from + i)
		install(fs, file)
		if err == nil && log != nil {
			err = log.line(ctx, r)
		}
	}
	if log != nil {
		err = errors.Join(err, log.close())
	}
	return err
}

// install is what a process does for each line: it hashes a file, and on another host's
// file system stores it. (To store it on this one's disk would measure that.)
func install(fs *remoteFS, file []byte) {
	sum := sha256.Sum256(file)
	copy(file, sum[:])
	fs.pause(fs.rpc())
	fs.pause(fs.Sync / commitBacks)
}

func printAppend(p *place, rows []AppendRow, lines uint64) error {
	var t table
	for i, r := range rows {
		if i%len(appendWays) == 0 {
			if i > 0 {
				t.row()
			}
			at := "1 process"
			if r.Callers > 1 {
				at = fmt.Sprintf("%d processes at a time", r.Callers)
			}
			t.row(at, "lines/s", "time to no log")
		}
		t.row(r.Way, fmt.Sprintf("%.0f", r.Rate), ratio(r.ToNone, 1))
	}
	if err := t.print(p.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\na process installs %d files and appends a line for each; %d lines of %d bytes: all of them are in their logs, whole, once and in order\n", lifeLines, lines, recordSize)
	return err
}

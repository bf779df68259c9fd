package selfbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// Window is that of the ways which notify once per window: systemd-journald's.
const Window = 250 * time.Millisecond

const (
	loneLines = 1 // a round
	loneLimit = 30 * time.Second

	quiet       = 50 * time.Millisecond
	quietWindow = 2*Window + quiet // the last window, and one in which nothing is done

	mostLines   = notifyLimit/recordSize - loneLines
	mostEntries = 500000 // the hash table of a file of plainLimit has room for 699,000
)

// notifyWay is one way of appending so that readers learn of it.
type notifyWay struct {
	name  string
	most  uint64        // records that the file has room for, lone lines aside
	quiet time.Duration // after which nothing is owed for what went before
	open  func(fs vfs.FS, path string) (*target, error)
}

// The ways of Notify; the first is the naive one of the program that met the
// problem, the second its cure.
var notifyWays = [...]notifyWay{
	{"map, ftruncate each", mostLines, quiet, func(fs vfs.FS, path string) (*target, error) { return openMapped(fs, path, 0) }},
	{"map, ftruncate a window", mostLines, quietWindow, func(fs vfs.FS, path string) (*target, error) {
		return openMapped(fs, path, Window)
	}},
	{"write each", mostLines, quiet, func(fs vfs.FS, path string) (*target, error) {
		return openWritten(fs, path, nil)
	}},
	{"settled, a window", mostLines, quietWindow, openSettledWindow},
	{"settled, what gathers", mostLines, quiet, openSettledAll},
	{"journal", mostEntries, quietWindow, openJournalWritten},
}

// NotifyRow is what one way showed: the median round by its rate; of the lone
// lines the median of all rounds.
type NotifyRow struct {
	Way           string
	Rate          float64       // appends a second of one caller
	CPU           time.Duration // processor time an append, the reader's included
	Wakes         float64       // of the reader, a second
	Lone          time.Duration // from the append of a line after a quiet time to the reader's wake-up
	P50, P99, Max time.Duration // of an append; Max of all rounds

	all Latencies // of all rounds
}

// Notify measures what it costs to tell readers of each append, and how late
// they learn of a lone one, and prints the table.
func Notify(ctx context.Context, o Options) (rows []NotifyRow, err error) {
	p, err := enter(o, "notify")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	p.total = o.Rounds * len(notifyWays)
	rounds := make([][]notifyRound, len(notifyWays))
	var records uint64
	for range o.Rounds {
		for i, way := range notifyWays {
			if err := p.next(ctx, way.name); err != nil {
				return nil, err
			}
			r, err := p.notifyOnce(ctx, way)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
			records += r.n() + loneLines
			rounds[i] = append(rounds[i], r)
		}
	}
	for i, way := range notifyWays {
		rows = append(rows, notifyRow(way.name, rounds[i]))
	}
	return rows, printNotify(p, rows, records)
}

// notifyRound is one round of one way.
type notifyRound struct {
	*showing
	cpu   time.Duration
	wakes uint64
	lone  []time.Duration
}

// notifyOnce runs one round of a way: a stream of appends, then lone lines.
func (p *place) notifyOnce(ctx context.Context, way notifyWay) (r notifyRound, err error) {
	path := p.file("records")
	disk := &SlowFS{FS: vfs.OS{}, Write: p.Delay, Done: ctx.Done()}
	disk.Hurry(true)
	t, err := way.open(disk, path)
	if err != nil {
		return r, fmt.Errorf("%w: name another place with --dir", err)
	}
	w, err := watch(path)
	if err != nil {
		return r, errors.Join(err, t.close())
	}
	disk.Hurry(false)
	before := cpuTime()
	left := way.most
	r.showing, err = crowd(ctx, 1, p.Duration, new(atomic.Bool), func(ctx context.Context, r *record) error {
		if left == 0 {
			return errEnough
		}
		left--
		return t.put(ctx, r)
	})
	r.cpu, r.wakes = cpuTime()-before, w.wakes.Load()
	if err == nil {
		r.lone, err = lone(ctx, t, w, r.acked[0], way.quiet)
	}
	disk.Hurry(true)
	if err = errors.Join(err, t.close(), w.close()); err != nil {
		return r, err
	}
	if err := t.check([]uint64{r.acked[0] + loneLines}); err != nil {
		return r, err
	}
	return r, os.Remove(path)
}

// lone appends lines from number n on, each after a quiet time, and tells when the
// reader was woken.
func lone(ctx context.Context, t *target, w *watcher, n uint64, quiet time.Duration) (all []time.Duration, err error) {
	r := newRecord(0)
	for i := range uint64(loneLines) {
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.forget()
		r.number(n + i)
		began := time.Now()
		if err := t.put(ctx, r); err != nil {
			return nil, err
		}
		select {
		case at := <-w.woken:
			all = append(all, at.Sub(began))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(loneLimit):
			return nil, fmt.Errorf("inotify does not tell of changes on this file system (waited %s): name another place with --dir", loneLimit)
		}
	}
	return all, nil
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func notifyRow(name string, rounds []notifyRound) NotifyRow {
	m := median(rounds, func(r notifyRound) float64 { return r.rate() })
	row := NotifyRow{
		Way: name, Rate: m.rate(), Wakes: float64(m.wakes) / m.took.Seconds(),
		CPU: m.cpu / time.Duration(max(1, m.n())),
		P50: m.latencies.Quantile(0.5), P99: m.latencies.Quantile(0.99),
	}
	var alone []time.Duration
	for _, r := range rounds {
		alone = append(alone, r.lone...)
		row.all.Merge(&r.latencies)
	}
	slices.Sort(alone)
	row.Lone, row.Max = alone[len(alone)/2], row.all.Max()
	return row
}

func printNotify(p *place, rows []NotifyRow, records uint64) error {
	var t table
	t.row("one caller", "appends/s", "to the first", "CPU an append", "reader woken/s", "p50", "p99", "longest", "lone line seen after")
	for _, r := range rows {
		t.row(r.Way, fmt.Sprintf("%.0f", r.Rate), ratio(r.Rate, rows[0].Rate), short(r.CPU), fmt.Sprintf("%.0f", r.Wakes), short(r.P50), short(r.P99), short(r.Max), short(r.Lone))
	}
	if err := t.print(p.Out); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.Out, "\n  how long appends took, of all rounds, by log2(µs)"); err != nil {
		return err
	}
	if err := printOrders(p, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\n%d records of %d bytes appended: all of them are in their files, whole, once and in order\n", records, recordSize)
	return err
}

// printOrders prints the histograms beside each other, as systemd-journald's
// table of its event loop has them.
func printOrders(p *place, rows []NotifyRow) error {
	var t table
	head := []string{"less than"}
	last := 0
	for _, r := range rows {
		head = append(head, r.Way)
		for order, n := range r.all.orders {
			if n > 0 {
				last = max(last, order)
			}
		}
	}
	t.row(head...)
	for order := range last + 1 {
		cells := []string{fmt.Sprintf("%s (%d)", short(time.Microsecond<<order), order)}
		for _, r := range rows {
			cells = append(cells, fmt.Sprint(r.all.orders[order]))
		}
		t.row(cells...)
	}
	return t.print(p.Out)
}

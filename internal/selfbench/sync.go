package selfbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// SyncOptions are those of Sync.
type SyncOptions struct {
	Options
	// Callers are the numbers of goroutines that append at the same time.
	Callers []int
}

// target is where the records of one round of a way go.
type target struct {
	put   appender
	close func() error
	check func(acked []uint64) error
}

// syncWay is one way of making records durable.
type syncWay struct {
	name string
	open func(fs vfs.FS, path string, over *atomic.Bool) (*target, error)
}

// The ways of Sync, first those of a plain file. The ratios of each kind are to the
// first two of its kind.
var syncWays = [...]syncWay{
	{"file: write", openWritten},
	{"file: lock, write, sync each", openEach},
	{"file: one sync for all who wait", openShared},
	{"journal: appended", journalWay(settle.Appended, false)},
	{"journal: lock, append, sync each", journalWay(settle.Synced, true)},
	{"journal: one sync for all who wait", journalWay(settle.Synced, false)},
}

const perKind = 3 // ways

// SyncRow is what one way showed with so many callers: the median round by its rate,
// and the longest of all rounds.
type SyncRow struct {
	Way           string
	Callers       int
	Rate          float64 // records a second
	ToEach        float64 // Rate in that of a sync each, and
	OfNone        float64 // in that of no sync, of the same kind of file
	P50, P99, Max time.Duration
	PerSync       float64 // records a sync; 0: there were none
}

// Sync measures how many records a second callers get through that wait until
// each is synced, and prints the table.
func Sync(ctx context.Context, o SyncOptions) (rows []SyncRow, err error) {
	p, err := enter(o.Options, "sync")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	p.total = o.Rounds * len(o.Callers) * len(syncWays)
	var records uint64
	for _, callers := range o.Callers {
		rounds := make([][]syncRound, len(syncWays))
		for range o.Rounds {
			for i, way := range syncWays {
				if err := p.next(ctx, fmt.Sprintf("%d callers, %s", callers, way.name)); err != nil {
					return nil, err
				}
				r, err := p.syncOnce(ctx, way, callers)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", way.name, err)
				}
				records += r.n()
				rounds[i] = append(rounds[i], r)
			}
		}
		rows = append(rows, syncRows(callers, rounds)...)
	}
	return rows, printSync(p, rows, records)
}

// syncRound is one round of one way.
type syncRound struct {
	*showing
	syncs uint64
}

// syncOnce runs one round of a way, and looks its records up.
func (p *place) syncOnce(ctx context.Context, way syncWay, callers int) (syncRound, error) {
	disk := p.disk(ctx)
	path := p.file("records")
	over := new(atomic.Bool)
	disk.Hurry(true)
	t, err := way.open(disk, path, over)
	if err != nil {
		return syncRound{}, fmt.Errorf("%w: name another place with --dir", err)
	}
	disk.Hurry(false)
	before := disk.Syncs()
	s, err := crowd(ctx, callers, p.Duration, over, t.put)
	syncs := disk.Syncs() - before
	disk.Hurry(true)
	err = errors.Join(err, t.close())
	if ctx.Err() != nil {
		return syncRound{}, context.Cause(ctx)
	}
	if err == nil {
		err = t.check(s.acked)
	}
	if err != nil {
		return syncRound{}, err
	}
	return syncRound{s, syncs}, os.Remove(path)
}

func syncRows(callers int, rounds [][]syncRound) (rows []SyncRow) {
	for i, way := range syncWays {
		m := median(rounds[i], func(r syncRound) float64 { return r.rate() })
		row := SyncRow{
			Way: way.name, Callers: callers, Rate: m.rate(),
			P50: m.latencies.Quantile(0.5), P99: m.latencies.Quantile(0.99),
		}
		for _, r := range rounds[i] {
			row.Max = max(row.Max, r.latencies.Max())
		}
		if m.syncs > 0 {
			row.PerSync = float64(m.n()) / float64(m.syncs)
		}
		rows = append(rows, row)
	}
	for i := range rows {
		first := i - i%perKind
		rows[i].OfNone = rows[i].Rate / rows[first].Rate
		rows[i].ToEach = rows[i].Rate / rows[first+1].Rate
	}
	return rows
}

func printSync(p *place, rows []SyncRow, records uint64) error {
	var t table
	for i, r := range rows {
		if i%len(syncWays) == 0 {
			if i > 0 {
				t.row()
			}
			t.row(plural(r.Callers, "caller"), "records/s", "to sync each", "of no sync", "p50", "p99", "longest", "records a sync")
		}
		per := "no syncs"
		if r.PerSync > 0 {
			per = fmt.Sprintf("%.1f", r.PerSync)
		}
		t.row(r.Way, fmt.Sprintf("%.0f", r.Rate), ratio(r.ToEach, 1), ratio(r.OfNone, 1), short(r.P50), short(r.P99), short(r.Max), per)
	}
	if err := t.print(p.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\n%d records of %d bytes acknowledged: all of them are in their files, whole, once and in order\n", records, recordSize)
	return err
}

// plainLimit is the length at which a plain file is full.
const plainLimit = 512 << 20

// plain is a file to which records are appended under a lock.
type plain struct {
	vfs.File
	path string
	mu   sync.Mutex
	end  int64 // guarded by mu
}

func openPlain(fs vfs.FS, path string) (*plain, error) {
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &plain{File: f, path: path}, nil
}

// add writes r behind the last record; f.mu is held.
func (f *plain) add(r *record) error {
	if f.end+recordSize > plainLimit {
		return errEnough
	}
	n, err := f.WriteAt(r[:], f.end)
	f.end += int64(n)
	return err
}

func openWritten(fs vfs.FS, path string, _ *atomic.Bool) (*target, error) {
	f, err := openPlain(fs, path)
	if err != nil {
		return nil, err
	}
	put := func(_ context.Context, r *record) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.add(r)
	}
	return &target{put, f.Close, linesOf(f.path)}, nil
}

func openEach(fs vfs.FS, path string, over *atomic.Bool) (*target, error) {
	f, err := openPlain(fs, path)
	if err != nil {
		return nil, err
	}
	put := oneByOne(over, func(_ context.Context, r *record) error {
		if err := f.add(r); err != nil {
			return err
		}
		return f.Datasync()
	})
	return &target{put, f.Close, linesOf(f.path)}, nil
}

// oneByOne lets one caller in after the other. Those whose turn comes when the
// round is over are late, but for the first of all.
func oneByOne(over *atomic.Bool, put appender) appender {
	var turn sync.Mutex
	served := false
	return func(ctx context.Context, r *record) error {
		turn.Lock()
		defer turn.Unlock()
		if served && over.Load() {
			return errLate
		}
		served = true
		return put(ctx, r)
	}
}

func openShared(fs vfs.FS, path string, _ *atomic.Bool) (*target, error) {
	f, err := openPlain(fs, path)
	if err != nil {
		return nil, err
	}
	s := settle.New(func(upTo uint64) (uint64, error) { return upTo, f.Datasync() }, settle.Options{Sticky: true, Gather: settle.GatherForSyncs()})
	put := func(ctx context.Context, r *record) error {
		f.mu.Lock()
		err := f.add(r)
		position := uint64(f.end)
		f.mu.Unlock()
		if err != nil {
			return err
		}
		s.Mark(position)
		return s.Wait(ctx, position)
	}
	return &target{put, func() error { return errors.Join(s.Close(), f.Close()) }, linesOf(f.path)}, nil
}

// journalWay appends to a journal file and waits for level, one by one if alone.
func journalWay(level settle.Level, alone bool) func(vfs.FS, string, *atomic.Bool) (*target, error) {
	return func(fs vfs.FS, path string, over *atomic.Bool) (*target, error) {
		w, err := journal.Create(path, journal.Options{FS: fs, MaxSize: plainLimit})
		if err != nil {
			return nil, err
		}
		put := func(ctx context.Context, r *record) error {
			position, err := appendRecord(ctx, w, r)
			if err != nil {
				return err
			}
			return w.Wait(ctx, position, level)
		}
		if alone {
			put = oneByOne(over, put)
		}
		return &target{put, w.Close, func(acked []uint64) error { return checkJournal(path, acked) }}, nil
	}
}

// appendRecord appends r as the message of an entry.
func appendRecord(ctx context.Context, w *journal.Writer, r *record) (journal.Pos, error) {
	message := append(make([]byte, 0, len("MESSAGE=")+recordSize), "MESSAGE="...)
	e := [1]entry.Entry{{Fields: []entry.Field{append(message, r.text()...), []byte("PRIORITY=6")}}}
	position, _, err := w.Append(ctx, e[:])
	if errors.Is(err, journal.ErrFull) {
		err = errEnough
	}
	return position, err
}

package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/web"
	"github.com/tidemark-log/tidemark/journal"
)

// snapshot is what the stations say of themselves at one moment.
type snapshot struct {
	web.Stats
	store store.Status
	files []journal.Stats // of all stations
	since uint64          // when the oldest unsynced entry came, µs since 1970; 0: there is none
}

// countsRoom is more than there are counts.
const countsRoom = 96

// effectsRoom is for the effects of the journal, the access log and clients' files.
const effectsRoom = 8

// look asks the stations. It waits for nothing that waits for the disk, or for the
// append of a batch.
func (d *daemon) look() *snapshot {
	st, far := d.store.Status(), d.remote.Status()
	s, ok := d.looks.Get().(*snapshot)
	if !ok {
		s = new(snapshot)
		s.Counts = make([]web.Count, 0, countsRoom)
		s.Effects = make([]web.Effect, 0, effectsRoom)
	}
	*s = snapshot{
		store: st, files: slices.Concat(st.Files, far.Files),
		Stats: web.Stats{Version: d.o.Version, Counts: s.Counts[:0], Effects: s.Effects[:0], Turns: s.Turns[:0]},
	}
	s.Syncs, s.SyncErrors = st.Syncs+far.Syncs, st.SyncErrors+far.SyncErrors
	s.Buffer = st.Buffer
	s.Usage, s.Available, s.DiskFull = st.Usage.Bytes, st.Usage.Available, st.Full
	for i := range s.files {
		f := &s.files[i]
		s.Buffered += f.Buffered
		s.Unsynced += f.Unsynced
		s.UnsyncedBytes += f.UnsyncedBytes
		if f.UnsyncedSince != 0 && (s.since == 0 || f.UnsyncedSince < s.since) {
			s.since = f.UnsyncedSince
		}
	}
	if s.since != 0 {
		s.UnsyncedAge = max(0, time.Since(time.UnixMicro(int64(s.since))))
	}
	for _, c := range d.ingest.Counts() {
		s.Counts = append(s.Counts, web.Count{Name: c.Name, Reason: c.Reason, N: c.N})
	}
	s.Counts = append(s.Counts,
		web.Count{Name: "http", Reason: "underscores", N: d.decoded.underscores.Load()},
		web.Count{Name: "http", Reason: "cut_names", N: d.decoded.cut.Load()},
		web.Count{Name: "http", Reason: "null_values", N: d.decoded.null.Load()},
		web.Count{Name: "http", Reason: "too_many_fields", N: d.decoded.tooMany.Load()},
	)
	s.Counts = append(s.Counts,
		web.Count{Name: "varlink", Reason: "entries", N: d.called.entries.Load()},
		web.Count{Name: "varlink", Reason: "level", N: d.called.level.Load()},
	)
	for _, c := range st.Counts {
		s.Counts = append(s.Counts, web.Count{Name: "store", Reason: c.Reason, N: c.N})
	}
	for _, c := range far.Counts {
		s.Counts = append(s.Counts, web.Count{Name: "upload", Reason: c.Reason, N: c.N})
	}
	for _, t := range d.ingest.Turns() {
		s.Turns = append(s.Turns, web.Turn{Name: t.Name, Counts: t.Counts})
	}
	d.lookAtEffects(s)
	d.lookAtAccessLog(s)
	d.lookAtFunnel(s)
	return s
}

// lookAtEffects adds the histograms.
func (d *daemon) lookAtEffects(s *snapshot) {
	effects := func(log string, e *histogram.Effects) {
		s.Effects = append(s.Effects, web.Effect{Log: log, Name: "write", Counts: e.Write.Counts()})
		if log == "journal" {
			s.Effects = append(s.Effects, web.Effect{Log: log, Name: "index", Counts: e.Index.Counts()})
		}
		s.Effects = append(s.Effects, web.Effect{Log: log, Name: "sync", Counts: e.Sync.Counts()})
	}
	effects("journal", &d.effects)
	if d.accessLog != nil {
		effects("access_log", &d.logEffects)
	}
	s.Records = d.effects.Records.Counts()
	s.SyncTime = time.Duration(d.effects.Sync.Counts().Sum) * time.Microsecond
}

// lookAtAccessLog adds what the log of requests says of itself.
func (d *daemon) lookAtAccessLog(s *snapshot) {
	if d.accessLog == nil {
		return
	}
	st := d.accessLog.Stats()
	s.Counts = append(s.Counts,
		web.Count{Name: "access_log", Reason: "dropped", N: st.Dropped},
		web.Count{Name: "access_log", Reason: "lost", N: st.Lost},
		web.Count{Name: "access_log", Reason: "set_aside", N: st.SetAside},
	)
	s.AccessLog = &web.LogStats{
		Lines: st.Lines, Unsynced: st.Unsynced, Syncs: st.Syncs, SyncErrors: st.SyncErrors, Buffered: st.Buffered, Limit: st.Limit,
	}
}

// stats is what /metrics shows, which keeps it.
func (d *daemon) stats() web.Stats { return d.look().Stats }

// Status implements control.Daemon.
func (d *daemon) Status() control.Status {
	s, cfg := d.look(), d.config()
	defer d.looks.Put(s) // nothing of it is in the answer but texts
	st := &s.store
	out := control.Status{
		Version:       s.Version,
		PID:           os.Getpid(),
		Started:       usec(d.started),
		MachineID:     d.machine.String(),
		BootID:        d.boot.String(),
		Data:          st.Dir,
		Run:           d.run,
		Endpoints:     d.endpoints,
		Sync:          cfg.Sync.String(),
		Notify:        cfg.Notify.Microseconds(),
		Nice:          niceNow(),
		Buffer:        s.Buffer,
		Buffered:      s.Buffered,
		ClockSteps:    st.ClockSteps,
		Syncs:         s.Syncs,
		SyncErrors:    s.SyncErrors,
		Unsynced:      s.Unsynced,
		UnsyncedBytes: s.UnsyncedBytes,
		UnsyncedSince: s.since,
		Files:         make([]control.File, 0, len(s.files)),
		Space: control.Space{
			Usage: s.Usage, Limit: st.Usage.Limit, Available: s.Available, Archived: st.Usage.Archived, Prepared: st.Prepared, Full: s.DiskFull,
		},
		Counts:     make([]control.Count, 0, countsRoom),
		Histograms: histograms(s),
	}
	for i := range s.files {
		out.Files = append(out.Files, fileStatus(&s.files[i]))
	}
	lines := web.Count{Name: "funnel", Reason: "lines", N: s.Funnel.Lines}
	for _, counts := range [][]web.Count{s.Counts, {lines}, d.web.Counts()} {
		for _, c := range counts {
			out.Counts = append(out.Counts, control.Count{Name: c.Name, Reason: c.Reason, N: c.N})
		}
	}
	return out
}

// fileStatus is one file of a Status.
func fileStatus(f *journal.Stats) control.File {
	file := control.File{
		Path: f.Path, Entries: f.Entries, Bytes: f.Bytes, Unwritten: f.Buffered, Unsynced: f.Unsynced,
		Fill: int(f.Fill * 100), SeqnumID: f.SeqnumID.String(), TailSeqnum: f.TailSeqnum,
		HeadRealtime: f.HeadRealtime, TailRealtime: f.TailRealtime,
	}
	if err := errors.Join(f.WriteErr, f.SyncErr); err != nil {
		file.Error = err.Error()
	}
	return file
}

// histograms are those of a Status, without the ones that have counted nothing.
func histograms(s *snapshot) []control.Histogram {
	list := make([]control.Histogram, 0, len(s.Effects)+len(s.Turns)+1)
	add := func(name, unit string, c *histogram.Counts) {
		n := histogram.Orders
		for n > 0 && c.N[n-1] == 0 {
			n--
		}
		if n > 0 {
			list = append(list, control.Histogram{Name: name, Unit: unit, Counts: slices.Clone(c.N[:n]), Sum: c.Sum})
		}
	}
	const us = "µs"
	for i := range s.Effects {
		e := &s.Effects[i]
		name := e.Name
		if e.Log != "journal" {
			name = e.Log + " " + name
		}
		add(name, us, &e.Counts)
	}
	for i := range s.Turns {
		add("turn "+s.Turns[i].Name, us, &s.Turns[i].Counts)
	}
	add("records", "records", &s.Records)
	return list
}

// errDiskFull is what /readyz says.
var errDiskFull = errors.New("the disk is full: entries wait or are refused")

// ready is what /readyz asks.
func (d *daemon) ready() error {
	st := d.store.Status()
	if st.Full {
		return errDiskFull
	}
	if st.Failing != nil {
		return fmt.Errorf("writes fail and are tried again: %w", st.Failing)
	}
	return nil
}

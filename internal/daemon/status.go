package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/remote"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/web"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// snapshot is what the stations say of themselves at one moment.
type snapshot struct {
	web.Stats
	store store.Status
	far   remote.Status
	files []journal.Stats // of all stations
	since uint64          // when the oldest unsynced entry came, µs since 1970; 0: there is none

	accessLog web.LogStats
	funnel    web.FunnelStats

	// Texts of what seldom changes.
	machine, boot, sequence idText
	policy                  settle.Policy
	policyText              string
}

// idText is the text of an ID, kept as long as it is the same.
type idText struct {
	id   entry.ID
	text string
}

func (t *idText) of(id entry.ID) string {
	if t.text == "" || t.id != id {
		t.id, t.text = id, id.String()
	}
	return t.text
}

// look asks the stations. It waits for nothing that waits for the disk, or for the
// append of a batch, and allocates nothing in the long run: what is garbage is paid for
// by the appends of a flood, too.
func (d *daemon) look() *snapshot {
	s, ok := d.looks.Get().(*snapshot)
	if !ok {
		s = new(snapshot)
	}
	st, far := &s.store, &s.far
	d.store.Look(st)
	d.remote.Look(far)
	s.files = append(append(s.files[:0], st.Files...), far.Files...)
	s.since = 0
	s.Stats = web.Stats{Version: d.o.Version, Counts: s.Counts[:0], Effects: s.Effects[:0], Turns: s.Turns[:0]}
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
	d.ingest.EachCount(func(c ingest.Count) {
		s.Counts = append(s.Counts, web.Count{Name: c.Name, Reason: c.Reason, N: c.N})
	})
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
	d.ingest.EachTurn(func(t ingest.Turn) {
		s.Turns = append(s.Turns, web.Turn{Name: t.Name, Counts: t.Counts})
	})
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
	s.accessLog = web.LogStats{
		Lines: st.Lines, Unsynced: st.Unsynced, Syncs: st.Syncs, SyncErrors: st.SyncErrors, Buffered: st.Buffered, Limit: st.Limit,
	}
	s.AccessLog = &s.accessLog
}

// stats is what /metrics shows, which keeps it.
func (d *daemon) stats() web.Stats { return d.look().Stats }

// Look implements control.Daemon.
func (d *daemon) Look(out *control.Status) {
	s, cfg := d.look(), d.cfg.Load()
	defer d.looks.Put(s) // nothing of it is in the answer but texts
	st := &s.store
	if s.policyText == "" || s.policy != cfg.Sync {
		s.policy, s.policyText = cfg.Sync, cfg.Sync.String()
	}
	*out = control.Status{
		Version:       s.Version,
		PID:           os.Getpid(),
		Started:       usec(d.started),
		MachineID:     s.machine.of(d.machine),
		BootID:        s.boot.of(d.boot),
		Data:          st.Dir,
		Run:           d.run,
		Endpoints:     d.endpoints,
		Sync:          s.policyText,
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
		Files:         out.Files[:0],
		Space: control.Space{
			Usage: s.Usage, Limit: st.Usage.Limit, Available: s.Available, Archived: st.Usage.Archived, Prepared: st.Prepared, Full: s.DiskFull,
		},
		Counts:     out.Counts[:0],
		Histograms: appendHistograms(out.Histograms[:0], s),
	}
	for i := range s.files {
		out.Files = append(out.Files, s.fileStatus(&s.files[i]))
	}
	add := func(c web.Count) {
		out.Counts = append(out.Counts, control.Count{Name: c.Name, Reason: c.Reason, N: c.N})
	}
	for _, c := range s.Counts {
		add(c)
	}
	add(web.Count{Name: "funnel", Reason: "lines", N: s.Funnel.Lines})
	d.web.EachCount(add)
}

// fileStatus is one file of a Status.
func (s *snapshot) fileStatus(f *journal.Stats) control.File {
	file := control.File{
		Path: f.Path, Entries: f.Entries, Bytes: f.Bytes, Unwritten: f.Buffered, Unsynced: f.Unsynced,
		Fill: int(f.Fill * 100), SeqnumID: s.sequence.of(f.SeqnumID), TailSeqnum: f.TailSeqnum,
		HeadRealtime: f.HeadRealtime, TailRealtime: f.TailRealtime,
	}
	if f.WriteErr != nil || f.SyncErr != nil {
		file.Error = errors.Join(f.WriteErr, f.SyncErr).Error()
	}
	return file
}

// appendHistograms appends those of a Status, without the ones that have counted nothing.
// It uses again what lies behind list.
func appendHistograms(list []control.Histogram, s *snapshot) []control.Histogram {
	add := func(name, unit string, c *histogram.Counts) {
		n := histogram.Orders
		for n > 0 && c.N[n-1] == 0 {
			n--
		}
		if n > 0 {
			list = slices.Grow(list, 1)[:len(list)+1]
			h := &list[len(list)-1]
			*h = control.Histogram{Name: name, Unit: unit, Counts: append(h.Counts[:0], c.N[:n]...), Sum: c.Sum}
		}
	}
	const us = "µs"
	for i := range s.Effects {
		e := &s.Effects[i]
		add(effectName(e.Log, e.Name), us, &e.Counts)
	}
	for i := range s.Turns {
		add(turnName(s.Turns[i].Name), us, &s.Turns[i].Counts)
	}
	add("records", "records", &s.Records)
	return list
}

// effectName is that of a histogram; these few are written out, so that none is made
// for each status.
func effectName(log, name string) string {
	switch [2]string{log, name} {
	case [2]string{"access_log", "write"}:
		return "access_log write"
	case [2]string{"access_log", "sync"}:
		return "access_log sync"
	case [2]string{"funnel", "write"}:
		return "funnel write"
	case [2]string{"funnel", "sync"}:
		return "funnel sync"
	}
	return name // of a journal
}

// turnName is that of a histogram.
func turnName(name string) string {
	switch name {
	case "native":
		return "turn native"
	case "syslog":
		return "turn syslog"
	case "stdout":
		return "turn stdout"
	case "kmsg":
		return "turn kmsg"
	}
	return "turn " + name
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

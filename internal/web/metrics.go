package web

import (
	"net/http"
	"time"

	"github.com/tidemark-log/tidemark/internal/histogram"
)

// Count tells how often something happened on a path into the daemon. The
// reason "entries" counts entries taken, "bytes" their bytes; any other reason
// is one for which something was dropped, refused or changed.
type Count struct {
	Name, Reason string
	N            uint64
}

// Stats is the state of the daemon as metrics show it.
type Stats struct {
	Version string
	// Counts of the other doors and stations.
	Counts []Count
	// Syncs counts the syncs of all journal files since the start, SyncErrors those
	// that failed.
	Syncs, SyncErrors uint64
	// SyncTime is what all syncs took together.
	SyncTime time.Duration
	// Unsynced counts the entries that are appended or accepted and not synced.
	Unsynced uint64
	// UnsyncedBytes is how much they are at most, UnsyncedAge since when the oldest
	// waits.
	UnsyncedBytes uint64
	UnsyncedAge   time.Duration
	// Buffered and Buffer are what is accepted and not written, and its bound, in
	// bytes.
	Buffered, Buffer int64
	// Usage and Available are the bytes that journal files take and that are left.
	Usage, Available uint64
	// DiskFull: entries wait or are refused for lack of space.
	DiskFull bool
	// Effects is how long what appends owe takes, in µs.
	Effects []Effect
	// Records is how many records each sync of a journal file has made safe.
	Records histogram.Counts
	// Turns is how long the loops that read sockets take from a wake-up until all
	// that came is handed over, in µs, by path.
	Turns []Turn
	// AccessLog is the log of requests. Nil: there is none.
	AccessLog *LogStats
	// Funnel is what writes the files of clients. Nil: there is none.
	Funnel *FunnelStats
}

// Effect is one kind of side effect (write, index, sync) of one kind of log
// (journal, access_log, funnel).
type Effect struct {
	Log, Name string
	histogram.Counts
}

// Turn is one loop.
type Turn struct {
	Name string
	histogram.Counts
}

// LogStats is the state of a text log: see linelog.Stats.
type LogStats struct {
	Lines, Unsynced, Syncs, SyncErrors uint64
	Buffered, Limit                    int64
}

// FunnelStats is the state of all files of clients: see funnel.Stats.
type FunnelStats struct {
	Files, Clients int
	LogStats
}

// metrics serves the state of the server and what it is told, in the text format
// of Prometheus.
func (s *Server) metrics() http.Handler {
	c := &collector{server: s, d: newDescs()}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", expositionType)
		_, _ = w.Write(c.exposition().text()) // who asked has gone
	})
}

// descs describes every metric once.
type descs struct {
	info, entries, bytes, refused, events, syncs, syncErrors, syncSeconds,
	unsynced, unsyncedBytes, unsyncedAge, buffered, buffer, usage, available, full,
	effects, records, turns,
	logLines, logUnsynced, logSyncs, logSyncErrors, logBuffered, logBuffer,
	funnelFiles, funnelClients, funnelLines, funnelUnsynced, funnelSyncs, funnelSyncErrors, funnelBuffered *desc
}

func newDescs() descs {
	desc := func(name, help string, labels ...string) *desc {
		return &desc{name: "tidemark_" + name, help: help, labels: labels}
	}
	return descs{
		info:          desc("info", "Version of the daemon.", "version"),
		entries:       desc("entries_total", "Entries taken, by the path they came on.", "transport"),
		bytes:         desc("received_bytes_total", "Bytes of the entries taken, by the path they came on.", "transport"),
		refused:       desc("refused_total", "Entries, fields or messages dropped, refused or changed, by path and reason.", "transport", "reason"),
		events:        desc("events_total", "What else happened, and is no loss, by part and event.", "part", "event"),
		syncs:         desc("syncs_total", "Syncs of journal files."),
		syncErrors:    desc("sync_errors_total", "Syncs that failed."),
		syncSeconds:   desc("sync_seconds_total", "Time spent in syncs."),
		unsynced:      desc("unsynced_entries", "Entries not yet on stable storage."),
		unsyncedBytes: desc("unsynced_bytes", "Bytes of journal files not yet on stable storage."),
		unsyncedAge:   desc("unsynced_age_seconds", "How long the oldest entry has been waiting for a sync."),
		buffered:      desc("buffer_bytes", "Bytes accepted and not yet written."),
		buffer:        desc("buffer_limit_bytes", "Bound of the buffer."),
		usage:         desc("journal_bytes", "Space that journal files take."),
		available:     desc("available_bytes", "Space left on the file system of the journal."),
		full:          desc("disk_full", "1 while entries wait or are refused for lack of space."),
		effects:       desc("effect_duration_seconds", "Duration of what appends owe, by log and effect, failed ones included.", "log", "effect"),
		records:       desc("sync_records", "Records that a sync of a journal file has made safe."),
		turns:         desc("turn_duration_seconds", "From the wake-up of a loop that reads a socket until all that came is handed over.", "transport"),
		logLines:      desc("access_log_lines_total", "Lines taken for the access log."),
		logUnsynced:   desc("access_log_unsynced_lines", "Lines of the access log not yet on stable storage."),
		logSyncs:      desc("access_log_syncs_total", "Syncs of the access log."),
		logSyncErrors: desc("access_log_sync_errors_total", "Syncs of the access log that failed."),
		logBuffered:   desc("access_log_buffer_bytes", "Bytes for the access log accepted and not yet written."),
		logBuffer:     desc("access_log_buffer_limit_bytes", "Bound of the access log's buffer."),

		funnelFiles:      desc("funnel_files", "Files of clients that are open."),
		funnelClients:    desc("funnel_clients", "Clients that use them."),
		funnelLines:      desc("funnel_lines_total", "Lines taken for files of clients."),
		funnelUnsynced:   desc("funnel_unsynced_lines", "Lines of clients not yet on stable storage."),
		funnelSyncs:      desc("funnel_syncs_total", "Syncs of files of clients."),
		funnelSyncErrors: desc("funnel_sync_errors_total", "Syncs of files of clients that failed."),
		funnelBuffered:   desc("funnel_buffer_bytes", "Bytes for files of clients accepted and not yet written."),
	}
}

// all lists the descriptions.
func (d *descs) all() []*desc {
	return []*desc{
		d.info, d.entries, d.bytes, d.refused, d.events, d.syncs, d.syncErrors, d.syncSeconds,
		d.unsynced, d.unsyncedBytes, d.unsyncedAge, d.buffered, d.buffer, d.usage, d.available, d.full,
		d.effects, d.records, d.turns,
		d.logLines, d.logUnsynced, d.logSyncs, d.logSyncErrors, d.logBuffered, d.logBuffer,
		d.funnelFiles, d.funnelClients, d.funnelLines, d.funnelUnsynced, d.funnelSyncs, d.funnelSyncErrors, d.funnelBuffered,
	}
}

// collector turns a snapshot into metrics at every scrape.
type collector struct {
	server *Server
	d      descs
}

// exposition returns the metrics of now.
func (c *collector) exposition() *exposition {
	x := &exposition{}
	c.collect(x)
	return x
}

func (c *collector) collect(x *exposition) {
	c.server.EachCount(func(n Count) { c.count(x, n) })
	if c.server.cfg.Stats == nil {
		return
	}
	st := c.server.cfg.Stats()
	for _, n := range st.Counts {
		c.count(x, n)
	}
	x.put(c.d.info, gauge, 1, st.Version)
	c.numbers(x, &st)
	for _, e := range st.Effects {
		durations(x, c.d.effects, e.Counts, e.Log, e.Name)
	}
	for _, t := range st.Turns {
		durations(x, c.d.turns, t.Counts, t.Name)
	}
	spread(x, c.d.records, st.Records, recordOrders, func(order int) float64 { return float64(histogram.Last(order)) }, float64(st.Records.Sum))
}

// numbers are the metrics without labels.
func (c *collector) numbers(x *exposition, st *Stats) {
	put := func(k kind, d *desc, v float64) { x.put(d, k, v) }
	put(counter, c.d.syncs, float64(st.Syncs))
	put(counter, c.d.syncErrors, float64(st.SyncErrors))
	put(counter, c.d.syncSeconds, st.SyncTime.Seconds())
	put(gauge, c.d.unsynced, float64(st.Unsynced))
	put(gauge, c.d.unsyncedBytes, float64(st.UnsyncedBytes))
	put(gauge, c.d.unsyncedAge, st.UnsyncedAge.Seconds())
	put(gauge, c.d.buffered, float64(st.Buffered))
	put(gauge, c.d.buffer, float64(st.Buffer))
	put(gauge, c.d.usage, float64(st.Usage))
	put(gauge, c.d.available, float64(st.Available))
	full := 0.0
	if st.DiskFull {
		full = 1
	}
	put(gauge, c.d.full, full)
	if l := st.AccessLog; l != nil {
		put(counter, c.d.logLines, float64(l.Lines))
		put(gauge, c.d.logUnsynced, float64(l.Unsynced))
		put(counter, c.d.logSyncs, float64(l.Syncs))
		put(counter, c.d.logSyncErrors, float64(l.SyncErrors))
		put(gauge, c.d.logBuffered, float64(l.Buffered))
		put(gauge, c.d.logBuffer, float64(l.Limit))
	}
	if f := st.Funnel; f != nil {
		put(gauge, c.d.funnelFiles, float64(f.Files))
		put(gauge, c.d.funnelClients, float64(f.Clients))
		put(counter, c.d.funnelLines, float64(f.Lines))
		put(gauge, c.d.funnelUnsynced, float64(f.Unsynced))
		put(counter, c.d.funnelSyncs, float64(f.Syncs))
		put(counter, c.d.funnelSyncErrors, float64(f.SyncErrors))
		put(gauge, c.d.funnelBuffered, float64(f.Buffered))
	}
}

// How many orders have a bucket of their own; what is above is in that of infinity:
// durations of 2^26 µs (67 s), syncs of a million records.
const (
	durationOrders = 26
	recordOrders   = 20
)

// durations is a histogram of µs, in seconds.
func durations(x *exposition, d *desc, c histogram.Counts, labels ...string) {
	const second = 1e6
	// Counted are whole µs: what is in an order took less than the next begins with.
	bound := func(order int) float64 { return float64(histogram.Last(order)+1) / second }
	spread(x, d, c, durationOrders, bound, float64(c.Sum)/second, labels...)
}

// spread is a histogram with buckets up to the bound of each order, and the sum of
// all values.
func spread(x *exposition, d *desc, c histogram.Counts, orders int, bound func(order int) float64, sum float64, labels ...string) {
	bounds, counts := make([]float64, orders), make([]uint64, orders)
	n := uint64(0)
	for i := range orders {
		n += c.N[i]
		bounds[i], counts[i] = bound(i), n
	}
	x.histogram(d, bounds, counts, c.Total(), sum, labels...)
}

func (c *collector) count(x *exposition, n Count) {
	switch n.Reason {
	case "entries":
		x.put(c.d.entries, counter, float64(n.N), n.Name)
	case "bytes":
		x.put(c.d.bytes, counter, float64(n.N), n.Name)
	case "streams", "lookups", "rotation", "removed_file", "clock_step", "read_back":
		x.put(c.d.events, counter, float64(n.N), n.Name, n.Reason)
	default:
		x.put(c.d.refused, counter, float64(n.N), n.Name, n.Reason)
	}
}

package web

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	// Syncs counts the syncs of all files since the start, SyncErrors those that
	// failed.
	Syncs, SyncErrors uint64
	// SyncSeconds is the time all syncs took together.
	SyncSeconds float64
	// Unsynced counts the entries that are appended or accepted and not synced.
	Unsynced uint64
	// Buffered and Buffer are what is accepted and not written, and its bound, in
	// bytes.
	Buffered, Buffer int64
	// Usage and Available are the bytes that journal files take and that are left.
	Usage, Available uint64
	// DiskFull: entries wait or are refused for lack of space.
	DiskFull bool
}

// metrics serves the server's own registry.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{server: s, d: newDescs()})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// descs describes every metric once.
type descs struct {
	info, entries, bytes, refused, syncs, syncErrors, syncSeconds,
	unsynced, buffered, buffer, usage, available, full *prometheus.Desc
}

func newDescs() descs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tidemark_"+name, help, labels, nil)
	}
	return descs{
		info:        desc("info", "Version of the daemon.", "version"),
		entries:     desc("entries_total", "Entries taken, by the path they came on.", "transport"),
		bytes:       desc("received_bytes_total", "Bytes of the entries taken, by the path they came on.", "transport"),
		refused:     desc("refused_total", "Entries, fields or messages dropped, refused or changed, by path and reason.", "transport", "reason"),
		syncs:       desc("syncs_total", "Syncs of journal files."),
		syncErrors:  desc("sync_errors_total", "Syncs that failed."),
		syncSeconds: desc("sync_seconds_total", "Time spent in syncs."),
		unsynced:    desc("unsynced_entries", "Entries not yet on stable storage."),
		buffered:    desc("buffer_bytes", "Bytes accepted and not yet written."),
		buffer:      desc("buffer_limit_bytes", "Bound of the buffer."),
		usage:       desc("journal_bytes", "Space that journal files take."),
		available:   desc("available_bytes", "Space left on the file system of the journal."),
		full:        desc("disk_full", "1 while entries wait or are refused for lack of space."),
	}
}

// collector turns a snapshot into metrics at every scrape.
type collector struct {
	server *Server
	d      descs
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.d.info, c.d.entries, c.d.bytes, c.d.refused, c.d.syncs, c.d.syncErrors, c.d.syncSeconds,
		c.d.unsynced, c.d.buffered, c.d.buffer, c.d.usage, c.d.available, c.d.full,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, n := range c.server.Counts() {
		c.count(ch, n)
	}
	if c.server.cfg.Stats == nil {
		return
	}
	st := c.server.cfg.Stats()
	for _, n := range st.Counts {
		c.count(ch, n)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	ch <- prometheus.MustNewConstMetric(c.d.info, prometheus.GaugeValue, 1, st.Version)
	counter(c.d.syncs, float64(st.Syncs))
	counter(c.d.syncErrors, float64(st.SyncErrors))
	counter(c.d.syncSeconds, st.SyncSeconds)
	gauge(c.d.unsynced, float64(st.Unsynced))
	gauge(c.d.buffered, float64(st.Buffered))
	gauge(c.d.buffer, float64(st.Buffer))
	gauge(c.d.usage, float64(st.Usage))
	gauge(c.d.available, float64(st.Available))
	full := 0.0
	if st.DiskFull {
		full = 1
	}
	gauge(c.d.full, full)
}

func (c *collector) count(ch chan<- prometheus.Metric, n Count) {
	switch n.Reason {
	case "entries":
		ch <- prometheus.MustNewConstMetric(c.d.entries, prometheus.CounterValue, float64(n.N), n.Name)
	case "bytes":
		ch <- prometheus.MustNewConstMetric(c.d.bytes, prometheus.CounterValue, float64(n.N), n.Name)
	default:
		ch <- prometheus.MustNewConstMetric(c.d.refused, prometheus.CounterValue, float64(n.N), n.Name, n.Reason)
	}
}

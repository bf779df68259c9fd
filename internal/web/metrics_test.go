package web

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tidemark-log/tidemark/internal/histogram"
)

func TestMetrics(t *testing.T) {
	var effect, records histogram.Histogram
	for _, us := range []uint64{1, 3, 3, 1000, 1 << 30} {
		effect.Add(us)
	}
	for _, n := range []uint64{1, 2, 3, 4} {
		records.Add(n)
	}
	cfg := config(&fakeSink{})
	cfg.Stats = func() Stats {
		return Stats{
			Version: "v9", Syncs: 3, SyncErrors: 1, SyncTime: time.Second / 2, Unsynced: 7, UnsyncedBytes: 700, UnsyncedAge: 1500 * time.Millisecond, Buffered: 8, Buffer: 64, Usage: 9, Available: 10, DiskFull: true,
			Counts:  []Count{{"native", "entries", 5}, {"native", "bad_name", 2}},
			Effects: []Effect{{"journal", "sync", effect.Counts()}, {"access_log", "write", histogram.Counts{}}},
			Records: records.Counts(), Turns: []Turn{{"native", effect.Counts()}},
			AccessLog: &LogStats{Lines: 11, Unsynced: 12, Syncs: 13, SyncErrors: 14, Buffered: 15, Limit: 16},
			Funnel:    &FunnelStats{Files: 21, Clients: 22, LogStats: LogStats{Lines: 23, Unsynced: 24, Syncs: 25, SyncErrors: 26, Buffered: 27}},
		}
	}
	s := New(cfg)
	r := httptest.NewRequest("POST", "http://localhost/ingest", strings.NewReader("{ab}\nx"))
	r.Header.Set("Content-Type", "application/x-ndjson")
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/metrics", nil))
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	// Prometheus's own parser reads it, and finds nothing to complain of.
	if problems, err := promlint.New(strings.NewReader(w.Body.String())).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	for _, family := range []string{
		`# HELP tidemark_buffer_bytes Bytes accepted and not yet written.
# TYPE tidemark_buffer_bytes gauge
tidemark_buffer_bytes 8
`, `# HELP tidemark_disk_full 1 while entries wait or are refused for lack of space.
# TYPE tidemark_disk_full gauge
tidemark_disk_full 1
`, `# HELP tidemark_entries_total Entries taken, by the path they came on.
# TYPE tidemark_entries_total counter
tidemark_entries_total{transport="http"} 1
tidemark_entries_total{transport="native"} 5
`, `# HELP tidemark_received_bytes_total Bytes of the entries taken, by the path they came on.
# TYPE tidemark_received_bytes_total counter
tidemark_received_bytes_total{transport="http"} 4
`, `# HELP tidemark_unsynced_entries Entries not yet on stable storage.
# TYPE tidemark_unsynced_entries gauge
tidemark_unsynced_entries 7
`,
	} {
		if !strings.Contains(w.Body.String(), family) {
			t.Errorf("/metrics lacks\n%s", family)
		}
	}
	for _, line := range []string{
		`tidemark_refused_total{reason="bad_name",transport="native"} 2`,
		`tidemark_refused_total{reason="bad_line",transport="http"} 1`, `tidemark_sync_seconds_total 0.5`,
		`tidemark_unsynced_bytes 700`, `tidemark_unsynced_age_seconds 1.5`, `tidemark_buffer_limit_bytes 64`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="2e-06"} 1`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="4e-06"} 3`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="0.000512"} 3`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="0.001024"} 4`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="67.108864"} 4`,
		`tidemark_effect_duration_seconds_bucket{effect="sync",log="journal",le="+Inf"} 5`,
		`tidemark_effect_duration_seconds_sum{effect="sync",log="journal"} 1073.742831`,
		`tidemark_effect_duration_seconds_count{effect="sync",log="journal"} 5`,
		`tidemark_effect_duration_seconds_count{effect="write",log="access_log"} 0`,
		`tidemark_turn_duration_seconds_count{transport="native"} 5`,
		`tidemark_sync_records_bucket{le="1"} 1`, `tidemark_sync_records_bucket{le="3"} 3`, `tidemark_sync_records_bucket{le="7"} 4`,
		`tidemark_sync_records_sum 10`,
		`tidemark_access_log_lines_total 11`, `tidemark_access_log_unsynced_lines 12`, `tidemark_access_log_syncs_total 13`,
		`tidemark_access_log_sync_errors_total 14`, `tidemark_access_log_buffer_bytes 15`, `tidemark_access_log_buffer_limit_bytes 16`,
		`tidemark_funnel_files 21`, `tidemark_funnel_clients 22`, `tidemark_funnel_lines_total 23`, `tidemark_funnel_unsynced_lines 24`,
		`tidemark_funnel_syncs_total 25`, `tidemark_funnel_sync_errors_total 26`, `tidemark_funnel_buffer_bytes 27`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
}

// TestMetricsAreDocumented looks for every metric and reason of the door.
func TestMetricsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/PROTOCOLS.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	d := newDescs()
	for _, d := range d.all() {
		name := d.name
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+"{") {
			t.Errorf("docs/PROTOCOLS.md does not mention %s", name)
		}
	}
	New(config(&fakeSink{})).EachCount(func(c Count) {
		if !strings.Contains(page, "`"+c.Reason+"`") {
			t.Errorf("docs/PROTOCOLS.md does not mention the reason %s", c.Reason)
		}
	})
}

// The text is Prometheus's, whatever stands in a label.
func TestExposition(t *testing.T) {
	x := &exposition{}
	n := &desc{name: "n_total", help: "N.", labels: []string{"z", "a"}}
	x.put(n, counter, 1e6, "2", "say \"hi\"\\\n")
	x.put(&desc{name: "g", help: "G."}, gauge, 0.25)
	x.put(n, counter, 3, "1", "b")
	x.histogram(&desc{name: "h", help: "H."}, []float64{0.5, 2}, []uint64{1, 3}, 4, 7.5)
	const want = `# HELP g G.
# TYPE g gauge
g 0.25
# HELP h H.
# TYPE h histogram
h_bucket{le="0.5"} 1
h_bucket{le="2"} 3
h_bucket{le="+Inf"} 4
h_sum 7.5
h_count 4
# HELP n_total N.
# TYPE n_total counter
n_total{a="b",z="1"} 3
n_total{a="say \"hi\"\\\n",z="2"} 1e+06
`
	if got := string(x.text()); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(want))
	if err != nil || len(families) != 3 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	if l := families["n_total"].GetMetric()[1].GetLabel()[0]; l.GetValue() != "say \"hi\"\\\n" {
		t.Errorf("label %q", l.GetValue())
	}
}

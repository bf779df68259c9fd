package daemon

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
)

// histogram is the sum of the counts of one histogram of a status; 0 when it has
// none of that name.
func histogramTotal(st control.Status, name string) (n uint64) {
	for _, h := range st.Histograms {
		if h.Name == name {
			for _, k := range h.Counts {
				n += k
			}
		}
	}
	return n
}

// TestEffectsAreSpread: what appends owe is counted by what it took, for journal
// files and for the access log, in the status and for Prometheus.
func TestEffectsAreSpread(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Sync=auto\nAccessLog="+filepath.Join(t.TempDir(), "access.log")+"\nAccessLogSync=all\n")
	r := start(t, p)
	post(t, url(r.lines), "appended", `{"message":"one"}`)
	st := r.daemon.Status()
	if st.Unsynced == 0 || st.UnsyncedBytes == 0 || st.UnsyncedSince < st.Started {
		t.Errorf("after an append: %d entries, %d bytes, since %d", st.Unsynced, st.UnsyncedBytes, st.UnsyncedSince)
	}
	post(t, url(r.lines), "synced", `{"message":"two"}`)
	command(t, p, control.MethodSynchronize)
	st = r.daemon.Status()
	if st.Unsynced != 0 || st.UnsyncedBytes != 0 || st.UnsyncedSince != 0 {
		t.Errorf("after Synchronize: %d entries, %d bytes, since %d", st.Unsynced, st.UnsyncedBytes, st.UnsyncedSince)
	}
	for _, name := range []string{"write", "sync", "records", "access_log write", "access_log sync"} {
		if histogramTotal(st, name) == 0 {
			t.Errorf("no %s is counted in %+v", name, st.Histograms)
		}
	}
	if n := histogramTotal(st, "sync"); n != st.Syncs {
		t.Errorf("%d syncs, %d in the histogram", st.Syncs, n)
	}
	i := slices.IndexFunc(st.Histograms, func(h control.Histogram) bool { return h.Name == "records" })
	entries := uint64(0)
	for _, f := range st.Files {
		entries += f.Entries
	}
	if got := st.Histograms[i].Sum; got != entries {
		t.Errorf("syncs have made %d records safe, the files have %d", got, entries)
	}
	page := get(t, url(r.lines)+"metrics")
	for _, want := range []string{
		`tidemark_effect_duration_seconds_count{effect="sync",log="journal"} `, `tidemark_effect_duration_seconds_count{effect="sync",log="access_log"} `,
		"tidemark_sync_records_count ", "tidemark_access_log_lines_total 2\n", "tidemark_unsynced_age_seconds 0\n",
	} {
		if !strings.Contains(page, want) || strings.Contains(page, want+"0\n") {
			t.Errorf("/metrics lacks %s: %s", want, page)
		}
	}
}

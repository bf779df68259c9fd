package main

import (
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/web"
)

// TestCountsHaveWords: whatever the daemon can count is said in words.
func TestCountsHaveWords(t *testing.T) {
	for _, c := range new(ingest.Ingest).Counts() {
		if _, ok := countWords(c.Name, c.Reason); !ok {
			t.Errorf("%s %s has no words", c.Name, c.Reason)
		}
	}
	for _, c := range web.New(web.Config{}).Counts() {
		if _, ok := countWords(c.Name, c.Reason); !ok && c.Reason != "bytes" {
			t.Errorf("%s %s has no words", c.Name, c.Reason)
		}
	}
}

func TestPrintStatus(t *testing.T) {
	st := control.Status{
		Version: "1.2", PID: 7, Data: "/d", Endpoints: []control.Endpoint{{Protocol: "native", Address: "/r/socket"}, {Protocol: "http", Address: "http://h/"}},
		Sync: "auto", Syncs: 13, SyncErrors: 2, Notify: 250_000, Buffer: 64 << 20, Buffered: 216, ClockSteps: 1,
		Space: control.Space{Usage: 16 << 20, Limit: 4 << 30, Available: 1536, Archived: 3, Prepared: 1, Full: true},
		Files: []control.File{
			{Path: "/d/system@0-1-2.journal", Entries: 2, Bytes: 8 << 20, Fill: 75},
			{Path: "/d/system.journal", Entries: 1, Bytes: 1 << 20, Unsynced: 1, Unwritten: 216, Error: "disk on fire"},
		},
		Counts: []control.Count{
			{Name: "native", Reason: "entries", N: 1},
			{Name: "native", Reason: "level", N: 2},
			{Name: "native", Reason: "empty"},
			{Name: "http", Reason: "bytes", N: 2048},
			{Name: "store", Reason: "disk_full", N: 1},
			{Name: "new", Reason: "some_reason", N: 3},
		},
	}
	var out strings.Builder
	if err := printStatus(&out, &st); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tidemark          1.2, pid 7, up since ",
		"listens           native: /r/socket\n                  http: http://h/\n",
		"syncs             13 since the start, 2 failed\n",
		"notify            250ms: ",
		"buffer            216 bytes of 64.0 MiB wait to be written\n",
		"space             16.0 MiB used, 4.0 GiB allowed, 1.5 KiB available\n                  THE DISK IS FULL: ",
		"clock             stepped back once: ",
		"files             1 current, 1 on the way to the archive, 3 archived, 1 prepared\n",
		"  system@…        2 entries in 8.0 MiB, 75% full; all synced, all written\n",
		"  system.journal  1 entry in 1.0 MiB, 0% full; 1 entry not synced yet, 216 bytes not written yet\n                  FAILED: disk on fire\n",
		"native            1 entry taken\n",
		"native            2 messages dropped: above MaxLevelStore, or their unit's LogLevelMax\n",
		"http              2.0 KiB of accepted lines\n",
		"store             1 time a write met a full disk\n",
		"new               3 some reason\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

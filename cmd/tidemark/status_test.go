package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/daemon"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// TestCountsHaveWords: whatever a daemon can count is said in words. All its parts
// are there, the access log too.
func TestCountsHaveWords(t *testing.T) {
	var missing []string
	parts := map[string]bool{}
	for _, c := range daemonStatus(t).Counts {
		parts[c.Name] = true
		if _, ok := countWords(c.Name, c.Reason); !ok && c.Reason != "bytes" {
			missing = append(missing, c.Name+" "+c.Reason)
		}
	}
	if len(missing) > 0 {
		t.Errorf("without words: %q", missing)
	}
	for _, part := range []string{"native", "syslog", "stdout", "kmsg", "peer", "http", "upload", "varlink", "store", "access_log", "funnel"} {
		if !parts[part] {
			t.Errorf("%s counts nothing", part)
		}
	}
}

// daemonStatus is the status of a daemon with an access log, which has ended when
// it returns.
func daemonStatus(t *testing.T) control.Status {
	t.Helper()
	c := config.Defaults()
	c.Data, c.Run, c.HTTP, c.ReadKMsg, c.Nice = t.TempDir(), sockdir.New(t), []string{"127.0.0.1:0"}, false, new(int)
	c.AccessLog = filepath.Join(t.TempDir(), "access.log")
	ctx, stop := context.WithCancel(t.Context())
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: func() (config.Config, []config.Warning, error) { return c, nil, nil },
			Env:    environment(), Version: "test", Out: out, Err: io.Discard,
		})
		out.Close()
	}()
	var st control.Status
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if lines.Text() != "ready" {
			continue
		}
		raw, err := control.Call(ctx, filepath.Join(c.Run, config.ControlSocket), control.MethodStatus, nil)
		if err != nil {
			t.Error(err)
		} else if err := json.Unmarshal(raw, &st); err != nil {
			t.Error(err)
		}
		stop()
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return st
}

// TestPrintStatus holds every row against its words, in the order in which they
// are printed.
func TestPrintStatus(t *testing.T) {
	st := control.Status{
		Version: "1.2", PID: 7, Started: 1_700_000_000_000_000, Data: "/d", Nice: -19,
		Endpoints: []control.Endpoint{{Protocol: "native", Address: "/r/socket"}, {Protocol: "http", Address: "http://h/"}},
		Sync:      "auto", Syncs: 13, SyncErrors: 2, Unsynced: 1, UnsyncedBytes: 2048, UnsyncedSince: 1_700_000_001_000_000, Notify: 250_000, Buffer: 64 << 20, Buffered: 216, ClockSteps: 1,
		Space: control.Space{Usage: 16 << 20, Limit: 4 << 30, Available: 1536, Archived: 3, Prepared: 1, Full: true},
		Files: []control.File{
			{Path: "/d/system@0-1-2.journal", Entries: 2, Bytes: 8 << 20, Fill: 75},
			{Path: "/d/system.journal", Entries: 1, Bytes: 1 << 20, Unsynced: 1, Unwritten: 216, Error: "disk on fire"},
		},
		Counts: []control.Count{
			{Name: "native", Reason: "entries", N: 1},
			{Name: "native", Reason: "level", N: 2},
			{Name: "native", Reason: "noise", N: 1},
			{Name: "native", Reason: "empty"},
			{Name: "http", Reason: "bytes", N: 2048},
			{Name: "store", Reason: "disk_full", N: 1},
			{Name: "store", Reason: "entries", N: 2},
			{Name: "new", Reason: "some_reason", N: 3},
		},
		Histograms: []control.Histogram{
			{Name: "write", Unit: "µs", Counts: []uint64{0, 0, 0, 1, 12345}, Sum: 9},
			{Name: "access_log sync", Unit: "µs", Counts: []uint64{0, 0, 5, 0, 0, 0, 7}, Sum: 9},
			{Name: "turn native", Unit: "µs", Counts: []uint64{0, 0, 0, 2}, Sum: 9},
			{Name: "records", Unit: "records", Counts: []uint64{3, 20}, Sum: 9},
		},
	}
	want := "tidemark          1.2, pid 7, up since " + time.UnixMicro(1_700_000_000_000_000).Format(time.RFC3339) + `
data              /d
listens           native: /r/socket
                  http: http://h/
sync              auto: the kernel writes back when it likes, unless somebody asks for a sync
syncs             13 since the start, 2 failed
unsynced          1 entry in at most 2.0 KiB, the oldest since ` + time.UnixMicro(1_700_000_001_000_000).Format(time.RFC3339) + `
notify            250ms: how long matches of other processes may lag under load
nice              -19
buffer            216 bytes of 64.0 MiB wait to be written
space             16.0 MiB used, 4.0 GiB allowed, 1.5 KiB available
                  THE DISK IS FULL: entries wait or are refused until there is space
clock             stepped back once: the last time was repeated
files             1 current, 1 on the way to the archive, 3 archived, 1 prepared
  system@…        2 entries in 8.0 MiB, 75% full; all synced, all written
  system.journal  1 entry in 1.0 MiB, 0% full; 1 entry not synced yet, 216 bytes not written yet
                  FAILED: disk on fire
native            1 entry taken
native            2 messages dropped: above MaxLevelStore, or their unit's LogLevelMax
native            1 line dropped: the last of a datagram, without its newline
http              2.0 KiB of accepted lines
store             1 time a write met a full disk
store             2 entries
new               3 some reason
took, log2(µs)     2  3      4  5  6
  write            0  1  12345  0  0
  access log sync  5  0      0  0  7
  turn native      0  2      0  0  0
size, log2(records)  0   1
  of a sync          3  20
`
	var out strings.Builder
	if err := printStatus(&out, &st); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestPrintQuietStatus: a daemon that has done nothing says so, without the rows
// that are for trouble.
func TestPrintQuietStatus(t *testing.T) {
	for policy, words := range map[string]string{
		"all": "an acknowledged append is on the disk", "5s": "a sync begins at most that long after an append",
	} {
		st := control.Status{
			Version: "1.2", PID: 7, Data: "/d", Sync: policy, ClockSteps: 0, Buffered: 1,
			Endpoints: []control.Endpoint{{Protocol: "native", Address: "/r/socket"}},
			Files:     []control.File{{Path: "/d/user-1000.journal"}, {Path: "/d/system.journal", Unwritten: -1}},
		}
		want := "tidemark             1.2, pid 7, up since " + time.UnixMicro(0).Format(time.RFC3339) + `
data                 /d
listens              native: /r/socket
sync                 ` + policy + ": " + words + `
syncs                0 since the start, none failed
notify               0s: how long matches of other processes may lag under load
nice                 0
buffer               1 byte of 0 bytes wait to be written
space                0 bytes used, 0 bytes allowed, 0 bytes available
files                2 current, 0 on the way to the archive, 0 archived, 0 prepared
  user-1000.journal  0 entries in 0 bytes, 0% full; all synced, all written
  system.journal     0 entries in 0 bytes, 0% full; all synced, all written
`
		var out strings.Builder
		if err := printStatus(&out, &st); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", policy, diff)
		}
	}
	for steps, want := range map[uint64]string{1: "once", 2: "2 times"} {
		if got := times(steps); got != want {
			t.Errorf("%d steps: %s, want %s", steps, got, want)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1536: "1.5 KiB", 1<<20 - 1: "1023.9 KiB", 3 << 40: "3.0 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

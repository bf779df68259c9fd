package linelog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// TestCrashAtEachCall kills the writer in call 1, 2, 3 …, a write at a page boundary:
// what was acknowledged as appended is there, after a power cut what was as synced,
// and once the log is opened again no line is torn and the next one stands alone.
func TestCrashAtEachCall(t *testing.T) {
	n, done := 1, false
	for ; !done; n++ {
		synctest.Test(t, func(t *testing.T) { done = crashRun(t, n) })
	}
	if n < 15 {
		t.Errorf("only %d calls", n)
	}
}

// crashRun tells whether there was no call n.
func crashRun(t *testing.T, n int) (none bool) {
	fs := crashfs.New(uint64(n))
	if err := fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	fs.StopAt(n)
	w, err := Open(logPath, Options{FS: fs, Buffer: 3 * 4096})
	if err != nil {
		return false
	}
	var accepted []string
	acked := map[settle.Level]map[string]bool{settle.Appended: {}, settle.Synced: {}}
	for i := range 8 {
		var call []string
		for j := range 1 + 40*(i%2) {
			call = append(call, fmt.Sprintf("%d/%d %s", i, j, strings.Repeat("k", 200)))
		}
		accepted = append(accepted, call...)
		pos, err := w.Append(context.Background(), []byte(strings.Join(call, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []settle.Level{settle.Appended, settle.Synced}[:1+i/2%2] {
			if w.Wait(context.Background(), pos, l) == nil {
				for _, line := range call {
					acked[l][line] = true
				}
			}
		}
	}
	none = fs.Calls() < n
	w.Close()
	reopenAfter(t, fs.Survivors(), &history{accepted, acked[settle.Appended]}, fmt.Sprintf("kill in call %d", n))
	for seed := range uint64(5) {
		clone := fs.PowerCut(seed)
		for line := range acked[settle.Synced] {
			if !strings.Contains(string(clone.Bytes(logPath)), line+"\n") {
				t.Errorf("call %d, power cut %d: %.20q was synced and is lost", n, seed, line)
			}
		}
	}
	return none
}

// reopenAfter opens what a kill has left, appends a line and checks all of it.
func reopenAfter(t *testing.T, fs *crashfs.FS, h *history, when string) {
	t.Helper()
	w, err := Open(logPath, Options{FS: fs})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if _, err := w.Write([]byte("next\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h.accepted = append(h.accepted[:len(h.accepted):len(h.accepted)], "next")
	h.synced["next"] = true
	h.check(t, contents(t, fs), 0, false)
	if t.Failed() {
		t.Fatal(when)
	}
}

package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestNothingIsMapped: a daemon maps no journal file, whatever it is asked: a
// goroutine that waits for the disk in a page fault would hold up all others.
func TestNothingIsMapped(t *testing.T) {
	needStrace(t)
	p := newPlace(t, t.TempDir(), "Sync=50ms", "SystemMaxFileSize=512K")
	trace := filepath.Join(t.TempDir(), "trace")
	for range 2 { // the second finds files
		d := start(t, p, "strace", "-D", "-f", "-y", "--seccomp-bpf", "-o", trace, "-A", "-e", "trace=mmap,mremap", "-e", "signal=none")
		s := newStream(newLedger(), d, seeded(1))
		s.run(guarded(t))
		if s.answered() == 0 {
			t.Error(errNothing)
		}
		noError(t, d.postOnce(guarded(t), "looked for in the files"))
		maps, err := os.ReadFile("/proc/" + strconv.Itoa(d.cmd.Process.Pid) + "/maps")
		noError(t, err)
		for line := range strings.Lines(string(maps)) {
			if strings.Contains(line, p.data) {
				t.Errorf("mapped: %s", line)
			}
		}
		d.kill()
	}
	calls, err := os.ReadFile(trace)
	noError(t, err)
	if !strings.Contains(string(calls), "mmap(") {
		t.Error("no mmap at all was seen")
	}
	for line := range strings.Lines(string(calls)) {
		if strings.Contains(line, p.data) {
			t.Errorf("was mapped: %s", line)
		}
	}
}

package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// All threads of a daemon get the priority that its configuration asks for;
// without the right it says so, and goes on.
func TestNice(t *testing.T) {
	for _, nice := range []int{7, -3} {
		t.Run(strconv.Itoa(nice), func(t *testing.T) {
			p := newPlace(t)
			p.configure(t, "Nice="+strconv.Itoa(nice)+"\n")
			d := spawn(t, p)
			got := niceOf(t, d.Process.Pid)
			said := fmt.Sprint(d.Stderr)
			if strings.Contains(said, fmt.Sprintf("Nice=%d: permission denied", nice)) {
				return // it may not, and has said so
			}
			for tid, n := range got {
				if n != nice {
					t.Errorf("thread %s has %d, want %d; it said %q", tid, n, nice, said)
				}
			}
		})
	}
}

// niceOf returns the priority of each thread.
func niceOf(t *testing.T, pid int) map[string]int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	all := make(map[string]int)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		const niceField = 16 // counted from the one behind the name
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		n, err := strconv.Atoi(fields[niceField])
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(f))] = n
	}
	return all
}

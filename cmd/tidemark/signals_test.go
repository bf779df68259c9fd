package main

import (
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// A query of a few entries is over before it would listen for signals; one of many
// listens, and ends at the next look.
func TestQueryListensLate(t *testing.T) {
	dir := t.TempDir()
	w, err := journal.Create(filepath.Join(dir, "system.journal"), journal.Options{MachineID: entry.ID{1}, BootID: entry.ID{2}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		e := entry.Entry{Fields: []entry.Field{entry.Field(fmt.Sprintf("MESSAGE=%d", i))}}
		if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[bool][]string{
		false: {"-n", "10"},
		true:  {"-n", "500"},
	} {
		var c signalContext
		if err := runQuery(&c, append(args, "--no-pager", "-D", dir), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		if got := c.inner != nil; got != want {
			t.Errorf("%v: listened %v", args, got)
		}
		c.stop()
	}
	var c signalContext
	defer c.stop()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if code, line := outcome(runQuery(&c, []string{"--no-pager", "-D", dir}, io.Discard, io.Discard)); code != exitFailed || line != "" {
		t.Errorf("a query that was told to end: exit code %d, %q", code, line)
	}
}

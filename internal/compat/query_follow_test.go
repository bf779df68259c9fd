package compat

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// follower is a program that prints messages as they come.
type follower struct {
	name  string
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startFollower(t *testing.T, name string, args ...string) *follower {
	t.Helper()
	f := &follower{name: name, cmd: exec.Command(args[0], args[1:]...)}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stderr = os.Stderr
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // it may have ended
		_, _ = f.cmd.Process.Wait()
	})
	f.lines = bufio.NewScanner(out)
	return f
}

// expect reads the next lines, which must be these.
func (f *follower) expect(t *testing.T, from, to int, format string) {
	t.Helper()
	for i := from; i < to; i++ {
		if !f.lines.Scan() {
			t.Fatalf("%s ended before line %d: %v", f.name, i, f.lines.Err())
		}
		if want := fmt.Sprintf(format, i); f.lines.Text() != want {
			t.Fatalf("%s printed %q, want %q", f.name, f.lines.Text(), want)
		}
	}
}

// testFollow follows a directory in which a file is written, rotated and
// written on, alone and beside the real journalctl: each sees every entry, once
// and in order.
func testFollow(t *testing.T, bin string) {
	dir := corpusDir(t)
	boot, err := entry.ParseID(bootA)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	appendTo := func(w *journal.Writer, n int) {
		t.Helper()
		for range n {
			e := entry.Entry{
				Realtime: corpusStart + uint64(next)*1000, Monotonic: 1000 + uint64(next)*1000, BootID: boot,
				Fields: []entry.Field{fmt.Appendf(nil, "MESSAGE=line %d", next), []byte("_BOOT_ID=" + bootA), fmt.Appendf(nil, "PRIORITY=%d", next%2), fmt.Appendf(nil, "LATE=%d", next/100)},
			}
			pos, _, err := w.Append(context.Background(), []entry.Entry{e})
			if err == nil {
				err = w.Wait(context.Background(), pos, settle.Appended)
			}
			if err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	w, err := journal.Create(filepath.Join(dir, "system.journal"), journal.Options{BootID: boot})
	if err != nil {
		t.Fatal(err)
	}
	appendTo(w, 5)
	all := []*follower{
		startFollower(t, "tidemark", bin, "query", "-D", dir, "-f", "-n", "all", "-o", "cat"),
		startFollower(t, "tidemark --file", bin, "query", "--file", filepath.Join(dir, "system.journal"), "-f", "-n", "all", "-o", "cat"),
		startFollower(t, "journalctl", "journalctl", "-D", dir, "-f", "-n", "all", "-o", "cat"),
	}
	even := startFollower(t, "tidemark with a match", bin, "query", "-D", dir, "-f", "-n", "all", "-o", "cat", "PRIORITY=0")
	late := startFollower(t, "tidemark with two matches", bin, "query", "-D", dir, "-f", "-n", "all", "-o", "cat", "LATE=1", "+", "LATE=2")
	for _, f := range all {
		f.expect(t, 0, 5, "line %d")
	}
	appendTo(w, 200)
	for _, f := range all {
		f.expect(t, 5, 205, "line %d")
	}
	for i := 0; i < 205; i += 2 {
		even.expect(t, i, i+1, "line %d")
	}
	late.expect(t, 100, 205, "line %d")
	id, seqnum := w.Seqnum()
	if err := w.Rename(filepath.Join(dir, journal.ArchiveName("system", id, 1, corpusStart))); err != nil {
		t.Fatal(err)
	}
	if err := w.Archive(context.Background()); err != nil {
		t.Fatal(err)
	}
	w, err = journal.Create(filepath.Join(dir, "system.journal"), journal.Options{BootID: boot, SeqnumID: id, Seqnum: seqnum})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	appendTo(w, 50)
	for _, f := range all {
		f.expect(t, 205, 255, "line %d")
	}
	for i := 206; i < 255; i += 2 {
		even.expect(t, i, i+1, "line %d")
	}
	late.expect(t, 205, 255, "line %d")
	if err := all[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for all[0].lines.Scan() {
		t.Errorf("more was printed: %q", all[0].lines.Text())
	}
	if err := all[0].cmd.Wait(); err != nil {
		t.Errorf("tidemark query -f ended by SIGTERM: %v", err)
	}
}

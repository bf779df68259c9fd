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

// numberedLog writes entries that are numbered on, whichever file they go to.
type numberedLog struct {
	boot entry.ID
	next int
}

// add appends n entries to w, one by one, and waits until readers see them.
func (l *numberedLog) add(t *testing.T, w *journal.Writer, n int) {
	t.Helper()
	for range n {
		e := entry.Entry{
			Realtime: corpusStart + uint64(l.next)*1000, Monotonic: 1000 + uint64(l.next)*1000, BootID: l.boot,
			Fields: []entry.Field{
				fmt.Appendf(nil, "MESSAGE=line %d", l.next), []byte("_BOOT_ID=" + bootA),
				fmt.Appendf(nil, "PRIORITY=%d", l.next%2), fmt.Appendf(nil, "LATE=%d", l.next/100),
			},
		}
		pos, _, err := w.Append(context.Background(), []entry.Entry{e})
		if err == nil {
			err = w.Wait(context.Background(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.next++
	}
}

// followers follow one directory: with no match, for the entries of even
// numbers, and for those from 100 on.
type followers struct {
	all        []*follower
	even, late *follower
}

func startFollowers(t *testing.T, bin, dir string) *followers {
	t.Helper()
	query := func(name string, more ...string) *follower {
		return startFollower(t, name, append([]string{bin, "query", "-f", "-n", "all", "-o", "cat"}, more...)...)
	}
	return &followers{
		all: []*follower{
			query("tidemark", "-D", dir),
			query("tidemark --file", "--file", filepath.Join(dir, "system.journal")),
			startFollower(t, "journalctl", "journalctl", "-D", dir, "-f", "-n", "all", "-o", "cat"),
		},
		even: query("tidemark with a match", "-D", dir, "PRIORITY=0"),
		late: query("tidemark with two matches", "-D", dir, "LATE=1", "+", "LATE=2"),
	}
}

// expect wants the lines from..to-1 next, of every follower those it is for.
func (fs *followers) expect(t *testing.T, from, to int) {
	t.Helper()
	for _, f := range fs.all {
		f.expect(t, from, to, "line %d")
	}
	for i := from + from%2; i < to; i += 2 {
		fs.even.expect(t, i, i+1, "line %d")
	}
	fs.late.expect(t, max(from, 100), to, "line %d")
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
	l := &numberedLog{boot: boot}
	w, err := journal.Create(filepath.Join(dir, "system.journal"), journal.Options{BootID: boot})
	if err != nil {
		t.Fatal(err)
	}
	l.add(t, w, 5)
	fs := startFollowers(t, bin, dir)
	fs.expect(t, 0, 5)
	l.add(t, w, 200)
	fs.expect(t, 5, 205)
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
	l.add(t, w, 50)
	fs.expect(t, 205, 255)
	first := fs.all[0]
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for first.lines.Scan() {
		t.Errorf("more was printed: %q", first.lines.Text())
	}
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("tidemark query -f ended by SIGTERM: %v", err)
	}
}

//go:build linux

package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log writes numbered entries to DIR/system.journal and rotates as a store does.
type log struct {
	t   *testing.T
	dir string
	w   *journal.Writer
	o   journal.Options
	n   int // entries so far
	rot int
}

func newLog(t *testing.T, dir string, o journal.Options) *log {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	l := &log{t: t, dir: dir, o: o}
	l.o.MaxSize = journal.MinMaxSize * 8
	l.create()
	t.Cleanup(func() {
		if err := l.w.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *log) create() {
	var err error
	if l.w, err = journal.Create(filepath.Join(l.dir, "system.journal"), l.o); err != nil {
		l.t.Fatal(err)
	}
}

// add appends n entries: COLOUR is one of three, EVEN only in every other one.
func (l *log) add(n int) {
	l.t.Helper()
	batch := make([]entry.Entry, 0, n)
	for range n {
		f := []entry.Field{
			entry.Field("MESSAGE=entry " + strconv.Itoa(l.n)),
			entry.Field("N=" + strconv.Itoa(l.n)),
			entry.Field("COLOUR=" + [...]string{"red", "green", "blue"}[l.n%3]),
		}
		if l.n%2 == 0 {
			f = append(f, entry.Field("EVEN=1"))
		}
		batch = append(batch, entry.Entry{Fields: f})
		l.n++
	}
	for len(batch) > 0 {
		_, n, err := l.w.Append(context.Background(), batch)
		batch = batch[n:]
		if errors.Is(err, journal.ErrFull) {
			l.rotate()
		} else if err != nil {
			l.t.Fatal(err)
		}
	}
}

// rotate archives the file under another name; the next has the old one.
func (l *log) rotate() {
	l.t.Helper()
	l.o.SeqnumID, l.o.Seqnum = l.w.Seqnum()
	l.rot++
	must(l.t, l.w.Rename(filepath.Join(l.dir, fmt.Sprintf("system@%04d.journal", l.rot))))
	must(l.t, l.w.Archive(context.Background()))
	l.create()
}

func openDir(t *testing.T, dirs ...string) *journal.Journal {
	t.Helper()
	j, err := journal.ReadOptions{Scan: true}.OpenDir(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func follower(t *testing.T, j *journal.Journal, dirs ...string) *Follower {
	t.Helper()
	return New(j, watch(t, dirs...))
}

// number returns the number of the next entry that f delivers.
func number(t *testing.T, f *Follower) int {
	t.Helper()
	e, err := f.Next(limited(t))
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return numberOf(t, e)
}

func numberOf(t *testing.T, e *entry.Entry) int {
	t.Helper()
	v, _ := e.Get("N")
	n, err := strconv.Atoi(string(v))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// expect reads the entries from..to (excluded) that want accepts, in order.
func expect(t *testing.T, f *Follower, from, to int, want func(n int) bool) {
	t.Helper()
	for n := from; n < to; n++ {
		if !want(n) {
			continue
		}
		if got := number(t, f); got != n {
			t.Fatalf("got entry %d, want %d", got, n)
		}
	}
}

func all(int) bool { return true }

// quiet checks that there is nothing more.
func quiet(t *testing.T, f *Follower) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		if e, err := f.j.Next(); err == nil {
			t.Fatalf("one more entry: %d", numberOf(t, e))
		} else if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if f.Wait(ctx) != nil {
			return
		}
	}
}

func TestFollowLoneLines(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	f := follower(t, openDir(t, dir), dir)
	for i := range 50 {
		l.add(1)
		expect(t, f, i, i+1, all)
	}
	quiet(t, f)
}

// matches are the ways a flood is followed.
func matches() map[string]struct {
	m    journal.Match
	want func(n int) bool
} {
	term := func(s string) journal.Match { return journal.Term(entry.Field(s)) }
	return map[string]struct {
		m    journal.Match
		want func(n int) bool
	}{
		"everything": {journal.Match{}, all},
		"or": {
			journal.Or(term("COLOUR=red"), term("COLOUR=blue")),
			func(n int) bool { return n%3 != 1 },
		},
		"and, not": {
			journal.And(term("EVEN=1"), journal.Not(term("COLOUR=green"))),
			func(n int) bool { return n%2 == 0 && n%3 != 1 },
		},
	}
}

// Each entry is seen with the write that brings it, whether the writer's index and
// the count that comes with it go along or not: they do not for most of these,
// since so many in a row cost too much.
func TestFollowAheadOfIndex(t *testing.T) {
	for name, tc := range matches() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := newLog(t, dir, journal.Options{Index: time.Hour})
			j := openDir(t, dir)
			j.SetMatch(tc.m)
			f := follower(t, j, dir)
			for i := range 100 {
				l.add(1)
				expect(t, f, i, i+1, tc.want)
			}
			quiet(t, f)
		})
	}
}

// TestFollowFlood follows a writer that appends as fast as it can, in batches,
// with rotations, and then falls silent: nothing may be missing, not even the
// last entries, whose links come a window later.
func TestFollowFlood(t *testing.T) {
	const batches, size = 400, 25
	for name, tc := range matches() {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			l := newLog(t, filepath.Join(root, machine), journal.Options{})
			j := openDir(t, root)
			j.SetMatch(tc.m)
			f := follower(t, j, root)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range batches {
					l.add(size)
					if i%150 == 149 {
						l.rotate()
					}
				}
			}()
			expect(t, f, 0, batches*size, tc.want)
			<-done
			quiet(t, f)
			if l.rot == 0 {
				t.Error("no rotation")
			}
		})
	}
}

func TestFollowFromTail(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	l.add(10)
	must(t, l.w.Settle(context.Background()))
	j := openDir(t, dir)
	j.SeekTail()
	f := follower(t, j, dir)
	l.add(5)
	expect(t, f, 10, 15, all)
	l.rotate()
	l.add(5)
	expect(t, f, 15, 20, all)
	quiet(t, f)
}

// A file that is deleted takes away nothing that was written to it before.
func TestFollowDeletedFile(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	f := follower(t, openDir(t, dir), dir)
	l.add(3)
	expect(t, f, 0, 3, all)
	l.add(4)
	l.rotate()
	l.add(2)
	must(t, l.w.Settle(context.Background()))
	must(t, os.Remove(filepath.Join(dir, "system@0001.journal")))
	expect(t, f, 3, 9, all)
	quiet(t, f)
	if n := len(f.j.Files()); n != 1 {
		t.Errorf("%d files are open, want 1", n)
	}
}

// A directory that did not exist when the following began.
func TestFollowNewDirectory(t *testing.T) {
	root := t.TempDir()
	f := follower(t, openDir(t, root), root)
	l := newLog(t, filepath.Join(root, machine), journal.Options{})
	l.add(3)
	expect(t, f, 0, 3, all)
	must(t, os.Mkdir(filepath.Join(root, "not a machine"), 0o700))
	l.add(1)
	expect(t, f, 3, 4, all)
	quiet(t, f)
}

// After lost events the directories are listed, and nothing comes twice.
func TestFollowAfterLostEvents(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	w := watch(t, dir)
	f := New(openDir(t, dir), w)
	l.add(2)
	expect(t, f, 0, 2, all)
	l.rotate()
	l.add(2)
	l.rotate()
	l.add(2)
	must(t, w.Wait(limited(t)))
	w.Take() // lost
	w.queue(Rescan, "")
	expect(t, f, 2, 6, all)
	quiet(t, f)
}

// Files come and go between a listing and the opening of what it lists: the
// name is then that of the last one, and those between must come first.
func TestFollowRotationsBehindTheListing(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	w := watch(t, dir)
	f := New(openDir(t, dir), w)
	l.add(2)
	expect(t, f, 0, 2, all)
	list, rotations := f.list, 3
	f.list = func() ([]string, error) {
		paths, err := list()
		for ; rotations > 0; rotations-- {
			l.add(2)
			l.rotate()
			l.add(1)
			must(t, l.w.Settle(context.Background()))
		}
		return paths, err
	}
	w.queue(Rescan, "")
	expect(t, f, 2, 11, all)
	quiet(t, f)
}

func TestFollowFiles(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, journal.Options{})
	path := filepath.Join(dir, "system.journal")
	j, err := journal.ReadOptions{Scan: true}.Open([]string{path})
	must(t, err)
	defer j.Close()
	w, err := WatchFiles([]string{path})
	must(t, err)
	defer w.Close()
	f := New(j, w)
	l.add(3)
	expect(t, f, 0, 3, all)
	l.rotate() // the name is another file's now
	l.add(3)
	expect(t, f, 3, 6, all)
	quiet(t, f)
}

// TestFollowJournalRemote follows a file that systemd writes through a mapping:
// it notifies by truncating to the same size.
func TestFollowJournalRemote(t *testing.T) {
	const remote = "/lib/systemd/systemd-journal-remote"
	if _, err := os.Stat(remote); err != nil {
		t.Skip("systemd-journal-remote is not installed")
	}
	for name, tc := range matches() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := openDir(t, dir)
			j.SetMatch(tc.m)
			f := follower(t, j, dir)
			cmd := exec.Command(remote, "-o", filepath.Join(dir, "remote.journal"), "-")
			in, err := cmd.StdinPipe()
			must(t, err)
			must(t, cmd.Start())
			const n = 2000
			wrote := make(chan error, 1)
			go func() { wrote <- exportTo(in, n) }()
			expect(t, f, 0, n, tc.want)
			must(t, <-wrote)
			must(t, cmd.Wait())
			quiet(t, f)
		})
	}
}

// exportTo writes n entries in the export format.
func exportTo(w io.WriteCloser, n int) error {
	for i := range n {
		even := ""
		if i%2 == 0 {
			even = "EVEN=1\n"
		}
		_, err := fmt.Fprintf(w, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\nN=%d\nCOLOUR=%s\n%s\n",
			1700000000000000+i, 1000000+i, machine, i, [...]string{"red", "green", "blue"}[i%3], even)
		if err != nil {
			return err
		}
	}
	return w.Close()
}

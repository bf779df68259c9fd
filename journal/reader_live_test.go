package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

func appendTo(t testing.TB, w *Writer, fields ...string) {
	t.Helper()
	e := entry.Entry{}
	for _, f := range fields {
		e.Fields = append(e.Fields, entry.Field(f))
	}
	if _, n, err := w.Append(t.Context(), []entry.Entry{e}); n != 1 || err != nil {
		t.Fatalf("Append: %d, %v", n, err)
	}
}

func readerMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a clock for writers, the same for several.
type clock struct{ realtime, monotonic uint64 }

func (c *clock) now() (uint64, uint64) {
	c.realtime += 10
	c.monotonic += 10
	return c.realtime, c.monotonic
}

func newClock() *clock { return &clock{1_700_000_000_000_000, 1_000_000} }

func create(t testing.TB, path string, o Options) *Writer {
	t.Helper()
	o.MachineID, o.BootID = entry.ID{1}, entry.ID{2}
	w, err := Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// messages reads on to the end.
func messages(t testing.TB, j *Journal) (out []string) {
	t.Helper()
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		m, _ := e.Get("MESSAGE")
		out = append(out, string(m))
	}
	return out
}

func wantMessages(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestFollowSeesWhatIsAppended(t *testing.T) {
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.journal")
			w := create(t, path, Options{MaxSize: 1 << 20, Clock: newClock().now})
			j := openSample(t, o, path)
			wantMessages(t, "empty", messages(t, j))
			for i := range 300 {
				appendTo(t, w, fmt.Sprintf("MESSAGE=%d", i))
				if i%3 == 0 {
					continue
				}
				readerMust(t, w.Settle(t.Context()))
				if err := j.Refresh(); err != nil {
					t.Fatal(err)
				}
				if i%3 == 1 {
					wantMessages(t, "grown", messages(t, j), fmt.Sprint(i-1), fmt.Sprint(i))
				} else {
					wantMessages(t, "grown", messages(t, j), fmt.Sprint(i))
				}
			}
			j.SeekTail()
			wantMessages(t, "behind the tail", messages(t, j))
			appendTo(t, w, "MESSAGE=last")
			readerMust(t, w.Archive(t.Context())) // truncates
			if err := j.Refresh(); err != nil {
				t.Fatal(err)
			}
			wantMessages(t, "archived", messages(t, j), "last")
			if s := j.Files()[0].Header().State; s != StateArchived {
				t.Errorf("state %v", s)
			}
			if w := j.Warnings(); len(w) > 0 {
				t.Errorf("warnings: %v", w)
			}
		})
	}
}

// While the links of new entries are pending, they are seen to match at once, with
// Scan and without, and exactly once.
func TestFollowMatches(t *testing.T) {
	wanted := Or(Term(entry.Field("UNIT=new")), And(Term(entry.Field("UNIT=old")), Not(Term(entry.Field("PRIORITY=7")))))
	path := filepath.Join(t.TempDir(), "a.journal")
	w := create(t, path, Options{MaxSize: 1 << 20, Clock: newClock().now, Index: time.Hour})
	appendTo(t, w, "MESSAGE=0", "UNIT=old")
	readerMust(t, w.Settle(t.Context()))
	wHoldIndex(w)

	scan := openSample(t, ReadOptions{Scan: true}, path)
	index := openSample(t, ReadOptions{}, path)
	for _, j := range []*Journal{scan, index} {
		j.SetMatch(wanted)
		wantMessages(t, "first", messages(t, j), "0")
	}
	appendTo(t, w, "MESSAGE=1", "UNIT=other")
	appendTo(t, w, "MESSAGE=2", "UNIT=new")
	appendTo(t, w, "MESSAGE=3", "UNIT=old", "PRIORITY=7")
	appendTo(t, w, "MESSAGE=4", "UNIT=old", "PRIORITY=6")
	appendTo(t, w, "MESSAGE=5", "UNIT=other")
	pos := Pos(6)
	readerMust(t, w.Wait(t.Context(), pos, settle.Appended))
	refresh := func() {
		for _, j := range []*Journal{scan, index} {
			if err := j.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
	}
	refresh()
	got := messages(t, scan)
	early := messages(t, index)
	readerMust(t, w.SettleIndex(t.Context()))
	refresh()
	wantMessages(t, "scan, before and behind the index", append(got, messages(t, scan)...), "2", "4")
	wantMessages(t, "index, before and behind", append(early, messages(t, index)...), "2", "4")
	wantMessages(t, "scan, pending", got, "2", "4")
	wantMessages(t, "index, pending", early, "2", "4")
	appendTo(t, w, "MESSAGE=6", "UNIT=new")
	readerMust(t, w.Settle(t.Context()))
	refresh()
	wantMessages(t, "scan, more", messages(t, scan), "6")
	wantMessages(t, "index, more", messages(t, index), "6")
	scan.SeekTail()
	e, err := scan.Previous()
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := e.Get("MESSAGE"); string(m) != "6" {
		t.Errorf("the last match is %q", m)
	}
}

// Whoever opens a file sees all that is written, the entry that the header holds
// back too, and its matches, though no link of it is there; from the first entry
// on.
func TestPendingIsSeen(t *testing.T) {
	for mode, o := range map[string]ReadOptions{"pread": {}, "map": {Map: true}, "scan": {Scan: true}} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.journal")
			w := create(t, path, Options{MaxSize: 1 << 20, Clock: newClock().now, Index: time.Hour})
			wHoldIndex(w)
			boot := "_BOOT_ID=" + entry.ID{2}.String()
			var all []string
			for i := range 30 {
				all = append(all, fmt.Sprint(i))
				appendTo(t, w, "MESSAGE="+all[i], "UNIT=u", "N="+all[i], boot)
				readerMust(t, w.Wait(t.Context(), Pos(i+1), settle.Appended))
				if i == 20 {
					readerMust(t, w.SettleIndex(t.Context()))
					wHoldIndex(w)
				}
				j := openSample(t, o, path)
				if n := j.Files()[0].Header().NEntries; i != 20 && n != uint64(i) {
					t.Fatalf("the header counts %d of %d entries: nothing is pending", n, i+1)
				}
				wantMessages(t, "all", messages(t, j), all...)
				j.SeekTail()
				e, err := j.Previous()
				readerMust(t, err)
				if m, _ := e.Get("MESSAGE"); string(m) != all[i] {
					t.Errorf("the last of %d is %q", i+1, m)
				}
				for _, m := range []struct {
					match Match
					want  []string
				}{
					{Term(entry.Field("UNIT=u")), all},
					{Term(entry.Field("N=" + all[i])), all[i:]},
					{Not(Term(entry.Field("N=" + all[i]))), all[:i]},
					{And(Term(entry.Field("UNIT=u")), Term(entry.Field("N="+all[i]))), all[i:]},
					{Term(entry.Field(boot)), all},
				} {
					j.SetMatch(m.match)
					j.SeekHead()
					wantMessages(t, m.match.String(), messages(t, j), m.want...)
				}
				boots, err := j.Boots()
				readerMust(t, err)
				if len(boots) != 1 || boots[0].Last != e.Realtime {
					t.Errorf("boots: %+v, the last entry is of %d", boots, e.Realtime)
				}
			}
		})
	}
}

// liveRig is a follower of a directory of files that this test writes.
type liveRig struct {
	t   *testing.T
	dir string
	o   Options
	j   *Journal
}

func (r *liveRig) path(name string) string { return filepath.Join(r.dir, name) }

// add tells the follower of a file.
func (r *liveRig) add(name string) {
	r.t.Helper()
	readerMust(r.t, r.j.Add(r.path(name)))
}

// next wants what there is after a refresh.
func (r *liveRig) next(when string, want ...string) {
	r.t.Helper()
	readerMust(r.t, r.j.Refresh())
	wantMessages(r.t, when, messages(r.t, r.j), want...)
}

// newLiveRig writes a first entry to system.journal and reads it.
func newLiveRig(t *testing.T) (*liveRig, *Writer) {
	c := newClock()
	r := &liveRig{t: t, dir: t.TempDir(), o: Options{MaxSize: 1 << 20, Clock: c.now}}
	w := create(t, r.path("system.journal"), r.o)
	appendTo(t, w, "MESSAGE=a0")
	readerMust(t, w.Settle(t.Context()))
	var err error
	r.j, err = OpenDir(r.dir)
	readerMust(t, err)
	t.Cleanup(func() { readerMust(t, r.j.Close()) })
	r.next("begin", "a0")
	return r, w
}

// rotate appends two entries, renames the file, and has a successor with one entry
// take its name.
func (r *liveRig) rotate(w *Writer) *Writer {
	r.t.Helper()
	appendTo(r.t, w, "MESSAGE=a1")
	appendTo(r.t, w, "MESSAGE=a2")
	o := r.o
	o.SeqnumID, o.Seqnum = w.Seqnum()
	readerMust(r.t, w.Rename(r.path("system@1.journal")))
	readerMust(r.t, w.Archive(r.t.Context()))
	next := create(r.t, r.path("system.journal"), o)
	appendTo(r.t, next, "MESSAGE=b0")
	readerMust(r.t, next.Settle(r.t.Context()))
	if !r.j.Remove(r.path("system.journal")) {
		r.t.Error("Remove knows no such file")
	}
	r.add("system@1.journal")
	r.add("system.journal")
	r.next("rotated", "a1", "a2", "b0")
	return next
}

// A follower goes on through a rotation, sees a file that appears, and an entry
// that comes late to one file, each once.
func TestFollowRotationAndNewFiles(t *testing.T) {
	r, w := newLiveRig(t)
	w = r.rotate(w)

	// A user's file appears; its first entry is older than the last delivered.
	u := create(t, r.path("user-1000.journal"), r.o)
	appendTo(t, u, "MESSAGE=u0")
	appendTo(t, w, "MESSAGE=b1")
	readerMust(t, w.Settle(t.Context()))
	r.next("before the new file", "b1")
	readerMust(t, u.Settle(t.Context()))
	r.add("user-1000.journal")
	r.next("the new file", "u0")

	// An entry that is written later than a newer one of another file.
	appendTo(t, u, "MESSAGE=u1")
	appendTo(t, w, "MESSAGE=b2")
	readerMust(t, w.Settle(t.Context()))
	readerMust(t, r.j.Refresh())
	// The writer of u may or may not have written u1 by itself by now.
	got := messages(t, r.j)
	readerMust(t, u.Settle(t.Context()))
	readerMust(t, r.j.Refresh())
	got = append(got, messages(t, r.j)...)
	slices.Sort(got)
	wantMessages(t, "late", got, "b2", "u1")

	// All of it once more, from the head.
	r.j.SeekHead()
	wantMessages(t, "all", messages(t, r.j), "a0", "a1", "a2", "b0", "u0", "b1", "u1", "b2")

	// A file that is deleted is no longer read.
	readerMust(t, os.Remove(r.path("system@1.journal")))
	r.j.Remove(r.path("system@1.journal"))
	readerMust(t, r.j.Refresh())
	r.j.SeekHead()
	wantMessages(t, "deleted", messages(t, r.j), "b0", "u0", "b1", "u1", "b2")
	if n := len(r.j.Files()); n != 2 {
		t.Errorf("%d files", n)
	}
}

// A file that a real systemd-journal-remote is writing delivers every entry
// once and in order, also while it grows and when it is closed.
func TestReadWhileRemoteWrites(t *testing.T) {
	if _, err := os.Stat(readerRemotePath); err != nil {
		t.Skip("no systemd-journal-remote here to make files with")
	}
	const total, step = 2000, 50
	for mode, o := range map[string]ReadOptions{"pread": {}, "map": {Map: true}, "scan": {Scan: true}} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "live.journal")
			cmd := exec.Command(readerRemotePath, "-o", path, "-")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				s := newStream(3)
				for range total / step {
					if _, err := in.Write(s.append(nil, step, 0)); err != nil {
						done <- err
						return
					}
				}
				done <- errors.Join(in.Close(), cmd.Wait())
			}()
			j := o.New()
			defer j.Close()
			m := o.New()
			defer m.Close()
			m.SetMatch(Or(terms("PRIORITY=1", "PRIORITY=2")...))
			followUntil(t, path, done, j, m)
			if j.loc.seqnum != total {
				t.Errorf("last entry %d, want %d", j.loc.seqnum, total)
			}
			if w := append(j.Warnings(), m.Warnings()...); len(w) > 0 {
				t.Errorf("warnings: %v", w)
			}
		})
	}
}

// followUntil reads all of j, and those that match of m, until done and the
// end, and checks them.
func followUntil(t *testing.T, path string, done chan error, j, m *Journal) {
	t.Helper()
	var next uint64 = 1
	var want, got []uint64
	for finished := false; ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			finished = true
		default:
		}
		if len(j.Files()) == 0 {
			// Not there, or its header is not yet.
			if err := j.Add(path); err != nil && finished {
				t.Fatal(err)
			} else if err == nil {
				if err := m.Add(path); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(j.Refresh(), m.Refresh()); err != nil {
			t.Fatal(err)
		}
		for e, err := range j.All() {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seqnum != next {
				t.Fatalf("entry %d, want %d", e.Seqnum, next)
			}
			next++
			if m.match.Matches(e) {
				want = append(want, e.Seqnum)
			}
		}
		for e, err := range m.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Seqnum)
		}
		if finished {
			break
		}
		runtime.Gosched()
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d matches, want %d", len(got), len(want))
	}
	if _, err := j.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next at the end: %v", err)
	}
}

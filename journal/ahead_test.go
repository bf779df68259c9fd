package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// aheadDir writes archives of one sequence of two entries each, whose times are given,
// and returns their paths.
func aheadDir(t *testing.T, times []uint64) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	o := Options{SeqnumID: entry.ID{3}, SyncLater: true}
	for i := 0; i+1 < len(times); i += 2 {
		w := create(t, filepath.Join(dir, "system.journal"), o)
		for k := range 2 {
			e := entry.Entry{
				Realtime: 1e15 + times[i+k], Monotonic: uint64(i + k + 1), BootID: entry.ID{2},
				Fields: []entry.Field{entry.Field(fmt.Sprintf("MESSAGE=%d", i+k)), entry.Field(fmt.Sprintf("OF=%d", i%3))},
			}
			_, _, err := w.Append(t.Context(), []entry.Entry{e})
			readerMust(t, err)
		}
		o.SeqnumID, o.Seqnum = w.Seqnum()
		path := filepath.Join(dir, ArchiveName("system", o.SeqnumID, w.HeadSeqnum(), w.HeadRealtime()))
		readerMust(t, w.Rename(path))
		readerMust(t, w.Archive(t.Context()))
		paths = append(paths, path)
	}
	return dir, paths
}

// aheadSame compares what a Journal with archives left closed and one with all open
// deliver from a time on, forward and then back.
func aheadSame(t *testing.T, dir string, at uint64, forward, back int, m Match) {
	t.Helper()
	late, err := ReadOptions{Late: true}.OpenDir(dir)
	readerMust(t, err)
	all, err := OpenDir(dir)
	readerMust(t, err)
	for _, j := range []*Journal{late, all} {
		j.SetMatch(m)
		j.SeekRealtime(1e15 + at)
	}
	same := func(n int, move func(*Journal) (*entry.Entry, error)) {
		for range n {
			a, errA := move(late)
			b, errB := move(all)
			if !errors.Is(errA, errB) || errA == nil && a.Cursor() != b.Cursor() {
				t.Fatalf("from %d: late %v %v, all %v %v", at, a, errA, b, errB)
			}
			if errA != nil && !errors.Is(errA, io.EOF) {
				t.Fatal(errA)
			}
		}
	}
	same(forward, (*Journal).Next)
	same(back, (*Journal).Previous)
	same(3, (*Journal).Next)
	for _, j := range []*Journal{late, all} {
		j.SeekRealtime(1e15 + at)
	}
	same(3, (*Journal).Next)
	readerMust(t, errors.Join(late.Close(), all.Close()))
}

// Going forward from any time, archives that wait give what they give when all are
// open: where the clock was set back, within a file or between two, and whatever is
// wrong with a name or a file.
func TestAheadIsAsEarly(t *testing.T) {
	oneGoroutine(t)
	steady := []uint64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}
	for name, tc := range map[string]struct {
		times  []uint64
		change func(paths []string) error
	}{
		"steady":                 {times: steady},
		"a file in the future":   {times: []uint64{10, 20, 30, 105, 40, 50, 60, 70, 80, 90, 100, 110}},
		"set back between files": {times: []uint64{10, 20, 80, 90, 30, 40, 50, 60, 70, 75, 100, 110}},
		"set back in a file":     {times: []uint64{10, 20, 30, 40, 60, 50, 70, 80, 90, 85, 100, 110}},
		"two names exchanged": {times: steady, change: func(p []string) error {
			return errors.Join(os.Rename(p[1], p[1]+"x"), os.Rename(p[3], p[1]), os.Rename(p[1]+"x", p[3]))
		}},
		"one gone":                 {times: steady, change: func(p []string) error { return os.Remove(p[2]) }},
		"one cut":                  {times: steady, change: func(p []string) error { return os.Truncate(p[2], 100) }},
		"one torn":                 {times: steady, change: func(p []string) error { return os.Truncate(p[2], 8192) }},
		"the same file once again": {times: steady, change: func(p []string) error { return os.Link(p[2], p[2][:len(p[2])-len("0.journal")]+"f.journal") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, paths := aheadDir(t, tc.times)
			if tc.change != nil {
				readerMust(t, tc.change(paths))
			}
			for at := uint64(5); at <= 125; at += uint64(inFull(15, 40)) {
				aheadSame(t, dir, at, 2, 0, Match{})
				aheadSame(t, dir, at, 5, 4, Match{})
				aheadSame(t, dir, at, 15, 15, Term(entry.Field("OF=1")))
			}
		})
	}
}

// From a time on only the archives are opened that have something to give.
func TestAheadOpensFew(t *testing.T) {
	times := make([]uint64, 80)
	for i := range times {
		times[i] = uint64(10 * (i + 1))
	}
	dir, _ := aheadDir(t, times)
	j, err := ReadOptions{Late: true}.OpenDir(dir)
	readerMust(t, err)
	defer j.Close()
	j.SeekRealtime(1e15 + 400)
	for i := range 3 {
		e, err := j.Next()
		readerMust(t, err)
		if want := uint64(1e15 + 400 + 10*i); e.Realtime != want {
			t.Errorf("entry %d is of %d, want %d", i, e.Realtime, want)
		}
	}
	if n := len(j.Files()); n > 3 { // the newest, and two for three entries
		t.Errorf("%d files open", n)
	}
	p, _ := j.Place()
	r := j.ReaderSoFar()
	if e, ok := r.Read(&p); !ok || e.Realtime != 1e15+420 {
		t.Errorf("%v, %v", e, ok)
	}
	r.Close()
	if n := len(j.Files()); n > 3 {
		t.Errorf("%d files open for a Reader", n)
	}
}

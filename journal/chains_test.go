package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// archives writes a directory of two sequences that are interleaved in time: six
// files of ten entries each, and of two boots.
func archives(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for seq, o := range []Options{{SeqnumID: entry.ID{1}}, {SeqnumID: entry.ID{2}, Seqnum: 1000}} {
		n := 0
		for file := range 6 {
			path := filepath.Join(dir, fmt.Sprintf("s%d@%d.journal", seq, (file*5)%6)) // not sorted by name
			w, err := Create(path, o)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				n++
				e := entry.Entry{
					Realtime: uint64(1e15 + n*2e6 + seq*1e6), Monotonic: uint64(n*2e6 + seq), BootID: entry.ID{byte(7 + file/3), byte(seq)},
					Fields: []entry.Field{entry.Field(fmt.Sprintf("MESSAGE=%d.%d", seq, n)), entry.Field(fmt.Sprintf("K=%d", n%3))},
				}
				if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
			o.SeqnumID, o.Seqnum = w.Seqnum()
			if err := w.Archive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// What a chain delivers is what its files deliver that are all looked at, from any
// place and in both directions; and of those that are not at their turn nothing but
// the header is read.
func TestChains(t *testing.T) {
	dir := archives(t)
	open := func() *Journal {
		j, err := ReadOptions{}.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { readerMust(t, j.Close()) })
		return j
	}
	placed := func(j *Journal) (n int) {
		for _, c := range j.files {
			if c.state != stateDeferred {
				n++
			}
		}
		return n
	}
	messages := func(move func() (*entry.Entry, error), limit int) (all []string) {
		for len(all) < limit {
			e, err := move()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			m, _ := e.Get("MESSAGE")
			all = append(all, string(m))
		}
		return all
	}
	j := open()
	first, _ := j.Next()
	if n := placed(j); n != 2 {
		t.Errorf("%d files looked into for the first entry, want 2", n)
	}
	all := append([]string{string(first.Fields[0])[len("MESSAGE="):]}, messages(j.Next, 1000)...)
	if len(all) != 120 {
		t.Fatalf("%d entries: %q", len(all), all)
	}
	for name, seek := range map[string]func(j *Journal){
		"head": (*Journal).SeekHead, "tail": (*Journal).SeekTail,
		"time":  func(j *Journal) { j.SeekRealtime(1e15 + 70e6) },
		"match": func(j *Journal) { j.SetMatch(Term(entry.Field("K=1"))); j.SeekRealtime(1e15 + 33e6) },
		"mono":  func(j *Journal) { j.SeekMonotonic(entry.ID{8, 1}, 100e6) },
		"cursor": func(j *Journal) {
			j.SeekCursor(entry.Cursor{SeqnumID: entry.ID{2}, Seqnum: 1033, Realtime: 1e15 + 67e6, Has: entry.HasSeqnumID | entry.HasSeqnum | entry.HasRealtime})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, turn := range []int{0, 3, 25, 1000} {
				lazy, all := open(), open()
				seek(lazy)
				seek(all)
				// Files that overlap are no chain.
				for _, c := range all.files {
					c.f.hdr.HeadEntrySeqnum = 0
				}
				for k := range 3 {
					for _, back := range []bool{k%2 == 1, k%2 == 0} {
						move, same := lazy.Next, all.Next
						if back {
							move, same = lazy.Previous, all.Previous
						}
						limit := turn
						if k == 2 {
							limit = 1000
						}
						if diff := cmp.Diff(messages(same, limit), messages(move, limit)); diff != "" {
							t.Fatalf("turning after %d, round %d, back %v (-all files +chains):\n%s", turn, k, back, diff)
						}
					}
				}
			}
		})
	}
}

// A file that goes, and comes back, does not take those behind it along.
func TestChainLosesAFile(t *testing.T) {
	dir := archives(t)
	j, err := ReadOptions{}.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for range 5 {
		if _, err := j.Next(); err != nil {
			t.Fatal(err)
		}
	}
	var gone string
	for _, c := range j.files {
		if len(c.rest) > 0 && c.f.hdr.SeqnumID == (entry.ID{1}) {
			gone = c.f.name
		}
	}
	if !j.Remove(gone) {
		t.Fatal("no file at the head of a chain")
	}
	n := 5
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 12 && e.SeqnumID == (entry.ID{1}) && e.Seqnum <= 10 {
			t.Errorf("entry %d of the file that is gone", e.Seqnum)
		}
	}
	if n != 120-10+3 {
		t.Errorf("%d entries", n)
	}
}

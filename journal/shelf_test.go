package journal

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// shelfDir fills a directory with the files of two names and one sequence, whose
// entries lie between one another, and returns the archives of the first, oldest
// first.
func shelfDir(t *testing.T, r *rand.Rand, archives int) (dir string, system []string) {
	t.Helper()
	dir = t.TempDir()
	clock, n := newClock(), uint64(0)
	o := Options{SeqnumID: entry.ID{3}, KeepNumbers: true, SyncLater: true}
	bases := []string{"system", "user-1000"}
	var ws [2]*Writer
	open := func(i int) {
		ws[i] = create(t, filepath.Join(dir, bases[i]+".journal"), o)
	}
	add := func(i int) {
		n++
		e := entry.Entry{Seqnum: n, SeqnumID: o.SeqnumID, XorHash: n, BootID: entry.ID{2}, Fields: []entry.Field{
			entry.Field(fmt.Sprintf("MESSAGE=%d", n)), entry.Field(fmt.Sprintf("OF=%d", n%3)),
		}}
		e.Realtime, e.Monotonic = clock.now()
		_, _, err := ws[i].Append(t.Context(), []entry.Entry{e})
		readerMust(t, err)
		readerMust(t, ws[i].Settle(t.Context()))
	}
	open(0)
	open(1)
	for len(system) < archives {
		add(r.IntN(2))
		i := r.IntN(4)
		if i > 1 || ws[i].HeadSeqnum() == 0 {
			continue
		}
		id, _ := ws[i].Seqnum()
		path := filepath.Join(dir, ArchiveName(bases[i], id, ws[i].HeadSeqnum(), ws[i].HeadRealtime()))
		readerMust(t, ws[i].Rename(path))
		readerMust(t, ws[i].Archive(t.Context()))
		if i == 0 {
			system = append(system, path)
		}
		open(i)
	}
	add(0)
	for _, w := range ws {
		readerMust(t, w.Close())
	}
	return dir, system
}

// shelfWalk goes about two Journals in the same way and compares what they deliver.
func shelfWalk(t *testing.T, r *rand.Rand, late, all *Journal, steps int) {
	t.Helper()
	both := func(do func(*Journal)) { do(late); do(all) }
	for range steps {
		from, k := newClock().realtime, r.IntN(40)
		switch op := r.IntN(9); op {
		case 0:
			both((*Journal).SeekTail)
		case 1:
			both((*Journal).SeekHead)
		case 2:
			both(func(j *Journal) { j.SeekRealtime(from + 25*uint64(k)) })
		case 3:
			m := Match{}
			if k%2 == 0 {
				m = Term(entry.Field("OF=1"))
			}
			both(func(j *Journal) { j.SetMatch(m) })
		default:
			move := (*Journal).Previous
			if op > 6 {
				move = (*Journal).Next
			}
			for range k {
				a, errA := move(late)
				b, errB := move(all)
				if !errors.Is(errA, errB) || errA == nil && a.Cursor() != b.Cursor() {
					t.Fatalf("late %v %v, all %v %v", a, errA, b, errB)
				}
				if errA != nil && !errors.Is(errA, io.EOF) {
					t.Fatal(errA)
				}
			}
		}
	}
}

// Whatever way is gone, archives that are opened late give the entries that they give
// when all are opened at first: also when names say what is not so, and when the
// newest is no journal.
func TestLateIsAsEarly(t *testing.T) {
	oneGoroutine(t)
	for name, change := range map[string]func(files []string) error{
		"as named": func([]string) error { return nil },
		"two names exchanged": func(f []string) error {
			tmp := f[0] + "x"
			return errors.Join(os.Rename(f[0], tmp), os.Rename(f[len(f)-1], f[0]), os.Rename(tmp, f[len(f)-1]))
		},
		"the newest cut":  func(f []string) error { return os.Truncate(f[len(f)-1], 100) },
		"the newest torn": func(f []string) error { return os.Truncate(f[len(f)-1], 8192) },
		"one torn":        func(f []string) error { return os.Truncate(f[len(f)-3], 8192) },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(1) {
				r := rand.New(rand.NewPCG(seed, 7))
				dir, system := shelfDir(t, r, 6)
				readerMust(t, change(system))
				for range 5 {
					late, err := ReadOptions{Late: true}.OpenDir(dir)
					readerMust(t, err)
					all, err := OpenDir(dir)
					readerMust(t, err)
					shelfWalk(t, r, late, all, 12)
					late.OpenAll()
					if a, b := len(late.Files()), len(all.Files()); a != b {
						t.Errorf("%d files, want %d", a, b)
					}
					if a, b := len(late.Skipped()), len(all.Skipped()); a != b {
						t.Errorf("%d files skipped, want %d", a, b)
					}
					readerMust(t, errors.Join(late.Close(), all.Close()))
				}
			}
		})
	}
}

// The newest entries of a directory need the newest files, also when reading turns
// back; a file that was removed meanwhile is not missed.
func TestLateOpensFew(t *testing.T) {
	dir, system := shelfDir(t, rand.New(rand.NewPCG(1, 1)), 12)
	j, err := ReadOptions{Late: true}.OpenDir(dir)
	readerMust(t, err)
	defer j.Close()
	before := len(j.Files())
	readerMust(t, os.Remove(system[0]))
	j.SeekTail()
	_, err = j.Previous()
	readerMust(t, err)
	first, err := j.Previous()
	readerMust(t, err)
	c := first.Cursor()
	_, err = j.Next()
	readerMust(t, err)
	if before > 4 || len(j.Files()) > 6 {
		t.Errorf("%d files open at first, %d for 2 entries", before, len(j.Files()))
	}
	j.SeekCursor(c)
	if e, err := j.Previous(); err != nil || e.Cursor() != c {
		t.Errorf("%v, %v", e, err)
	}
	j.SeekHead()
	if _, err = j.Next(); err != nil || len(j.Files()) < 13 || len(j.Skipped()) > 0 {
		t.Errorf("%v, %d files open from the head, %v", err, len(j.Files()), j.Skipped())
	}
}

func TestShelvedNames(t *testing.T) {
	const id = "c51268278d1cf4803bfc0c135bb67e08"
	base, s, ok := shelvedOf("/d/system@" + id + "-00000000000007d1-00064798f8f9ad3f.journal")
	if !ok || base != "/d/system@"+id || s.seqnum != 0x7d1 {
		t.Errorf("%q %+v %v", base, s, ok)
	}
	for _, name := range []string{
		"", "@.journal", "system.journal", "system@" + id + "-00000000000007d1-00064798f8f9ad3f.journal~",
		"system@" + id + "-0000000000000000-00064798f8f9ad3f.journal", "system@00064798f8f9ad3f-00000000000007d1.journal~",
		"system@" + id + "-7d1-00064798f8f9ad3f.journal", id + "-00000000000007d1-00064798f8f9ad3f.journal",
		"system@" + id + "-00000000000007d1-00064798f8f9ad3g.journal", "system@" + id + "_00000000000007d1-00064798f8f9ad3f.journal",
	} {
		if _, _, ok := shelvedOf(name); ok {
			t.Errorf("%s waits", name)
		}
	}
	j := ReadOptions{}.New()
	if open := j.shelve([]string{
		"/d/system@" + id[:31] + "x-00000000000007d1-00064798f8f9ad3f.journal",
		"/d/system@" + strings.Repeat("0", 32) + "-00000000000007d1-00064798f8f9ad3f.journal",
	}); len(open) != 2 || len(j.shelves) != 0 {
		t.Errorf("%d open, %d shelves: of no sequence", len(open), len(j.shelves))
	}
}

package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Every entry that a reader delivers of a damaged file is in the file that Rescue
// writes, which journalctl verifies and reads the same.
func TestRescueSavesTheCorpus(t *testing.T) {
	oneGoroutine(t)
	for fi, f := range corpusFiles(t) {
		for i, d := range damages {
			if (fi+i)%inFull(1, 19) != 0 {
				continue
			}
			what := f.name + ": " + d.name
			dir := t.TempDir()
			path, out := filepath.Join(dir, "bad.journal"), filepath.Join(dir, "good.journal")
			b := d.do(f, bytes.Clone(f.b))
			readerMust(t, os.WriteFile(path, b, 0o600))
			rep, err := Rescue(t.Context(), path, out, RescueOptions{})
			want := corpusCounts[f.name][i]
			if want == 0 {
				if !errors.Is(err, ErrNothingSaved) || len(names(t, dir)) != 1 {
					t.Errorf("%s: %v, and there are %v", what, err, names(t, dir))
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if got := rep.Entries + rep.Lost; got != uint64(want) || !slices.Equal(names(t, dir), []string{"bad.journal", "good.journal"}) {
				t.Errorf("%s: %d of %d entries, %v", what, got, want, names(t, dir))
			}
			saved := fileBytes(t, out)
			if !bytes.Equal(fileBytes(t, path), b) {
				t.Errorf("%s: the damaged file was changed", what)
			}
			if rep.LostFields+rep.Renumbered+rep.Retimed+rep.Rehashed == 0 {
				old, _ := corpusRead(t, b, Match{}, down)
				now, warnings := corpusRead(t, saved, Match{}, down)
				if !slices.EqualFunc(old, now, sameButOrder) || len(warnings) > 0 {
					t.Errorf("%s: what was saved is not what there was: %d, %d, %v", what, len(old), len(now), warnings)
				}
			}
			if object.U64(saved, object.HdrHeaderSize) == object.HeaderSize252 {
				journalctl(t, "--verify", "--file", out)
			}
		}
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	readerMust(t, err)
	for _, de := range list {
		out = append(out, de.Name())
	}
	return out
}

func sameButOrder(a, b corpusEntry) bool {
	slices.Sort(a.fields)
	slices.Sort(b.fields)
	return a.cursor == b.cursor && slices.Equal(a.fields, b.fields)
}

// What breaks the order of a file is put right: a number, a time, an xor_hash; and
// what cannot be trusted is left out and counted.
func TestRescueTellsWhatItChanged(t *testing.T) {
	for _, regular := range []bool{false, true} {
		t.Run(fmt.Sprint("regular ", regular), func(t *testing.T) {
			f := vSmall(t, Flavour{Regular: regular})
			at := func(i, field int) int { return f.entries[i] + field }
			f.put(at(0, object.EntrySeqnum), 1<<40)
			f.put(at(10, object.EntrySeqnum), 1<<40)
			f.put(at(20, object.EntryMonotonic), 1<<40)
			f.put(at(21, object.EntryMonotonic), 1)
			f.put(at(30, object.EntryXorHash), 1)
			f.b[f.payload(f.data["N=40"])+2] ^= 0x40 // another value
			f.b[f.payload(f.data["N=41"])] ^= 0x40   // no name any more
			object.PutU64(f.b, f.data["N=42"]+object.DataHash, 7)
			fs := wInMemory(t, f.b)
			rep, err := Rescue(t.Context(), wCrashPath, "/good.journal", RescueOptions{FS: fs})
			readerMust(t, err)
			rep.Skipped = 0
			want := RescueReport{
				Files: []string{"/good.journal"}, Entries: 100, Counted: 100,
				LostFields: 1, ChangedFields: 2, Renumbered: 2, Retimed: 2, Rehashed: 3,
			}
			if fmt.Sprint(rep) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v", rep, want)
			}
			good, _ := corpusRead(t, vSmall(t, Flavour{Regular: regular}).b, Match{}, down)
			got, _ := corpusRead(t, fs.Bytes("/good.journal"), Match{}, down)
			for i := range got {
				if got[i].cursor.Seqnum != good[i].cursor.Seqnum || got[i].cursor.Realtime != good[i].cursor.Realtime {
					t.Errorf("entry %d has number %d, want %d", i, got[i].cursor.Seqnum, good[i].cursor.Seqnum)
				}
				if i != 40 && i != 41 && strings.Join(got[i].fields, " ") != strings.Join(good[i].fields, " ") {
					t.Errorf("entry %d has %q, want %q", i, got[i].fields, good[i].fields)
				}
			}
		})
	}
}

// A file that exists is not overwritten, whichever of the names it has.
func TestRescueOverwritesNothing(t *testing.T) {
	f := vSmall(t, Flavour{})
	for _, taken := range []string{"/good.journal", "/good.2.journal", "/good.3.journal"} {
		mem := wInMemory(t, f.b)
		w, err := mem.OpenFile(taken, os.O_RDWR|os.O_CREATE, 0o600)
		readerMust(t, err)
		_, err = w.WriteAt([]byte("precious"), 0)
		readerMust(t, err)
		big := wManyValues(t)
		b, err := mem.OpenFile("/big.journal", os.O_RDWR|os.O_CREATE, 0o600)
		readerMust(t, err)
		_, err = b.WriteAt(big, 0)
		readerMust(t, err)
		_, err = Rescue(t.Context(), "/big.journal", "/good.journal", RescueOptions{FS: mem, MaxSize: MinMaxSize})
		if !errors.Is(err, fs.ErrExist) || string(mem.Bytes(taken)) != "precious" {
			t.Errorf("%s: %v, and it holds %.20q", taken, err, mem.Bytes(taken))
		}
		list, err := mem.ReadDir("/")
		readerMust(t, err)
		if len(list) != 2 {
			t.Errorf("%s: %d files are left", taken, len(list))
		}
	}
}

// wManyValues is a file with more values than the smallest table takes.
func wManyValues(t testing.TB) []byte {
	t.Helper()
	mem := crashfs.New(1)
	w, err := Create("/many.journal", Options{FS: mem, MaxSize: 8 << 20})
	readerMust(t, err)
	for i := range 5000 {
		_, _, err := w.TryAppend([]entry.Entry{wAt(wFields(fmt.Sprintf("N=%d", i)), uint64(1e15+i), uint64(i))})
		readerMust(t, err)
	}
	readerMust(t, w.Archive(context.Background()))
	return mem.Bytes("/many.journal")
}

// Where the table of one file is full there are more files, which continue the
// numbers, and a reader of all of them has every entry.
func TestRescueIntoSeveralFiles(t *testing.T) {
	mem := wInMemory(t, wManyValues(t))
	calls := 0
	rep, err := Rescue(t.Context(), wCrashPath, "/d/good.journal", RescueOptions{
		FS: mem, MaxSize: MinMaxSize,
		Progress: func(done, total uint64) {
			if calls++; done > total || total != 5000 {
				t.Errorf("%d of %d", done, total)
			}
		},
	})
	readerMust(t, err)
	want := []string{"/d/good.journal", "/d/good.2.journal", "/d/good.3.journal", "/d/good.4.journal"}
	if !slices.Equal(rep.Files, want) || rep.Entries != 5000 || calls == 0 {
		t.Errorf("%+v, %d calls", rep, calls)
	}
	next := uint64(1)
	for _, name := range rep.Files {
		entries, _ := corpusRead(t, mem.Bytes(name), Match{}, down)
		for _, e := range entries {
			if e.cursor.Seqnum != next {
				t.Fatalf("%s: number %d, want %d", name, e.cursor.Seqnum, next)
			}
			next++
		}
	}
}

// However a call fails, or the process dies, there is no file called out that is
// not whole, and after an error nothing at all is left.
func TestRescueCrashLeavesNoHalf(t *testing.T) {
	bad := vSmall(t, Flavour{}).b
	whole := func(when string, left *crashfs.FS) {
		t.Helper()
		b := left.Bytes("/good.journal")
		if b == nil {
			return
		}
		if entries, warnings := corpusRead(t, b, Match{}, down); len(entries) != 100 || len(warnings) > 0 {
			t.Errorf("%s: a file with %d entries, %v", when, len(entries), warnings)
		}
	}
	for _, kind := range []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short} {
		for n := 1; ; n += inFull(1, 11) {
			over := false
			synctest.Test(t, func(t *testing.T) {
				mem := wInMemory(t, bad)
				before := mem.Calls()
				mem.FailAt(n, kind, syscall.EIO)
				_, err := Rescue(t.Context(), wCrashPath, "/good.journal", RescueOptions{FS: mem})
				when := fmt.Sprintf("fault %d at call %d", kind, n)
				over = mem.Calls()-before < n
				whole(when, mem.Survivors())
				list, listErr := mem.ReadDir("/")
				readerMust(t, listErr)
				if want := map[bool]int{true: 1, false: 0}[err == nil]; len(list) != want {
					t.Errorf("%s: %v, and there are %d files", when, err, len(list))
				}
			})
			if over {
				break
			}
		}
	}
	for n := 1; ; n += inFull(1, 11) {
		over := false
		synctest.Test(t, func(t *testing.T) {
			mem := wInMemory(t, bad)
			before := mem.Calls()
			mem.StopAt(n)
			_, err := Rescue(t.Context(), wCrashPath, "/good.journal", RescueOptions{FS: mem})
			over = mem.Calls()-before < n
			if !over && err == nil {
				t.Errorf("killed at call %d: no error", n)
			}
			whole(fmt.Sprintf("killed at call %d", n), mem.Survivors())
			for cut := range uint64(3) {
				whole(fmt.Sprintf("power cut %d at call %d", cut, n), mem.PowerCut(cut))
			}
		})
		if over {
			return
		}
	}
}

func TestRescueEndsWithItsContext(t *testing.T) {
	mem := wInMemory(t, vSmall(t, Flavour{}).b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rescue(ctx, wCrashPath, "/good.journal", RescueOptions{FS: mem}); !errors.Is(err, context.Canceled) || mem.Bytes("/good.journal") != nil {
		t.Error(err)
	}
}

func TestLongestGrowing(t *testing.T) {
	for _, c := range []struct {
		values   []uint64
		strictly bool
		want     string
	}{
		{[]uint64{1, 2, 3}, true, "[]"},
		{nil, true, "[]"},
		{[]uint64{5, 5, 6}, false, "[]"},
		{[]uint64{5, 5, 6}, true, "[false true true]"},
		{[]uint64{1, 900, 3, 4}, true, "[true false true true]"},
		{[]uint64{900, 2, 3, 4}, true, "[false true true true]"},
		{[]uint64{1, 2, 3, 0}, true, "[true true true false]"},
		{[]uint64{5, 4, 3}, true, "[false false true]"},
	} {
		if got := fmt.Sprint(longestGrowing(len(c.values), c.strictly, func(i int) uint64 { return c.values[i] })); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.values, c.strictly, got, c.want)
		}
	}
}

package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// wWhole lists the entries in (after, last] of a file in memory that are whole.
func wWhole(t testing.TB, b []byte, after, last uint64) (out []entry.Entry) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	for e := range f.Whole(after, last) {
		c := *e
		c.Fields = make([]entry.Field, len(e.Fields))
		for i := range e.Fields {
			c.Fields[i] = bytes.Clone(e.Fields[i])
		}
		out = append(out, c)
	}
	return out
}

func TestWholeDeliversARange(t *testing.T) {
	for _, fl := range []Flavour{{}, {Regular: true}, {Unkeyed: true}} {
		b := wFileBytes(t, fl, 300)
		all := wEntriesOf(t, b)
		for _, r := range []struct{ after, last uint64 }{{0, 300}, {0, 1}, {299, 300}, {100, 250}, {300, 300}, {0, 999}, {500, 999}} {
			want := all[min(r.after, 300):min(r.last, 300)]
			if got := wWhole(t, b, r.after, r.last); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(want, got) {
				t.Errorf("%v: %d entries in (%d, %d], want %d", fl, len(got), r.after, r.last, len(want))
			}
		}
	}
}

// wExtent is where bytes of the file are that an entry consists of.
type wExtent struct{ from, to uint64 }

// wExtents tells for each entry where it and its fields are.
func wExtents(t testing.TB, b []byte) map[uint64][]wExtent {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[uint64][]wExtent)
	var fs fields
	for i := range f.Entries() {
		var h entryHead
		off, err := f.entryAt(i)
		if err = errors.Join(err, f.readHead(off, &h)); err == nil {
			err = f.readItems(&h, &fs)
		}
		if err != nil {
			t.Fatal(err)
		}
		at := []wExtent{{h.off, h.off + h.size}}
		for _, item := range fs.items {
			head, err := f.at(item, 16)
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, wExtent{item, item + uint64(head[8]) | uint64(head[9])<<8 | uint64(head[10])<<16})
		}
		out[h.seqnum] = at
	}
	return out
}

// wHalves is a file as its writer leaves it when it dies: as it was when it had
// 150 entries, and with 300.
func wHalves(t testing.TB, fl Flavour) (old, b []byte) {
	t.Helper()
	fs := crashfs.New(1)
	w, err := Create("/a.journal", Options{FS: fs, Flavour: fl, MaxSize: MinMaxSize})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g := newWGen(31)
	for _, half := range []*[]byte{&old, &b} {
		_, _, err := w.TryAppend(g.batch(150))
		if err = errors.Join(err, w.SettleIndex(t.Context())); err != nil {
			t.Fatal(err)
		}
		*half = fs.Bytes("/a.journal")
	}
	return old, b
}

// What a disk has lost after a failed sync is what it holds from before: of some
// pages, the header's maybe. The entries that lie elsewhere are delivered as they
// were, no other.
func TestWholeLeavesOutWhatWasLost(t *testing.T) {
	oneGoroutine(t)
	for i := range uint64(crashRuns(25)) {
		r := rand.New(rand.NewPCG(i, 1))
		old, b := wHalves(t, Flavour{Regular: i%3 == 1, Unkeyed: i%3 == 2})
		all, extents := wEntriesOf(t, b), wExtents(t, b)
		h := decodeHeader(b)
		first := object.Align8(h.DataHashTableOffset+h.DataHashTableSize)/pageSize + 1
		lost := map[uint64]bool{}
		for range 1 + r.IntN(8) {
			lost[first+r.Uint64N(h.TailObjectOffset/pageSize+1-first)] = true
		}
		for page := range lost {
			copy(b[page*pageSize:], old[page*pageSize:][:pageSize])
		}
		if r.IntN(2) == 0 {
			copy(b[:pageSize], old)
		}
		var want []entry.Entry
		for _, e := range all[150:] {
			if !slices.ContainsFunc(extents[e.Seqnum], func(x wExtent) bool {
				for page := x.from / pageSize; page <= (x.to-1)/pageSize; page++ {
					if lost[page] {
						return true
					}
				}
				return false
			}) {
				want = append(want, e)
			}
		}
		got := wWhole(t, b, 150, 300)
		// A lost page may hold what it held before.
		got = slices.DeleteFunc(got, func(e entry.Entry) bool {
			return reflect.DeepEqual(e, all[e.Seqnum-1]) && !slices.ContainsFunc(want, func(w entry.Entry) bool { return w.Seqnum == e.Seqnum })
		})
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d, lost %v: (-want +got):\n%.3000s", i, lost, cmp.Diff(want, got))
		}
	}
}

// A flipped bit in a field, or in the list of an entry's fields, never gets
// through. Nothing proves the times and the number of an entry.
func TestWholeDoesNotDeliverDamage(t *testing.T) {
	_, b := wHalves(t, Flavour{})
	text := func(e *entry.Entry) string { return fmt.Sprintf("%x %q", e.XorHash, e.Fields) }
	whole := map[string]bool{}
	for _, e := range wEntriesOf(t, b) {
		whole[text(&e)] = true
	}
	r := rand.New(rand.NewPCG(1, 1))
	end := int(decodeHeader(b).TailObjectOffset)
	for range crashRuns(25) {
		c := bytes.Clone(b)
		at := end - r.IntN(end/5)
		c[at] ^= 1 << r.IntN(8)
		for _, e := range wWhole(t, c, 0, 300) {
			if !whole[text(&e)] {
				t.Fatalf("byte %#x changed: entry %d is %s", at, e.Seqnum, text(&e))
			}
		}
	}
}

func TestWholeEndsWhenNoMoreIsWanted(t *testing.T) {
	b := wFileBytes(t, Flavour{}, 100)
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range f.Whole(0, 200) {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("%d entries after a break at 10", n)
	}
}

// wCopy copies the entries in (after, last] of a file into another one of the
// same sequence.
func wCopy(t testing.TB, b []byte, after, last uint64, o Options) *crashfs.FS {
	t.Helper()
	fs := crashfs.New(1)
	o.FS, o.KeepNumbers, o.Seqnum = fs, true, after
	o.SeqnumID = decodeHeader(b).SeqnumID
	w, err := Create("/b.journal", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range wWhole(t, b, after, last) {
		if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestCopiesKeepTheirNumbers(t *testing.T) {
	oneGoroutine(t)
	for _, fl := range []Flavour{{}, {Regular: true}, {Unkeyed: true}} {
		b := wFileBytes(t, fl, 300)
		copied := wCopy(t, b, 120, 290, Options{MaxSize: MinMaxSize}).Bytes("/b.journal")
		wVerifyBytes(t, copied)
		if d := cmp.Diff(wEntriesOf(t, b)[120:290], wEntriesOf(t, copied), cmp.Transformer("sort", sortedFields)); d != "" {
			t.Errorf("%v: copies (-want +got):\n%s", fl, d)
		}
	}
}

// sortedFields makes the order of fields, which is that of their places in a
// file, that of their bytes.
func sortedFields(f []entry.Field) []string {
	var out []string
	for _, x := range f {
		out = append(out, string(x))
	}
	slices.Sort(out)
	return out
}

func TestCopiesMustGrow(t *testing.T) {
	w, _ := wMemWriter(t, Options{KeepNumbers: true, SeqnumID: entry.ID{7}, Seqnum: 10})
	defer w.Close()
	for _, tt := range []struct {
		seqnum uint64
		want   error
	}{{0, ErrSeqnum}, {10, ErrSeqnum}, {12, nil}, {12, ErrSeqnum}, {11, ErrSeqnum}, {20, nil}} {
		e := wAt(wFields("A=1"), 100, 100)
		e.Seqnum, e.XorHash = tt.seqnum, 5
		if _, _, err := w.TryAppend([]entry.Entry{e}); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("number %d: %v, want %v", tt.seqnum, err, tt.want)
		}
	}
	if _, tail := w.Seqnum(); tail != 20 || w.HeadSeqnum() != 12 {
		t.Errorf("numbers %d to %d, want 12 to 20", w.HeadSeqnum(), tail)
	}
}

// The real journalctl shows an entry once that is in a file set aside and, copied,
// in another, and passes the other.
func TestCopiesAreShownOnceByJournalctl(t *testing.T) {
	journalctl := wNeedTool(t, "journalctl")
	_, b := wHalves(t, Flavour{})
	dir := t.TempDir()
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := decodeHeader(b).SeqnumID
	write(DisposedName("system", 1, 2), b)
	next := wCopy(t, b, 300, 300, Options{MaxSize: MinMaxSize}).Bytes("/b.journal")
	write("system.journal", next)
	copied := ArchiveName("system", id, 101, wEntriesOf(t, b)[100].Realtime)
	write(copied, wCopy(t, b, 100, 300, Options{MaxSize: MinMaxSize}).Bytes("/b.journal"))
	wVerify(t, filepath.Join(dir, copied))
	for _, args := range [][]string{{}, {"--reverse"}, {"PRIORITY=3", "+", "PRIORITY=4"}} {
		out, err := exec.Command(journalctl, append([]string{"-q", "-o", "export", "-D", dir}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, e := range wEntriesOf(t, b) {
			p, _ := e.Get("PRIORITY")
			if len(args) < 2 || string(p) == "3" || string(p) == "4" {
				want = append(want, fmt.Sprintf("i=%x", e.Seqnum))
			}
		}
		if len(args) == 1 {
			slices.Reverse(want)
		}
		for line := range strings.Lines(string(out)) {
			if rest, ok := strings.CutPrefix(line, "__CURSOR="); ok {
				got = append(got, strings.Split(rest, ";")[1])
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("journalctl %v (-want +got):\n%.2000s", args, d)
		}
	}
}

// A follower that has shown the original does not show the copy.
func TestFollowerShowsNoCopies(t *testing.T) {
	_, b := wHalves(t, Flavour{})
	dir := t.TempDir()
	aside := filepath.Join(dir, DisposedName("system", 1, 2))
	if err := os.WriteFile(aside, b, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := Open([]string{aside})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n, err := j.Skip(400); n != 300 || err != nil {
		t.Fatal(n, err)
	}
	copied := filepath.Join(dir, "copied.journal")
	if err := os.WriteFile(copied, wCopy(t, b, 100, 300, Options{MaxSize: MinMaxSize}).Bytes("/b.journal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Add(copied), j.Refresh()); err != nil {
		t.Fatal(err)
	}
	if n, err := j.Skip(400); n != 0 || err != nil {
		t.Errorf("%d entries are shown again, %v", n, err)
	}
}

// Of an entry that is in two files the one is read that was not set aside.
func TestCopyIsPreferredToTheOriginal(t *testing.T) {
	_, b := wHalves(t, Flavour{})
	copied := wCopy(t, b, 0, 300, Options{MaxSize: MinMaxSize}).Bytes("/b.journal")
	at := bytes.Index(b, []byte("MESSAGE=message 200 "))
	b[at+len("MESSAGE")] = 0 // the original has lost this field
	for _, reverse := range []bool{false, true} {
		j := ReadOptions{}.New()
		for name, b := range map[string][]byte{"a.journal~": b, "b.journal": copied} {
			f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, name)
			if err != nil {
				t.Fatal(err)
			}
			j.AddFile(f)
		}
		all := j.All()
		if reverse {
			j.SeekTail()
			all = j.Backward()
		}
		n := 0
		for e, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := e.Get("MESSAGE"); !ok {
				t.Errorf("entry %d without its message", e.Seqnum)
			}
			n++
		}
		if n != 300 {
			t.Errorf("%d entries, want 300", n)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSyncedSeqnum(t *testing.T) {
	fs := crashfs.New(1)
	w, err := Create("/a.journal", Options{FS: fs, SeqnumID: entry.ID{7}, Seqnum: 40, MaxSize: MinMaxSize})
	if err != nil {
		t.Fatal(err)
	}
	g := newWGen(1)
	steps := func(want uint64) {
		t.Helper()
		if got := w.SyncedSeqnum(); got != want {
			t.Errorf("synced up to %d, want %d", got, want)
		}
	}
	steps(40)
	for i := range uint64(2) {
		if _, _, err := w.TryAppend(g.batch(5)); err != nil {
			t.Fatal(err)
		}
		steps(40 + 5*i)
		if err := w.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		steps(45 + 5*i)
	}
	fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
		if op.Name == "sync" {
			return crashfs.NotDone, syscall.EIO
		}
		return 0, nil
	})
	pos, _, err := w.TryAppend(g.batch(3))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, ErrSync) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Wait() = %v, want ErrSync and why", err)
	}
	if err := w.Close(); !errors.Is(err, ErrSync) {
		t.Errorf("Close() = %v, want ErrSync", err)
	}
	steps(50)
	if _, err := Create("/b.journal", Options{FS: fs}); !errors.Is(err, ErrSync) {
		t.Errorf("Create() = %v, want ErrSync", err)
	}
}

// A field that was submitted twice is stored once and cancels out in xor_hash: its
// own hash tells that it is damaged, and its absence that it is lost, also that of
// the last one, which leaves the others in their places.
func TestWholeChecksEveryField(t *testing.T) {
	for what, damage := range map[string]func(field []byte){
		"changed": func(b []byte) { b[len("TAG=x")-1] ^= 1 },
		"lost":    func(b []byte) { b[len("TAG")] = 0 },
	} {
		for where, fields := range map[string][]string{"first": {"TAG=x", "TAG=x", "A=1"}, "last": {"A=1", "TAG=x", "TAG=x"}} {
			w, fs := wMemWriter(t, Options{})
			if _, _, err := w.TryAppend([]entry.Entry{wAt(wFields(fields...), 100, 100), wAt(wFields("A=1"), 101, 101)}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b := fs.Bytes(wCrashPath)
			if n := len(wWhole(t, b, 0, 2)); n != 2 {
				t.Fatalf("%d entries, want 2", n)
			}
			damage(b[bytes.Index(b, []byte("TAG=x")):])
			if got := wWhole(t, b, 0, 2); len(got) != 1 || got[0].Seqnum != 2 {
				t.Errorf("%s field %s: %v, want the second entry only", where, what, got)
			}
		}
	}
}

// Nothing proves the number of an entry. One that a damaged file has in the wrong
// place is left out: numbers only grow, and none comes twice.
func TestWholeDeliversNoNumberTwice(t *testing.T) {
	b := wFileBytes(t, Flavour{}, 300)
	all, extents := wEntriesOf(t, b), wExtents(t, b)
	for _, to := range []uint64{20, 120, 200} { // before the range, in it, and the one before
		c := bytes.Clone(b)
		object.PutU64(c[extents[201][0].from:], object.EntrySeqnum, to)
		want := slices.Concat(all[100:200], all[201:])
		if got := wWhole(t, c, 100, 300); !reflect.DeepEqual(got, want) {
			t.Errorf("entry 201 has the number %d: %d entries, want %d, in order", to, len(got), len(want))
		}
	}
}

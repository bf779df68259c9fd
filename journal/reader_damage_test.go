package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// placed is an object of a good compact file.
type placed struct {
	off, size uint64
	t         object.Type
	key       entryKey // of entries
	items     []uint64 // of entries
}

// entryKey tells the entries of one file apart.
type entryKey struct{ seqnum, realtime, xorHash uint64 }

// layoutOf lists the objects.
func layoutOf(t testing.TB, b []byte) []placed {
	t.Helper()
	var out []placed
	tail := object.U64(b, object.HdrTailObjectOffset)
	for off := object.U64(b, object.HdrHeaderSize); off <= tail; {
		p := placed{off: off, t: object.Type(b[off]), size: object.U64(b, int(off)+object.ObjSize)}
		if p.t == object.Entry {
			o := b[off : off+p.size]
			p.key = entryKey{object.U64(o, object.EntrySeqnum), object.U64(o, object.EntryRealtime), object.U64(o, object.EntryXorHash)}
			for i := object.EntryItems; i < len(o); i += object.EntryItemSizeCompact {
				p.items = append(p.items, uint64(object.U32(o, i)))
			}
		}
		out = append(out, p)
		off += object.Align8(p.size)
	}
	return out
}

// readAll reads everything there is of a file in memory, by every method, and
// returns how often each entry is delivered going forward. All errors must be
// of this package.
func readAll(t testing.TB, b []byte) (delivered map[entryKey]int, warnings []error) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "damaged")
	if err != nil {
		var format *FormatError
		if !errors.As(err, &format) {
			t.Fatalf("error %v is no FormatError", err)
		}
		return nil, []error{err}
	}
	j := ReadOptions{}.New()
	j.AddFile(f)
	defer j.Close()
	delivered = make(map[entryKey]int)
	walk := func(move func() (*entry.Entry, error)) int {
		// An entry has at least 68 bytes. More than fit mean an endless loop.
		for n := 0; ; n++ {
			e, err := move()
			if errors.Is(err, io.EOF) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			if n > len(b)/8 {
				t.Fatal("more entries than there is room for")
			}
			delivered[entryKey{e.Seqnum, e.Realtime, e.XorHash}]++
		}
	}
	forward := walk(j.Next)
	got := delivered
	delivered = make(map[entryKey]int)
	j.SeekTail()
	if backward := walk(j.Previous); backward != forward {
		t.Logf("forward %d, backward %d entries", forward, backward)
	}
	j.SetMatch(Term(entry.Field("PRIORITY=6")))
	j.SeekHead()
	walk(j.Next)
	j.SetMatch(Not(Term(entry.Field("PRIORITY=6"))))
	j.SeekRealtime(1)
	walk(j.Next)
	j.SetMatch(Match{})
	for _, err := range j.UniqueValues("PRIORITY") {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range j.FieldNames() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Boots(); err != nil {
		t.Fatal(err)
	}
	j.SeekMonotonic(entry.ID{1}, 5)
	walk(j.Next)
	for _, w := range j.Warnings() {
		var format *FormatError
		if !errors.As(w, &format) {
			t.Errorf("warning %v is no FormatError", w)
		}
	}
	return got, j.Warnings()
}

// damageSample is a file small enough to read a thousand times.
func damageSample(t testing.TB) []byte {
	t.Helper()
	b := sampleBytes(t, "r-11")
	return b[:min(len(b), int(object.U64(b, object.HdrHeaderSize)+object.U64(b, object.HdrArenaSize)))]
}

func TestTruncatedFileDeliversWhatIsLeft(t *testing.T) {
	oneGoroutine(t)
	b := damageSample(t)
	objects := layoutOf(t, b)
	for i := 0; i < len(objects); i += 1 + len(objects)/60 {
		for _, extra := range []uint64{0, 8, objects[i].size - 1} {
			end := objects[i].off + extra
			want := 0
			for _, o := range objects {
				if o.t == object.Entry && o.off+o.size <= end {
					want++
				}
			}
			got, warnings := readAll(t, b[:end])
			if len(got) != want {
				t.Errorf("cut at %d: %d entries, want %d", end, len(got), want)
			}
			if len(warnings) == 0 {
				t.Errorf("cut at %d: no warning", end)
			}
		}
	}
}

func TestShortFilesAreTypedErrors(t *testing.T) {
	b := damageSample(t)
	for _, n := range []int{0, 1, 8, 100, object.HeaderSizeMin - 1} {
		_, err := NewFile(bytes.NewReader(b[:n]), func() int64 { return int64(n) }, "short")
		if !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v, want ErrTruncated", n, err)
		}
	}
	for name, edit := range map[string]struct {
		off  int
		v    byte
		want error
	}{
		"signature":        {0, 'X', ErrNotJournal},
		"unknown flag":     {object.HdrIncompatible, 0x9c, ErrUnsupported},
		"unknown high bit": {object.HdrIncompatible + 3, 0x80, ErrUnsupported},
	} {
		c := bytes.Clone(b)
		c[edit.off] = edit.v
		_, err := NewFile(bytes.NewReader(c), func() int64 { return int64(len(c)) }, "x")
		var format *FormatError
		if !errors.Is(err, edit.want) || !errors.As(err, &format) || format.Path != "x" {
			t.Errorf("%s: %v, want %v", name, err, edit.want)
		}
	}
}

// Every entry whose own bytes are untouched, and that still has a field, is
// delivered, whatever else is hit.
func checkIntact(t *testing.T, good, bad []byte, objects []placed) {
	t.Helper()
	got, _ := readAll(t, bad)
	for _, o := range objects {
		same := func(off, size uint64) bool { return bytes.Equal(good[off:off+size], bad[off:off+size]) }
		if o.t != object.Entry || !same(o.off, o.size) || !slices.ContainsFunc(o.items, func(off uint64) bool {
			return same(off, object.U64(good[off:], object.ObjSize))
		}) {
			continue
		}
		if n := got[o.key]; n != 1 {
			t.Errorf("entry %d at %d is intact but was delivered %d times", o.key.seqnum, o.off, n)
		}
	}
}

func TestFlippedBitsLoseNoIntactEntry(t *testing.T) {
	oneGoroutine(t)
	b := damageSample(t)
	objects := layoutOf(t, b)
	first := objects[2].off // behind the tables
	for _, n := range []int{1, 10, 100, 1000} {
		for seed := range uint64(inFull(12, 4)) {
			t.Run(fmt.Sprintf("%d/%d", n, seed), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, uint64(n)))
				c := bytes.Clone(b)
				for range n {
					i := first + uint64(rnd.Int64N(int64(uint64(len(b))-first)))
					c[i] ^= 1 << rnd.IntN(8)
				}
				checkIntact(t, b, c, objects)
			})
		}
	}
}

func TestDamagedHeaderLosesNoEntry(t *testing.T) {
	oneGoroutine(t)
	b := damageSample(t)
	objects := layoutOf(t, b)
	for _, off := range []int{
		object.HdrState, object.HdrHeaderSize, object.HdrArenaSize, object.HdrDataHashTableOffset,
		object.HdrFieldHashTableSize, object.HdrTailObjectOffset, object.HdrNObjects, object.HdrNEntries,
		object.HdrHeadEntrySeqnum, object.HdrEntryArrayOffset, object.HdrTailEntryArrayOffset,
	} {
		for _, v := range []byte{0, 1, 0x55, 0xff} {
			t.Run(fmt.Sprintf("%d=%#x", off, v), func(t *testing.T) {
				c := bytes.Clone(b)
				for i := range 8 {
					if off != object.HdrState || i == 0 {
						c[off+i] = v
					}
				}
				checkIntact(t, b, c, objects)
			})
		}
	}
}

func TestZeroedRangesLoseNoIntactEntry(t *testing.T) {
	oneGoroutine(t)
	b := damageSample(t)
	objects := layoutOf(t, b)
	first := int(objects[2].off)
	for _, size := range []int{8, 512, 4096, 65536} {
		for k := range 8 {
			t.Run(fmt.Sprintf("%d/%d", size, k), func(t *testing.T) {
				c := bytes.Clone(b)
				from := first + k*(len(b)-first)/8
				clear(c[from:min(from+size, len(c))])
				checkIntact(t, b, c, objects)
			})
		}
	}
}

func TestCyclesEnd(t *testing.T) {
	b := damageSample(t)
	objects := layoutOf(t, b)
	var arrays, data, fieldNames []uint64
	for _, o := range objects {
		switch o.t {
		case object.EntryArray:
			arrays = append(arrays, o.off)
		case object.Data:
			data = append(data, o.off)
		case object.FieldName:
			fieldNames = append(fieldNames, o.off)
		case object.Unused, object.Entry, object.DataHashTable, object.FieldHashTable, object.Tag:
		}
	}
	main := object.U64(b, object.HdrEntryArrayOffset)
	for name, edit := range map[string]func(c []byte){
		"array to itself":       func(c []byte) { object.PutU64(c, int(main)+object.ArrayNext, main) },
		"all arrays to first":   func(c []byte) { setAll(c, arrays, object.ArrayNext, main) },
		"hash chains to first":  func(c []byte) { setAll(c, data, object.DataNextHash, data[0]) },
		"hash chains to itself": func(c []byte) { setAll(c, data, object.DataNextHash, 0) },
		"field lists forward":   func(c []byte) { setAll(c, data, object.DataNextField, data[len(data)-1]) },
		"field lists to itself": func(c []byte) { setAll(c, data, object.DataNextField, 0) },
		"field chains":          func(c []byte) { setAll(c, fieldNames, object.FieldNextHash, fieldNames[0]) },
		"huge counts":           func(c []byte) { setAll(c, data, object.DataNEntries, 1<<60) },
		"huge main count":       func(c []byte) { object.PutU64(c, object.HdrNEntries, 1<<62) },
	} {
		t.Run(name, func(t *testing.T) {
			c := bytes.Clone(b)
			edit(c)
			checkIntact(t, b, c, objects)
		})
	}
}

// setAll writes v, or when v is 0 the object's own offset, to all objects.
func setAll(c []byte, offs []uint64, field int, v uint64) {
	for _, off := range offs {
		to := v
		if to == 0 {
			to = off
		}
		object.PutU64(c, int(off)+field, to)
	}
}

// A flag that systemd does not know either changes nothing.
func TestUnknownObjectFlagIsIgnored(t *testing.T) {
	f := vSmall(t, Flavour{})
	want, _ := corpusRead(t, f.b, Match{}, down)
	for _, off := range f.data {
		f.b[off+object.ObjFlags] |= 0x20
	}
	got, warnings := corpusRead(t, f.b, Match{}, down)
	if !slices.EqualFunc(want, got, sameButOrder) || len(warnings) > 0 {
		t.Errorf("%d entries, want %d, %v", len(got), len(want), warnings)
	}
}

// A damaged index does not hide entries: matching falls back to reading them.
func TestDamagedIndexStillMatches(t *testing.T) {
	b := damageSample(t)
	var data []uint64
	for _, o := range layoutOf(t, b) {
		if o.t == object.Data {
			data = append(data, o.off)
		}
	}
	count := func(c []byte) (n int) {
		f, err := NewFile(bytes.NewReader(c), func() int64 { return int64(len(c)) }, "x")
		if err != nil {
			t.Fatal(err)
		}
		j := ReadOptions{}.New()
		j.AddFile(f)
		defer j.Close()
		j.SetMatch(And(Term(entry.Field("PRIORITY=6")), Not(Term(entry.Field("MESSAGE=message 5")))))
		for _, err := range j.All() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	want := count(b)
	if want == 0 {
		t.Fatal("the sample has no such entry")
	}
	for name, edit := range map[string]func(c []byte){
		"huge counts":     func(c []byte) { setAll(c, data, object.DataNEntries, 1<<60) },
		"arrays nowhere":  func(c []byte) { setAll(c, data, object.DataEntryArray, 12344) },
		"counts too high": func(c []byte) { setAll(c, data, object.DataNEntries, 5000) },
	} {
		c := bytes.Clone(b)
		edit(c)
		if got := count(c); got != want {
			t.Errorf("%s: %d matches, want %d", name, got, want)
		}
	}
}

// The numbers of a journal after a real crash: its last pages were never
// written. Whatever journalctl delivers is delivered, byte for byte.
func TestUncleanForeignFile(t *testing.T) {
	path := sample(t, "foreign")
	j := openSample(t, ReadOptions{}, path)
	got := export(t, j, down)
	want := journalctl(t, "--file", path, "-o", "export")
	if !strings.HasPrefix(got, want) {
		t.Errorf("journalctl prints %d bytes that are no prefix of our %d", len(want), len(got))
	}
	if len(j.Warnings()) == 0 {
		t.Error("no warning about a damaged file")
	}
	if found, counted, ok := j.Files()[0].Salvaged(); !ok || found < 1836 || counted != 1904 {
		t.Errorf("Salvaged() = %d, %d, %v, want at least 1836 of 1904", found, counted, ok)
	}
}

// A file that is cut under the reader delivers what is left, and warnings; also
// a mapped one, instead of SIGBUS.
func TestFileIsCutUnderTheReader(t *testing.T) {
	b := damageSample(t)
	objects := layoutOf(t, b)
	end := objects[len(objects)/2].off
	want := 0
	for _, o := range objects {
		if o.t == object.Entry && o.off+o.size <= end {
			want++
		}
	}
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cut.journal")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			j := openSample(t, o, path)
			for range 10 {
				if _, err := j.Next(); err != nil {
					t.Fatal(err)
				}
			}
			readerMust(t, os.Truncate(path, int64(end)))
			got := 10
			for _, err := range j.All() {
				if err != nil {
					t.Fatal(err)
				}
				got++
			}
			if got != want {
				t.Errorf("%d entries, want %d", got, want)
			}
			if len(j.Warnings()) == 0 {
				t.Error("no warning")
			}
			readerMust(t, os.Truncate(path, 0))
			if err := j.Refresh(); !errors.Is(err, ErrTruncated) {
				t.Errorf("Refresh of an emptied file: %v", err)
			}
			j.SeekHead()
			if _, err := j.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("Next in an emptied file: %v", err)
			}
			if boots, err := j.Boots(); len(boots) != 0 || err != nil {
				t.Errorf("Boots of an emptied file: %v, %v", boots, err)
			}
		})
	}
}

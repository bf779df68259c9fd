package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// corpusFile is a file to be damaged, cut to its real end as an archived one is.
type corpusFile struct {
	name string
	b    []byte
	objs []uint64 // offsets of all objects

	values map[string]bool // all fields
}

func newCorpusFile(name string, b []byte) *corpusFile {
	f := &corpusFile{name: name}
	tail := object.U64(b, object.HdrTailObjectOffset)
	end := uint64(0)
	for off := object.U64(b, object.HdrHeaderSize); off <= tail; off = end {
		size := object.U64(b, int(off)+object.ObjSize)
		if size < object.ObjHdrSize || size > uint64(len(b))-off {
			end = off
			break // foreign: its last pages were never written
		}
		f.objs = append(f.objs, off)
		end = off + object.Align8(size)
	}
	f.b = bytes.Clone(b[:end])
	object.PutU64(f.b, object.HdrArenaSize, end-object.U64(b, object.HdrHeaderSize))
	f.b[object.HdrState] = object.StateArchived
	return f
}

// corpusFiles are real files of every flavour, and what older and newer versions
// of systemd would have made of some.
func corpusFiles(t testing.TB) []*corpusFile {
	t.Helper()
	var out []*corpusFile
	names := []string{"r-00", "foreign"}
	full := os.Getenv("TIDEMARK_FULL") != ""
	if full {
		names = append(names, "sealed-system", "r-11", "esc", "r-01", "r-10")
	}
	for _, name := range names {
		out = append(out, newCorpusFile(name, sampleBytes(t, name)))
	}
	for _, h := range history {
		if full && (h.header == 208 && h.flag != 0 || h.header == 272 && h.flag == object.CompressedZSTD) || h.header == 256 && h.flag == object.CompressedLZ4 {
			out = append(out, newCorpusFile(fmt.Sprintf("%s, %d", h.from, h.header), h.do(t, sampleBytes(t, h.from))))
		}
	}
	return out
}

// of lists the objects of a type.
func (f *corpusFile) of(t object.Type) (out []uint64) {
	for _, off := range f.objs {
		if object.Type(f.b[off]) == t {
			out = append(out, off)
		}
	}
	return out
}

// has tells whether a field is in the file as it was.
func (f *corpusFile) has(field string) bool {
	if f.values == nil {
		f.values = map[string]bool{}
		all, _ := corpusRead(nil, f.b, Match{}, down)
		for _, e := range all {
			for _, field := range e.fields {
				f.values[field] = true
			}
		}
	}
	return f.values[field]
}

// begin is where the objects behind the hash tables begin.
func (f *corpusFile) begin() uint64 { return f.of(object.Data)[0] }

// damages are the ways to damage a file. Each may change b, and returns what is
// left of it.
var damages = []struct {
	name string
	do   func(f *corpusFile, b []byte) []byte
}{
	{"none", func(_ *corpusFile, b []byte) []byte { return b }},
	{"4 KiB cut off", func(_ *corpusFile, b []byte) []byte { return b[:len(b)-4096] }},
	{"half cut off", func(f *corpusFile, b []byte) []byte { return b[:(f.begin()+uint64(len(b)))/2] }},
	{"a third cut off, at an object", func(f *corpusFile, b []byte) []byte { return b[:f.objs[len(f.objs)*2/3]] }},
	{"10 bits", flips(10)},
	{"100 bits", flips(100)},
	{"1000 bits", flips(1000)},
	{"64 KiB of zeros in the middle", func(f *corpusFile, b []byte) []byte {
		from := (int(f.begin()) + len(b)) / 2
		clear(b[from-min(from, 32<<10) : min(from+32<<10, len(b))])
		return b
	}},
	{"64 KiB of zeros in the table of data", func(_ *corpusFile, b []byte) []byte {
		from := object.U64(b, object.HdrDataHashTableOffset) + object.U64(b, object.HdrDataHashTableSize)/2&^7
		clear(b[from:][:64<<10])
		return b
	}},
	{"table of data zero", func(_ *corpusFile, b []byte) []byte {
		clear(b[object.U64(b, object.HdrDataHashTableOffset):][:object.U64(b, object.HdrDataHashTableSize)])
		return b
	}},
	{"no main array", func(_ *corpusFile, b []byte) []byte { object.PutU64(b, object.HdrEntryArrayOffset, 0); return b }},
	{"no entries counted", func(_ *corpusFile, b []byte) []byte { object.PutU64(b, object.HdrNEntries, 0); return b }},
	{"2^62 entries counted", func(_ *corpusFile, b []byte) []byte { object.PutU64(b, object.HdrNEntries, 1<<62); return b }},
	{"header zero from its sizes on", func(_ *corpusFile, b []byte) []byte {
		clear(b[object.HdrArenaSize:object.U64(b, object.HdrHeaderSize)])
		return b
	}},
	{"header and tables zero", func(f *corpusFile, b []byte) []byte {
		clear(b[object.HdrArenaSize:f.begin()])
		return b
	}},
	{"arrays in a circle", func(f *corpusFile, b []byte) []byte {
		setAll(b, f.of(object.EntryArray), object.ArrayNext, f.of(object.EntryArray)[0])
		return b
	}},
	{"arrays of zeros", func(f *corpusFile, b []byte) []byte {
		for _, off := range f.of(object.EntryArray) {
			clear(b[off+object.ArrayItems : off+object.U64(b, int(off)+object.ObjSize)])
		}
		return b
	}},
	{"hash chains in a circle", func(f *corpusFile, b []byte) []byte {
		setAll(b, f.of(object.Data), object.DataNextHash, 0)
		return b
	}},
	{"2^60 entries of each value", func(f *corpusFile, b []byte) []byte {
		setAll(b, f.of(object.Data), object.DataNEntries, 1<<60)
		return b
	}},
	{"one entry of each value", func(f *corpusFile, b []byte) []byte {
		setAll(b, f.of(object.Data), object.DataNEntries, 1)
		return b
	}},
	{"objects of 2^40 bytes", func(f *corpusFile, b []byte) []byte {
		for i, off := range f.of(object.Data) {
			if i%7 == 3 {
				object.PutU64(b, int(off)+object.ObjSize, 1<<40)
			}
		}
		return b
	}},
}

func flips(n int) func(*corpusFile, []byte) []byte {
	return func(f *corpusFile, b []byte) []byte {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		for range n {
			b[f.begin()+r.Uint64N(uint64(len(b))-f.begin())] ^= 1 << r.IntN(8)
		}
		return b
	}
}

// corpusCounts is how many entries there are of each damaged file, in the order
// of damages.
var corpusCounts = map[string][]int{
	"r-00":          {1000, 981, 418, 660, 1000, 995, 958, 780, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"r-01":          {1000, 981, 418, 660, 1000, 995, 958, 780, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"r-10":          {1000, 976, 448, 660, 1000, 997, 943, 692, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"r-11":          {1000, 976, 448, 660, 1000, 997, 943, 692, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"esc":           {5, 0, 1, 2, 5, 3, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
	"sealed-system": {5, 1, 1, 2, 5, 4, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
	"foreign":       {1836, 1830, 1077, 1297, 1836, 1836, 1826, 1785, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836, 1836},
	"r-00, 208":     {1000, 981, 418, 660, 998, 997, 908, 780, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"r-01, 256":     {1000, 981, 418, 660, 999, 996, 918, 780, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
	"r-11, 272":     {1000, 976, 448, 660, 1000, 997, 943, 692, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
}

// corpusEntry is what is compared of an entry.
type corpusEntry struct {
	cursor entry.Cursor
	fields []string
}

// corpusRead reads a file in memory with a match, or without.
func corpusRead(t testing.TB, b []byte, m Match, dir direction) (out []corpusEntry, warnings []error) {
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "damaged")
	if err != nil {
		t.Fatal(err)
	}
	j := ReadOptions{}.New()
	j.AddFile(f)
	defer j.Close()
	j.SetMatch(m)
	if dir == up {
		j.SeekTail()
	}
	for e, err := range j.each(dir) {
		if err != nil {
			t.Fatal(err)
		}
		c := corpusEntry{cursor: e.Cursor()}
		for _, f := range e.Fields {
			c.fields = append(c.fields, string(f))
		}
		out = append(out, c)
	}
	return out, j.Warnings()
}

// The corpus of damaged files: of each as many entries are delivered as can be,
// forwards, backwards, with matches and from a cursor, it is said that there is
// damage, and Verify finds it.
func TestCorpusOfDamagedFiles(t *testing.T) {
	oneGoroutine(t)
	for _, f := range corpusFiles(t) {
		want := corpusCounts[f.name]
		var got []int
		for i, d := range damages {
			b := d.do(f, bytes.Clone(f.b))
			what := f.name + ": " + d.name
			entries, warnings := corpusRead(t, b, Match{}, down)
			got = append(got, len(entries))
			if i < len(want) && len(entries) < want[0] && len(warnings) == 0 {
				t.Errorf("%s: entries are missing without a word", what)
			}
			back, _ := corpusRead(t, b, Match{}, up)
			slices.Reverse(back)
			if !slices.EqualFunc(entries, back, func(a, b corpusEntry) bool { return a.cursor == b.cursor }) {
				t.Errorf("%s: %d entries forwards, others backwards (%d)", what, len(entries), len(back))
			}
			if (i+len(f.name))%inFull(1, 2) == 0 {
				corpusMatches(t, what, f, b, entries, direction(i/2%2*2-1))
			}
			corpusSeeks(t, what, b, entries)
			report, err := Verify(t.Context(), bytes.NewReader(b), int64(len(b)), "damaged", VerifyOptions{})
			// Of empty buckets in a table of few objects nobody can know.
			if good := err == nil && report.OK(); good != bytes.Equal(b, f.b) && f.name != "foreign" && d.name != "64 KiB of zeros in the table of data" {
				t.Errorf("%s: verified: %v", what, good)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: {%s}, want %v", f.name, strings.Trim(strings.ReplaceAll(fmt.Sprint(got), " ", ", "), "[]"), want)
		}
	}
}

// corpusMatches wants every entry that has a field to be found by it: a few
// fields, of which one goes in direction dir unless everything is tested.
func corpusMatches(t *testing.T, what string, f *corpusFile, b []byte, entries []corpusEntry, dir direction) {
	t.Helper()
	terms := map[string]bool{}
	for i := 0; i < len(entries); i += 1 + len(entries)/3 {
		for k := 0; k < len(entries[i].fields); k += 1 + len(entries[i].fields)/4 {
			if field := entries[i].fields[k]; f.has(field) {
				terms[field] = true
			}
		}
	}
	few := slices.Sorted(maps.Keys(terms))
	few = few[:min(len(few), inFull(len(few), 1))]
	for _, term := range few {
		corpusMatch(t, what, b, entries, term, dir)
		if inFull(1, 0) == 1 {
			corpusMatch(t, what, b, entries, term, -dir)
		}
	}
}

func corpusMatch(t *testing.T, what string, b []byte, entries []corpusEntry, term string, dir direction) {
	t.Helper()
	found := map[entry.Cursor]bool{}
	matched, _ := corpusRead(t, b, Term(entry.Field(term)), dir)
	for _, e := range matched {
		found[e.cursor] = true
	}
	missing := 0
	for _, e := range entries {
		if slices.Contains(e.fields, term) && !found[e.cursor] {
			missing++
		}
	}
	// A slot of a list that has become that of a neighbour cannot be told from it.
	if allowed := strings.Count(what, "1000 bits"); missing > allowed {
		t.Errorf("%s: %.40s: %d entries not among %d matched", what, term, missing, len(matched))
	}
}

// corpusSeeks goes to entries by their cursors. In a file with flipped bits the
// numbers of some may be wrong, and a search be led astray.
func corpusSeeks(t *testing.T, what string, b []byte, entries []corpusEntry) {
	t.Helper()
	sorted := slices.IsSortedFunc(entries, func(a, b corpusEntry) int { return cmpU64(a.cursor.Seqnum, b.cursor.Seqnum) })
	if !sorted {
		return
	}
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "damaged")
	if err != nil {
		t.Fatal(err)
	}
	j := ReadOptions{}.New()
	j.AddFile(f)
	defer j.Close()
	for i := 0; i < len(entries); i += 1 + len(entries)/5 {
		for _, move := range []func() (*entry.Entry, error){j.Next, j.Previous} {
			j.SeekCursor(entries[i].cursor)
			e, err := move()
			if errors.Is(err, io.EOF) || err == nil && e.Cursor() != entries[i].cursor {
				t.Errorf("%s: seek to entry %d: %v", what, i, err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Nothing that journalctl delivers of a damaged file is missing in ours.
func TestCorpusHasWhatJournalctlDelivers(t *testing.T) {
	oneGoroutine(t)
	journalctl(t, "--version")
	path := filepath.Join(t.TempDir(), "damaged.journal")
	for i, f := range corpusFiles(t) {
		for k, d := range damages {
			if (i*len(damages)+k)%inFull(1, 23) != 0 {
				continue
			}
			b := d.do(f, bytes.Clone(f.b))
			readerMust(t, os.WriteFile(path, b, 0o600))
			entries, _ := corpusRead(t, b, Match{}, down)
			ours := make(map[string]bool)
			for _, e := range entries {
				ours[e.cursor.String()] = true
			}
			n := 0
			out, _ := exec.Command("journalctl", "--no-pager", "-q", "--file", path, "-o", "export").Output() // whatever it ends with
			for line := range strings.Lines(string(out)) {
				c, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "__CURSOR=")
				if !ok {
					continue
				}
				if n++; !ours[c] {
					t.Errorf("%s: %s: not delivered: %s", f.name, d.name, c)
				}
			}
			if n > len(entries) {
				t.Errorf("%s: %s: %d entries, journalctl has %d", f.name, d.name, len(entries), n)
			}
		}
	}
}

package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// vFile is a small good file and where its objects are.
type vFile struct {
	b       []byte
	compact bool
	entries []int // offsets
	arrays  []int
	data    map[string]int // by payload
	fields  map[string]int
}

// vSmall writes a file with 100 entries: A= has 3 values, B= is the same
// throughout, LAST= only in the last entry, LONG= compressed.
func vSmall(tb testing.TB, flavour Flavour) *vFile {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "small.journal")
	clock := uint64(1_700_000_000_000_000)
	w, err := Create(path, Options{
		Flavour: flavour, MaxSize: MinMaxSize, MachineID: entry.ID{1}, BootID: entry.ID{2},
		Clock: func() (uint64, uint64) { clock++; return clock, clock / 2 },
	})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range 100 {
		e := entry.Entry{Fields: []entry.Field{
			entry.Field(fmt.Sprintf("A=%d", i%3)), entry.Field("B=constant"), entry.Field(fmt.Sprintf("N=%d", i)),
		}}
		if i == 50 {
			e.Fields = append(e.Fields, entry.Field("LONG="+strings.Repeat("again and ", 100)))
		}
		if i == 99 {
			e.Fields = append(e.Fields, entry.Field("LAST=1"))
		}
		if _, _, err := w.Append(context.Background(), []entry.Entry{e}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Archive(context.Background()); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return vParse(b)
}

func vParse(b []byte) *vFile {
	f := &vFile{b: b, data: map[string]int{}, fields: map[string]int{}}
	f.compact = object.U32(b, object.HdrIncompatible)&object.IncompatibleCompact != 0
	head := f.payload(0)
	for p := int(object.U64(b, object.HdrHeaderSize)); p <= int(object.U64(b, object.HdrTailObjectOffset)); {
		size := int(object.U64(b, p+object.ObjSize))
		switch object.Type(b[p]) {
		case object.Data:
			f.data[string(b[p+head:p+size])] = p
		case object.FieldName:
			f.fields[string(b[p+object.FieldPayload:p+size])] = p
		case object.Entry:
			f.entries = append(f.entries, p)
		case object.EntryArray:
			f.arrays = append(f.arrays, p)
		default:
		}
		p += (size + 7) &^ 7
	}
	return f
}

func (f *vFile) u64(off int) int       { return int(object.U64(f.b, off)) }
func (f *vFile) put(off int, v uint64) { object.PutU64(f.b, off, v) }

// payload returns the offset of a DATA object's payload.
func (f *vFile) payload(data int) int {
	if f.compact {
		return data + object.DataPayloadCompact
	}
	return data + object.DataPayload
}

// bucket returns the offset of the bucket of a DATA object.
func (f *vFile) bucket(data int) int {
	n := f.u64(object.HdrDataHashTableSize) / object.HashItemSize
	return f.u64(object.HdrDataHashTableOffset) + int(object.U64(f.b, data+object.DataHash)%uint64(n))*object.HashItemSize
}

// slot returns the offset of slot i of the array at a.
func (f *vFile) slot(a, i int) int {
	if f.compact {
		return a + object.ArrayItems + 4*i
	}
	return a + object.ArrayItems + 8*i
}

var vDamages = []struct {
	name   string
	damage func(f *vFile) (at int)
	want   string // how the problem begins
	kind   ProblemKind
}{
	{"reserved byte", func(f *vFile) int { f.b[20] = 1; return 20 }, "Reserved field is non-zero", ProblemHeader},
	{"object count", func(f *vFile) int { f.b[object.HdrNObjects]++; return object.HdrNObjects }, "Object number mismatch (", ProblemCount},
	{"tail realtime", func(f *vFile) int {
		f.b[object.HdrTailEntryRealtime] ^= 1
		return object.HdrTailEntryRealtime
	}, "Invalid tail realtime timestamp (", ProblemCount},
	{"main array hint", func(f *vFile) int {
		f.b[object.HdrTailEntryArrayNEntries]++
		return object.HdrTailEntryArrayOffset
	}, "Tail entry array hint incorrect (", ProblemEntryArray},
	{"payload", func(f *vFile) int { p := f.data["N=7"]; f.b[f.payload(p)+2] ^= 1; return p }, "Invalid hash (", ProblemContents},
	{"compression flag of the future", func(f *vFile) int { p := f.data["N=7"]; f.b[p+1] = object.CompressedLZ4; return p }, "LZ4 compressed object in file without LZ4 compression", ProblemContents},
	{"unknown flag", func(f *vFile) int { p := f.data["N=7"]; f.b[p+1] = 0x20; return p }, "Object header has unknown flags", ProblemContents},
	{"reserved byte of an object", func(f *vFile) int { p := f.entries[40]; f.b[p+5] = 1; return p }, "Object header has unknown flags", ProblemContents},
	{"size 0", func(f *vFile) int { p := f.data["N=7"]; f.put(p+object.ObjSize, 0); return p }, "Invalid object: Bad message", ProblemObject},
	{"size beyond the file", func(f *vFile) int { p := f.data["N=7"]; f.put(p+object.ObjSize, 1<<40); return p }, "Invalid object: Cannot assign requested address", ProblemObject},
	{"unaligned offset", func(f *vFile) int { p := f.data["N=7"]; f.put(p+object.DataNextHash, 4); return p }, "Invalid offset (next_hash_offset=000004", ProblemObject},
	{"entry's seqnum", func(f *vFile) int { p := f.entries[40]; f.put(p+object.EntrySeqnum, 3); return p }, "Entry sequence number out of synchronization (40 >= 3)", ProblemOrder},
	{"entry's monotonic time", func(f *vFile) int { p := f.entries[40]; f.put(p+object.EntryMonotonic, 3); return p }, "Entry timestamp out of synchronization (", ProblemOrder},
	{"entry's realtime", func(f *vFile) int { p := f.entries[40]; f.put(p+object.EntryRealtime, 1<<55); return p }, "Invalid entry realtime timestamp: ", ProblemObject},
	{"xor_hash", func(f *vFile) int { p := f.entries[40]; f.b[p+object.EntryXorHash] ^= 1; return p }, "xor_hash is not that of the items", ProblemEntry},
	{"main array slot", func(f *vFile) int {
		a := f.u64(object.HdrEntryArrayOffset)
		copy(f.b[f.slot(a, 2):f.slot(a, 3)], f.b[f.slot(a, 1):])
		return a
	}, "Entry array not sorted at 2 of 100", ProblemEntryArray},
	{"main array chain", func(f *vFile) int {
		f.put(f.u64(object.HdrEntryArrayOffset)+object.ArrayNext, 0)
		return object.HdrEntryArrayOffset
	}, "Array chain too short at 4 of 100", ProblemEntryArray},
	{"bucket head", func(f *vFile) int {
		p := f.bucket(f.data["N=7"])
		f.put(p, uint64(f.entries[3]))
		return f.entries[3]
	}, "Invalid data object at hash entry", ProblemData},
	{"bucket tail", func(f *vFile) int {
		p, other := f.bucket(f.data["N=7"]), f.data["N=8"]
		if f.u64(p+8) == other { // by chance both are in this bucket
			other = f.data["N=7"]
		}
		f.put(p+8, uint64(other))
		return p
	}, "Tail hash pointer mismatch in hash table", ProblemData},
	{"data in no bucket", func(f *vFile) int {
		p := f.bucket(f.data["N=7"])
		f.put(p, 0)
		f.put(p+8, 0)
		return f.entries[7]
	}, "Data object missing from hash table", ProblemEntry},
	{"data list", func(f *vFile) int {
		p := f.data["A=1"]
		f.put(p+object.DataEntry, uint64(f.entries[2])) // instead of entry 1
		return f.entries[1]
	}, "Entry object not referenced by linked data object at ", ProblemEntry},
	{"data list names another entry", func(f *vFile) int {
		p := f.data["A=1"]
		f.put(p+object.DataEntry, uint64(f.entries[2]))
		return p
	}, "Data object references entry at ", ProblemData},
	{"data list too long", func(f *vFile) int { p := f.data["B=constant"]; f.put(p+object.DataNEntries, 1<<30); return p }, "Data object's entry array not sorted (0 <= ", ProblemData},
	{"data list cut", func(f *vFile) int {
		p := f.data["B=constant"]
		f.put(f.u64(p+object.DataEntryArray)+object.ArrayNext, 0)
		return p
	}, "Array chain too short", ProblemData},
	{"data list shorter", func(f *vFile) int {
		p := f.data["B=constant"]
		f.put(p+object.DataNEntries, 98)
		return f.entries[98]
	}, "Entry object not referenced by linked data object at ", ProblemEntry},
	{"data list goes on", func(f *vFile) int {
		p := f.data["B=constant"]
		f.put(p+object.DataNEntries, 99)
		a := f.u64(p + object.DataEntryArray)
		for f.u64(a+object.ArrayNext) != 0 {
			a = f.u64(a + object.ArrayNext)
		}
		return a
	}, "Entry array has more entries than are counted", ProblemData},
	{"main array goes on", func(f *vFile) int {
		a := f.u64(object.HdrEntryArrayOffset)
		f.put(object.HdrNEntries, 4)
		return a
	}, "Entry array has more entries than are counted", ProblemEntryArray},
	{"data list not sorted", func(f *vFile) int {
		p := f.data["B=constant"]
		a := f.u64(p + object.DataEntryArray)
		copy(f.b[f.slot(a, 2):f.slot(a, 3)], f.b[f.slot(a, 1):])
		return p
	}, "Data object's entry array not sorted (", ProblemData},
	{"two lists share an array", func(f *vFile) int {
		f.put(f.data["A=1"]+object.DataEntryArray, uint64(f.u64(f.data["A=0"]+object.DataEntryArray)))
		return f.data["A=1"]
	}, "Entry array at ", ProblemData},
	{"array without a list", func(f *vFile) int { p := f.data["N=7"]; f.put(p+object.DataEntryArray, uint64(f.arrays[1])); return p }, "Entry array present (entry_array_offset=", ProblemData},
	{"field's name", func(f *vFile) int { p := f.fields["A"]; f.b[p+object.FieldPayload]++; return p }, "Invalid hash (", ProblemContents},
	{"field's list", func(f *vFile) int { p := f.fields["A"]; f.put(p+object.FieldHeadData, uint64(f.data["N=7"])); return p }, "Field object's data list has data of another field at ", ProblemField},
	{"field's list cut", func(f *vFile) int {
		f.put(f.data["N=7"]+object.DataNextField, 0)
		return f.data["N=0"]
	}, "Data object missing from the list of its field, and 6 more of the same field", ProblemField},
	{"field's list in a circle", func(f *vFile) int {
		f.put(f.data["N=7"]+object.DataNextField, uint64(f.data["N=9"]))
		return f.fields["N"]
	}, "Field object's data list has a cycle (jumps from ", ProblemField},
	{"an array as a tag", func(f *vFile) int {
		p := f.entries[40]
		f.b[p] = byte(object.Tag)
		return p
	}, "Tag object in file without sealing", ProblemSeal},
}

// TestVerifyDamage damages one thing at a time and wants it named at its place.
func TestVerifyDamage(t *testing.T) {
	oneGoroutine(t)
	for _, tc := range vDamages {
		for _, regular := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/regular %v", tc.name, regular), func(t *testing.T) {
				f := vSmall(t, Flavour{Regular: regular})
				at := tc.damage(f)
				r := verifyBytes(t, f.b)
				for _, p := range r.Problems {
					if p.Offset == uint64(at) && strings.HasPrefix(p.Text, tc.want) && p.Kind == tc.kind && !p.Harmless {
						return
					}
				}
				t.Errorf("%06x: %s: not among %d problems: %v", at, tc.want, len(r.Problems), r.Problems)
			})
		}
	}
}

// The last entry of a full file may be missing in the lists of its data: there
// was no room for another array.
func TestVerifyLastEntryUnlinked(t *testing.T) {
	f := vSmall(t, Flavour{Regular: true})
	p := f.data["B=constant"]
	last := f.u64(p + object.DataEntryArray)
	left := 99 // slots, in arrays of 4, 8, 26 and 78
	for ; f.u64(last+object.ArrayNext) != 0; last = f.u64(last + object.ArrayNext) {
		left -= (f.u64(last+object.ObjSize) - object.ArrayItems) / object.ArrayItemSize
	}
	f.put(p+object.DataNEntries, 99)
	f.put(f.slot(last, left-1), 0)
	if r := verifyBytes(t, f.b); !r.OK() {
		t.Error(r.Problems)
	}
	f.put(p+object.DataNEntries, 98)
	f.put(f.slot(last, left-2), 0)
	if r := verifyBytes(t, f.b); r.OK() {
		t.Error("two missing are not told")
	}
}

// What a killed writer leaves behind is told, and passes.
func TestVerifyHarmless(t *testing.T) {
	f := vSmall(t, Flavour{})
	f.b[object.HdrDataHashChainDepth] = 77
	r := verifyBytes(t, f.b)
	if !r.OK() || len(r.Problems) != 1 || !r.Problems[0].Harmless {
		t.Errorf("ok %v: %v", r.OK(), r.Problems)
	}
}

// A duplicate of a field cancels out in xor_hash and is stored once.
func TestVerifyXorOfDuplicates(t *testing.T) {
	f := vSmall(t, Flavour{})
	for i, name := range []string{"B=constant", "A=1", "N=40"} {
		p := f.entries[40] + object.EntryXorHash
		f.put(p, object.U64(f.b, p)^object.Jenkins([]byte(name)))
		if r := verifyBytes(t, f.b); !r.OK() {
			t.Errorf("%d duplicates: %v", i+1, r.Problems)
		}
	}
}

func TestVerifyManyProblems(t *testing.T) {
	f := vParse(verifySample(t, "r-11.journal.gz"))
	for _, p := range f.data {
		f.b[p+object.DataHash] ^= 1
	}
	r := verifyBytes(t, f.b)
	if len(r.Problems) != MaxProblems || r.Omitted == 0 || r.Failed != len(r.Problems)+r.Omitted {
		t.Errorf("%d problems, %d omitted, %d failed", len(r.Problems), r.Omitted, r.Failed)
	}
}

func TestVerifyProgress(t *testing.T) {
	b := verifySample(t, "r-11.journal.gz")
	var last, total int64
	_, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "x", VerifyOptions{Progress: func(d, n int64) {
		if d < last || d > n || total != 0 && n != total {
			t.Errorf("progress %d of %d after %d of %d", d, n, last, total)
		}
		last, total = d, n
	}})
	if err != nil || last != total || total == 0 {
		t.Errorf("ended at %d of %d: %v", last, total, err)
	}
}

func TestVerifyCanceled(t *testing.T) {
	b := verifySample(t, "r-11.journal.gz")
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	_, err := Verify(ctx, bytes.NewReader(b), int64(len(b)), "x", VerifyOptions{Progress: func(_, _ int64) {
		if calls++; calls == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

// sparse is a large file of zeros behind some bytes.
type sparse []byte

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s)) {
		copy(p, s[off:])
	}
	return len(p), nil
}

// A large file that claims much costs no memory.
func TestVerifySparse(t *testing.T) {
	oneGoroutine(t)
	f := vSmall(t, Flavour{})
	f.put(object.HdrNData, 1<<40)
	f.put(object.HdrNEntries, 1<<40)
	f.put(object.HdrArenaSize, 100<<30)
	f.put(f.data["N=7"]+object.DataNEntries, 1<<40)
	last := f.arrays[len(f.arrays)-1]
	f.put(object.HdrTailObjectOffset, uint64(last))
	f.put(last+object.ObjSize, 16<<30) // its slots are all zero
	f.put(object.HdrTailObjectOffset, uint64(last)+16<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	r, err := Verify(ctx, sparse(f.b), 101<<30, "x", VerifyOptions{Progress: func(_, _ int64) {
		if calls++; calls == 200 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v and %v", err, r.Problems)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// A reader that fails, or a file that becomes shorter, ends the run.
func TestVerifyReadError(t *testing.T) {
	b := vSmall(t, Flavour{}).b
	for cut := range 64 {
		r := bytes.NewReader(b[:len(b)*cut/64])
		_, err := Verify(context.Background(), r, int64(len(b)), "x", VerifyOptions{})
		var fe *FormatError
		if !errors.As(err, &fe) || !errors.Is(err, ErrTruncated) {
			t.Errorf("cut to %d of 64: %v", cut, err)
		}
	}
}

// FuzzVerify patches words of a small file. Verify must come to an end without
// panic, and what it passes a reader must read whole, and without a warning.
func FuzzVerify(f *testing.F) {
	base := map[bool][]byte{false: vSmall(f, Flavour{}).b, true: vSmall(f, Flavour{Regular: true, Unkeyed: true}).b}
	f.Add(false, []byte{})
	f.Add(true, []byte{0, 0, 1, 8, 7, 6, 5, 4, 3, 2, 1})
	for i := range 40 {
		f.Add(i%2 == 0, []byte{0, byte(6 * i), byte(i), byte(i), byte(i), 0, 0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, regular bool, patches []byte) {
		b := bytes.Clone(base[regular])
		table := int(object.U64(b, object.HdrDataHashTableOffset) + object.U64(b, object.HdrDataHashTableSize))
		for ; len(patches) >= 11; patches = patches[11:] {
			off := int(patches[0])<<16 | int(patches[1])<<8 | int(patches[2])
			if patches[0]&0x80 == 0 { // mostly behind the table
				off += table
			}
			copy(b[off%(len(b)-8):], patches[3:11])
		}
		report, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "x", VerifyOptions{})
		var fe *FormatError
		if err != nil && !errors.As(err, &fe) {
			t.Fatalf("untyped error %v", err)
		}
		if err != nil || !report.OK() {
			return
		}
		r, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "x")
		if err != nil {
			t.Fatalf("passes, and cannot be opened: %v", err)
		}
		j := ReadOptions{}.New()
		j.AddFile(r)
		n := uint64(0)
		for _, err := range j.All() {
			if err != nil {
				t.Fatalf("passes, and cannot be read: %v", err)
			}
			n++
		}
		if w := j.Warnings(); n != report.Entries || len(w) > 0 {
			t.Fatalf("passes, and %d of %d entries were read: %v", n, report.Entries, w)
		}
	})
}

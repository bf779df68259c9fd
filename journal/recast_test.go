package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// recast is what another version of systemd would have made of a file: with a
// header of another size, and payloads compressed otherwise.
type recast struct {
	header  uint64
	flag    byte // object.CompressedXZ or one of the others; 0: nothing is compressed
	compact bool
	compat  uint32

	from []byte
	out  []byte
	at   map[uint64]uint64 // new offsets by old ones
}

// do returns the file from so made.
func (r recast) do(t testing.TB, from []byte) []byte {
	t.Helper()
	r.from, r.at = from, map[uint64]uint64{0: 0}
	h := decodeHeader(from)
	r.compact = h.Compact()
	r.out = make([]byte, object.Align8(r.header))
	var objs [][]byte
	for off := h.HeaderSize; off <= h.TailObjectOffset; {
		size := object.U64(from, int(off)+object.ObjSize)
		b := r.payload(t, from[off:off+size])
		r.at[off] = uint64(len(r.out))
		r.out = append(r.out, make([]byte, object.Align8(uint64(len(b))))...)
		objs = append(objs, r.out[r.at[off]:][:len(b)])
		copy(objs[len(objs)-1], b)
		off += object.Align8(size)
	}
	// The slices are of arrays that have been left behind: take them anew.
	i := 0
	for off := h.HeaderSize; off <= h.TailObjectOffset; i++ {
		b := r.out[r.at[off]:][:len(objs[i])]
		r.links(b)
		off += object.Align8(object.U64(from, int(off)+object.ObjSize))
	}
	r.putHeader(h)
	return r.out
}

// payload returns the object with its payload compressed as it should be.
func (r *recast) payload(t testing.TB, b []byte) []byte {
	t.Helper()
	if object.Type(b[0]) != object.Data {
		return b
	}
	head := int(object.MinSize(object.Data, r.compact))
	p := b[head:]
	if b[object.ObjFlags] != 0 {
		var err error
		if p, err = blob.Decompress(nil, b[object.ObjFlags], p, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	z := p
	var flag byte
	if r.flag != 0 && len(p) >= 100 {
		if c := packed(t, r.flag, p); len(c) < len(p) {
			z, flag = c, r.flag
		}
	}
	out := append(bytes.Clone(b[:head]), z...)
	out[object.ObjFlags] = flag
	object.PutU64(out, object.ObjSize, uint64(len(out)))
	return out
}

// packed compresses p as journald does.
func packed(t testing.TB, flag byte, p []byte) []byte {
	t.Helper()
	switch flag {
	case object.CompressedLZ4:
		out := make([]byte, 8+lz4.CompressBlockBound(len(p)))
		binary.LittleEndian.PutUint64(out, uint64(len(p)))
		n, err := lz4.CompressBlock(p, out[8:], nil)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return p
		}
		return out[:8+n]
	case object.CompressedXZ:
		var b bytes.Buffer
		w, err := xz.WriterConfig{NoCheckSum: true}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	return blob.CompressZSTD(nil, p)
}

// links turns all offsets in an object into new ones.
func (r *recast) links(b []byte) {
	long := func(at int) { object.PutU64(b, at, r.at[object.U64(b, at)]) }
	item := func(at int) {
		if r.compact {
			object.PutU32(b, at, uint32(r.at[uint64(object.U32(b, at))]))
		} else {
			long(at)
		}
	}
	step := 8
	if r.compact {
		step = 4
	}
	switch object.Type(b[0]) {
	case object.Data:
		long(object.DataNextHash)
		long(object.DataNextField)
		long(object.DataEntry)
		long(object.DataEntryArray)
		if r.compact {
			item(object.DataTailArray)
		}
	case object.FieldName:
		long(object.FieldNextHash)
		long(object.FieldHeadData)
	case object.Entry:
		if !r.compact {
			step = 16
		}
		for i := object.EntryItems; i < len(b); i += step {
			item(i)
		}
	case object.EntryArray:
		long(object.ArrayNext)
		for i := object.ArrayItems; i < len(b); i += step {
			item(i)
		}
	case object.DataHashTable, object.FieldHashTable:
		for i := object.HashTableItems; i < len(b); i += 8 {
			long(i)
		}
	case object.Unused, object.Tag:
	}
}

func (r *recast) putHeader(h Header) {
	old := h.HeaderSize
	var b [object.HeaderSize254]byte
	h.HeaderSize, h.ArenaSize = r.header, uint64(len(r.out))-r.header
	h.IncompatibleFlags &^= object.IncompatibleXZ | object.IncompatibleLZ4 | object.IncompatibleZSTD
	h.IncompatibleFlags |= uint32(r.flag&3) | uint32(r.flag&object.CompressedZSTD)<<1
	h.CompatibleFlags = r.compat
	h.State = StateArchived
	table := func(off uint64) uint64 { return r.at[off-object.HashTableItems] + object.HashTableItems }
	h.DataHashTableOffset, h.FieldHashTableOffset = table(h.DataHashTableOffset), table(h.FieldHashTableOffset)
	h.TailObjectOffset, h.EntryArrayOffset = r.at[h.TailObjectOffset], r.at[h.EntryArrayOffset]
	h.TailEntryArrayOffset = uint32(r.at[uint64(h.TailEntryArrayOffset)])
	if old < object.HeaderSize254 {
		for off := range r.at {
			if off != 0 && object.Type(r.from[off]) == object.Entry {
				h.TailEntryOffset = max(h.TailEntryOffset, r.at[off])
			}
		}
	} else {
		h.TailEntryOffset = r.at[h.TailEntryOffset]
	}
	encodeHeader(b[:], &h)
	copy(r.out, b[:r.header])
}

// history is what each version of systemd has written, or could be made to.
var history = []struct {
	from string
	recast
}{
	{"r-00", recast{header: 208}},
	{"r-00", recast{header: 208, flag: object.CompressedXZ}},
	{"r-00", recast{header: 224, flag: object.CompressedXZ}},
	{"r-00", recast{header: 240, flag: object.CompressedXZ}},
	{"r-00", recast{header: 240, flag: object.CompressedLZ4}},
	{"esc", recast{header: 240, flag: object.CompressedLZ4}},
	{"r-01", recast{header: 256, flag: object.CompressedLZ4}},
	{"r-01", recast{header: 256, flag: object.CompressedZSTD}},
	{"r-11", recast{header: 264, flag: object.CompressedLZ4}},
	{"r-11", recast{header: 264, flag: object.CompressedXZ}},
	{"r-10", recast{header: 264}},
	{"r-11", recast{header: 272, flag: object.CompressedZSTD, compat: object.CompatibleTailEntryBootID}},
	{"r-01", recast{header: 272, flag: object.CompressedLZ4, compat: object.CompatibleTailEntryBootID}},
}

func (r recast) String() string {
	c := map[byte]string{0: "plain", object.CompressedXZ: "xz", object.CompressedLZ4: "lz4", object.CompressedZSTD: "zstd"}[r.flag]
	return fmt.Sprintf("header of %d, %s", r.header, c)
}

// compressedObjects counts the DATA objects that are compressed so.
func compressedObjects(b []byte, flag byte) (n int) {
	h := decodeHeader(b)
	for off := h.HeaderSize; off <= h.TailObjectOffset; off += object.Align8(object.U64(b, int(off)+object.ObjSize)) {
		if object.Type(b[off]) == object.Data && b[off+object.ObjFlags]&flag != 0 {
			n++
		}
	}
	return n
}

// Files as systemd has written them since its journal began: each is read as the
// sample it was made of, by us and by journalctl, and both verify it.
func TestHistoricFiles(t *testing.T) {
	oneGoroutine(t)
	for i, h := range history {
		if i%inFull(1, 3) != 0 {
			continue
		}
		t.Run(h.from+" "+h.String(), func(t *testing.T) {
			b := h.do(t, sampleBytes(t, h.from))
			path := filepath.Join(t.TempDir(), "old.journal")
			readerMust(t, os.WriteFile(path, b, 0o600))
			j := openSample(t, ReadOptions{}, path)
			got := export(t, j, down)
			if n := compressedObjects(b, h.flag); (n > 0) != (h.flag != 0) {
				t.Errorf("%d compressed objects", n)
			}
			if diff := cmp.Diff(export(t, openSample(t, ReadOptions{}, sample(t, h.from)), down), got); diff != "" {
				t.Errorf("not what the sample has (-sample +recast):\n%.3000s", diff)
			}
			if w := j.Warnings(); len(w) > 0 {
				t.Error(w)
			}
			if r := verifyBytes(t, b); len(r.Problems) > 0 {
				t.Errorf("%v", r.Problems[:min(len(r.Problems), 5)])
			}
			if journalctl(t, "--file", path, "-o", "export") != got {
				t.Error("journalctl reads something else")
			}
			if h.compat == 0 {
				journalctl(t, "--verify", "--file", path)
			}
		})
	}
}

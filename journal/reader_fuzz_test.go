package journal

import (
	"encoding/binary"
	"testing"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// fuzzBase is a small file with everything in it: two flavours of it, made by
// our writer so that the hash tables are small.
func fuzzBase(t testing.TB, fl Flavour) []byte {
	t.Helper()
	path := t.TempDir() + "/fuzz.journal"
	w := create(t, path, Options{Flavour: fl, MaxSize: MinMaxSize, Clock: newClock().now})
	long := make([]byte, 700)
	for i := range long {
		long[i] = 'a' + byte(i%7)
	}
	for i := range 60 {
		appendTo(t, w, "MESSAGE=m"+string(rune('0'+i)), "PRIORITY="+string(rune('0'+i%8)), "LONG="+string(long[:600+i%3]))
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fileBytes(t, path)
}

// FuzzReader changes real files: each four bytes of input choose an object (or
// the header), a byte near its beginning, and what to XOR it with; the last two
// bytes of an odd rest cut the file. Reading must end, without a panic, and
// every error must be of this package.
func FuzzReader(f *testing.F) {
	bases := [][]byte{fuzzBase(f, Flavour{}), fuzzBase(f, Flavour{Regular: true, Unkeyed: true})}
	var objects [][]uint64
	for _, b := range bases {
		offs := []uint64{0}
		tail := object.U64(b, object.HdrTailObjectOffset)
		for off := object.U64(b, object.HdrHeaderSize); off <= tail; {
			offs = append(offs, off)
			off += object.Align8(object.U64(b, int(off)+object.ObjSize))
		}
		objects = append(objects, offs)
	}
	f.Add(false, []byte{0, 0, 176, 1})
	f.Add(false, []byte{3, 0, 8, 0xff, 4, 0, 16, 1, 9, 0, 0, 2})
	f.Add(true, []byte{0, 0, 152, 0xff, 0, 0, 12, 16, 20, 0, 24, 8})
	f.Add(true, []byte{1, 0, 8, 1, 2, 0, 9, 1, 0x80, 0x40})
	f.Fuzz(func(t *testing.T, regular bool, edits []byte) {
		k := 0
		if regular {
			k = 1
		}
		b := append([]byte(nil), bases[k]...)
		for ; len(edits) >= 4; edits = edits[4:] {
			offs := objects[k]
			off := offs[int(binary.LittleEndian.Uint16(edits))%len(offs)] + uint64(edits[2])
			if off < uint64(len(b)) {
				b[off] ^= edits[3]
			}
		}
		if len(edits) >= 2 {
			b = b[:int(binary.LittleEndian.Uint16(edits))*len(b)/65536]
		}
		readAll(t, b)
	})
}

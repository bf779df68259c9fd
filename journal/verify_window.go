package journal

import (
	"errors"
	"io"
	"math/bits"
)

// vWindow reads a file in large pieces, mostly ascending.
type vWindow struct {
	r    io.ReaderAt
	size uint64
	name string
	tick func(off uint64) error // called before every read
	min  uint64                 // bytes to read at once, at least

	buf []byte
	off uint64 // of buf in the file
}

// vPiece is the size of a read, and of the pieces in which tables, arrays and
// items are taken; vLook that of a look at one object far from the last.
const (
	vPiece = 1 << 20
	vLook  = 4 << 10
)

// get returns the n bytes at off, which lie within the file. They are valid
// until the next call.
func (w *vWindow) get(off uint64, n int) ([]byte, error) {
	if off >= w.off {
		if i := off - w.off; i <= uint64(len(w.buf)) && uint64(n) <= uint64(len(w.buf))-i {
			return w.buf[i : i+uint64(n) : i+uint64(n)], nil
		}
	}
	return w.load(off, n)
}

func (w *vWindow) load(off uint64, n int) ([]byte, error) {
	if err := w.tick(off); err != nil {
		return nil, err
	}
	if off > w.size || uint64(n) > w.size-off {
		return nil, formatErrorf(w.name, off, ErrTruncated, "%d bytes beyond the end", n)
	}
	want := int(min(max(uint64(n), w.min), w.size-off))
	if cap(w.buf) < want || cap(w.buf) > 4*vPiece && want <= vPiece {
		w.buf = make([]byte, want)
	}
	w.buf = w.buf[:want]
	w.off = off
	got, err := w.r.ReadAt(w.buf, int64(off))
	if got == want {
		return w.buf[:n:n], nil
	}
	w.buf = w.buf[:0]
	if err == nil || errors.Is(err, io.EOF) {
		err = formatErrorf(w.name, off+uint64(got), ErrTruncated, "the file has become shorter")
	}
	return nil, err
}

// vIndex is a set of object offsets, filled in ascending order, that knows the
// rank of each: a bitmap with a bit per 8 bytes of the file, in chunks, and
// only where there is an object. A lookup touches two cache lines.
type vIndex struct {
	chunks []*vChunk
	n      int
}

// vChunk covers 1 MiB of the file.
type vChunk struct {
	base  uint32 // members before this chunk
	rank  [vChunkWords]uint16
	words [vChunkWords]uint64
}

const (
	vChunkShift = 20
	vChunkWords = 1 << (vChunkShift - 9)
)

// add appends off, a multiple of 8 larger than all before.
func (x *vIndex) add(off uint64) {
	c := int(off >> vChunkShift)
	for len(x.chunks) <= c {
		x.chunks = append(x.chunks, nil)
	}
	if x.chunks[c] == nil {
		x.chunks[c] = &vChunk{base: uint32(x.n)}
	}
	x.chunks[c].words[off>>9%vChunkWords] |= 1 << (off >> 3 % 64)
	x.n++
}

// seal ends the adding and makes ranks known.
func (x *vIndex) seal() {
	for _, c := range x.chunks {
		if c == nil {
			continue
		}
		sum := 0
		for i, w := range &c.words {
			c.rank[i] = uint16(sum)
			sum += bits.OnesCount64(w)
		}
	}
}

// find returns the rank of off, and whether it is a member.
func (x *vIndex) find(off uint64) (rank int, ok bool) {
	c := off >> vChunkShift
	if c >= uint64(len(x.chunks)) || x.chunks[c] == nil || off%8 != 0 {
		return 0, false
	}
	i, bit := off>>9%vChunkWords, off>>3%64
	w := x.chunks[c].words[i]
	if w>>bit&1 == 0 {
		return 0, false
	}
	return int(x.chunks[c].base) + int(x.chunks[c].rank[i]) + bits.OnesCount64(w&(1<<bit-1)), true
}

// vEach calls f with every member of a and b in ascending order, until f
// returns an error. first tells that the member is one of a.
func vEach(a, b *vIndex, f func(off uint64, first bool) error) error {
	var none vChunk
	for c := range max(len(a.chunks), len(b.chunks)) {
		ca, cb := &none, &none
		if c < len(a.chunks) && a.chunks[c] != nil {
			ca = a.chunks[c]
		}
		if c < len(b.chunks) && b.chunks[c] != nil {
			cb = b.chunks[c]
		}
		for i := range vChunkWords {
			for w := ca.words[i] | cb.words[i]; w != 0; w &= w - 1 {
				bit := bits.TrailingZeros64(w)
				off := uint64(c)<<vChunkShift | uint64(i)<<9 | uint64(bit)<<3
				if err := f(off, ca.words[i]>>bit&1 != 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// vBits is a bitmap of fixed size.
type vBits []uint64

func newVBits(n int) vBits { return make(vBits, (n+63)/64) }

func (b vBits) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b vBits) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// vMix spreads the bits of x, differently in every run.
func vMix(x, seed uint64) uint64 {
	x ^= seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // splitmix64's finalizer
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

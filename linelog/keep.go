package linelog

import (
	"bytes"
	"hash/crc32"
	"slices"
)

// maxPieces bounds how many pieces are remembered; a sixteenth of them, the oldest, then
// become one that cannot be read back.
const maxPieces = 1024

// minMerge is up to how many bytes a chunk is always copied to the one before it, if
// there is room: that costs less than a chunk for a few lines.
const minMerge = 4 << 10

// piece is a range of a file that is written and not synced.
type piece struct {
	f     *file
	c     *chunk // its bytes; nil: only in the file
	off   int64
	n     int
	lines uint64
	pos   uint64 // position behind it
	end   uint64 // that of the chunk
	sum   uint64 // of its bytes, if c is nil; 0: unknown, it cannot be read back
}

// keep is what a fresh file has to take over when a sync fails: what is written and
// not synced, the newest of it in memory. Guarded by Writer.io.
type keep struct {
	limit int64        // bound of held
	size  int          // bytes of a chunk
	free  func(*chunk) // takes a chunk that is not needed any more

	list   []piece // oldest first
	cold   uint64  // those below have no chunk
	first  uint64  // number of list[0]; pieces are numbered as they come
	sealed uint64  // those below are not added to
	held   int64   // memory of the chunks in list
}

// add takes over a chunk that was written to f and ended at end.
func (k *keep) add(f *file, c *chunk, end int64) {
	off := end - int64(len(c.buf))
	if n := len(k.list); n > 0 && k.first+uint64(n)-1 >= k.sealed {
		p := &k.list[n-1]
		if p.f == f && p.c != nil && p.off+int64(p.n) == off && len(p.c.buf)+len(c.buf) <= k.size && len(c.buf) <= max(k.size/4, minMerge) {
			p.c.buf = append(p.c.buf, c.buf...)
			p.n += len(c.buf)
			p.lines += c.lines
			p.pos, p.end = c.pos, c.end
			p.sum, p.c.sum = 0, 0
			k.free(c)
			return
		}
	}
	p := piece{f: f, c: c, off: off, n: len(c.buf), lines: c.lines, pos: c.pos, end: c.end, sum: c.sum}
	k.held += int64(cap(c.buf))
	if k.held > k.limit && p.sum == 0 {
		p.sum = hash(c.buf) // it will have to leave, and is in the processor's cache now
	}
	k.list = append(k.list, p)
	k.shrink()
}

// shrink lets go of the memory, and of the number of pieces, above the bounds.
func (k *keep) shrink() {
	for i := max(k.cold, k.first) - k.first; k.held > k.limit && int(i) < len(k.list)-1; i++ {
		k.cold = k.first + i + 1
		p := &k.list[i]
		if p.c == nil {
			continue
		}
		if p.sum == 0 {
			p.sum = hash(p.c.buf)
		}
		k.release(p)
	}
	if len(k.list) > maxPieces {
		last := &k.list[maxPieces/16]
		for i := range maxPieces / 16 {
			k.release(&k.list[i])
			last.lines += k.list[i].lines
		}
		k.release(last)
		last.sum = 0
		k.cut(maxPieces / 16)
	}
}

// summed is set in the sum of a piece, so that no sum is 0.
const summed = 1 << 32

// hash is the sum of a piece. It tells whether a block of the file has become another,
// not whether somebody has meant it to, and it has to be cheap: it is on the way of every
// line that a disk does not sync in time.
func hash(b []byte) uint64 { return summed | uint64(crc32.ChecksumIEEE(b)) }

// tallied is how much of a batch is looked at twice in a row: what the first processor's
// cache holds.
const tallied = 16 << 10

// tally counts the lines of b and sums it, as hash does, while a part of it is near.
func tally(b []byte) (lines, sum uint64) {
	crc := uint32(0)
	for len(b) > 0 {
		p := b[:min(len(b), tallied)]
		crc = crc32.Update(crc, crc32.IEEETable, p)
		lines += uint64(bytes.Count(p, newline))
		b = b[len(p):]
	}
	return lines, summed | uint64(crc)
}

func (k *keep) release(p *piece) {
	if p.c != nil {
		k.held -= int64(cap(p.c.buf))
		k.free(p.c)
		p.c = nil
	}
}

// cut removes the first n pieces.
func (k *keep) cut(n int) {
	k.list = slices.Delete(k.list, 0, n)
	k.first += uint64(n)
}

// seal returns a number: a sync that begins now covers the pieces below it.
func (k *keep) seal() uint64 {
	k.sealed = k.first + uint64(len(k.list))
	return k.sealed
}

// drop forgets the pieces below a number: they are synced.
func (k *keep) drop(below uint64) {
	n := 0
	for n < len(k.list) && k.first+uint64(n) < below {
		k.release(&k.list[n])
		n++
	}
	k.cut(n)
}

// take removes the pieces that are in f and returns their lines as chunks to be
// written again, how many lines could not be had, and the position behind those and
// what came with them.
func (k *keep) take(f *file) (chunks []*chunk, lost, lostTo uint64) {
	end := k.first + uint64(len(k.list))
	left := k.list[:0]
	for _, p := range k.list {
		switch {
		case p.f != f:
			left = append(left, p)
		case p.c != nil:
			k.held -= int64(cap(p.c.buf))
			p.c.lines, p.c.pos, p.c.end = p.lines, p.pos, p.end
			chunks = append(chunks, p.c)
		default:
			if c := k.readBack(&p); c != nil {
				chunks = append(chunks, c)
			} else {
				lost, lostTo = lost+p.lines, max(lostTo, p.end)
			}
		}
	}
	clear(k.list[len(left):])
	k.list = left
	k.first = end - uint64(len(left))
	return chunks, lost, lostTo
}

// readBack returns a piece as it was written, or nil.
func (k *keep) readBack(p *piece) *chunk {
	if p.sum == 0 || p.f.fix == nil {
		return nil
	}
	b := make([]byte, p.n)
	if _, err := p.f.fix.ReadAt(b, p.off); err != nil || hash(b) != p.sum {
		return nil
	}
	return &chunk{buf: b, lines: p.lines, pos: p.pos, end: p.end}
}

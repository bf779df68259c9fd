package journal

import "github.com/tidemark-log/tidemark/journal/internal/object"

// wRef is the offset of an object in units of 8 bytes; 0 is none.
type wRef uint32

func refOf(off uint64) wRef   { return wRef(off / 8) }
func (r wRef) offset() uint64 { return uint64(r) * 8 }

// wData is what the writer remembers of a DATA object: enough to link entries
// to it and to rewrite its link fields without reading the file. The payload is
// not kept: two 64-bit hashes under seeds that only this process knows stand
// for it.
//
// A file has at most a few 100,000 of them (rotation at 75 % of its buckets),
// so the size of this struct, 64 bytes, bounds the index: one line of the
// processor's cache. What never changes once it is written (the first entry,
// the DATA of the same field before it) or is changed without looking (the next
// of the bucket) is only in the file.
type wData struct {
	k0, k1    uint64 // hashes of the payload under wMem.seed0 and seed1
	jenkins   uint64 // of the payload, for xor_hash
	hash      uint64 // of the payload, as the file has it
	off       wRef   // the object itself
	array     wRef   // first array of further entries
	tailArray wRef   // last array of further entries
	tailN     uint32 // slots used in tailArray
	tailCap   uint32 // slots of tailArray
	n         uint32 // entries that have it
	run       uint32 // 1 + index in wMem.runs; valid only if that run is of tailArray
	pos       uint16 // objects before it in its bucket's chain, saturating
	state     uint8  // of wDirty and wHeld
	group     uint8  // its field, or what of the field's number fits: counts are written by group
}

// States of a wData.
const (
	wDirty = 1 << iota // array and counts in the file are old; it is in wMem.dirty
	wHeld              // the object goes out without entries: they come with the index
)

const (
	wChunkBits = 11
	wChunkSize = 1 << wChunkBits
)

// wTable finds the record of a payload. Records are numbered from 1 and never
// move; the slots are an open-addressing table of tag<<32 | number, where the
// tag is the upper half of k0 and decides the place, so that growing the table
// touches no record.
//
// What is looked up is mostly new or of the entry before, so mostly not there. A
// byte for each slot tells that from a table that the processor's cache has.
type wTable struct {
	slots  []uint64 // len is a power of two; where marks is 0 there is anything
	marks  []uint8  // of each slot: 0 for an empty one, else mark of its tag
	shift  uint     // 32 - log2(len(slots))
	n      uint32   // records
	chunks []*[wChunkSize]wData
}

const (
	wMinSlots = 256
	// How full the table may be: 2^18 slots are enough for the 174,762 objects that a
	// file of the usual size has at most.
	wFullNum, wFullDen = 11, 16
)

// at returns record id, which must exist.
func (t *wTable) at(id uint32) *wData {
	return &t.chunks[id>>wChunkBits][id&(wChunkSize-1)]
}

// find returns the number of the record with these keys, 0 if there is none.
func (t *wTable) find(k0, k1 uint64) uint32 {
	if len(t.marks) == 0 {
		return 0
	}
	tag := uint32(k0 >> 32)
	want := markOf(tag)
	mask := len(t.marks) - 1
	for i := int(tag >> t.shift); ; i++ {
		switch t.marks[i&mask] {
		case 0:
			return 0
		case want:
			s := t.slots[i&mask]
			if uint32(s>>32) != tag {
				continue
			}
			id := uint32(s)
			if d := t.at(id); d.k0 == k0 && d.k1 == k1 {
				return id
			}
		}
	}
}

// markOf is what marks has for a tag: of its lower bits, since the upper ones
// decide the place.
func markOf(tag uint32) uint8 { return uint8(tag) | 0x80 }

// add makes a record for keys that find does not find.
func (t *wTable) add(k0, k1 uint64) (uint32, *wData) {
	if int(t.n)*wFullDen >= len(t.slots)*wFullNum {
		t.grow()
	}
	t.n++
	if int(t.n>>wChunkBits) == len(t.chunks) {
		t.chunks = append(t.chunks, new([wChunkSize]wData))
	}
	d := t.at(t.n)
	*d = wData{k0: k0, k1: k1}
	t.insert(uint32(k0>>32), t.n)
	return t.n, d
}

func (t *wTable) insert(tag, id uint32) {
	mask := len(t.marks) - 1
	i := int(tag>>t.shift) & mask
	for t.marks[i] != 0 {
		i = (i + 1) & mask
	}
	t.marks[i] = markOf(tag)
	t.slots[i] = uint64(tag)<<32 | uint64(id)
}

// empty forgets all records, not the memory that they have had.
func (t *wTable) empty() {
	clear(t.marks)
	t.n = 0
}

func (t *wTable) grow() {
	old, marks := t.slots, t.marks
	size := max(2*len(old), wMinSlots)
	t.slots, t.marks = make([]uint64, size), make([]uint8, size)
	t.shift = 32
	for size > 1 {
		size >>= 1
		t.shift--
	}
	for i, s := range old {
		if marks[i] != 0 {
			t.insert(uint32(s>>32), uint32(s))
		}
	}
}

// wField is what the writer remembers of a FIELD object.
type wField struct {
	off   wRef   // the object itself
	head  wRef   // newest DATA of this field
	n     uint32 // DATA of this field
	pos   uint16 // objects before it in its bucket's chain, saturating
	dirty bool   // head in the file is old; it is in wMem.dirtyFld
}

// wKey stands for a field name: its hashes under seed0 and seed1.
type wKey struct{ k0, k1 uint64 }

// wBuckets is a hash table of the file: of each bucket the end of its chain, to
// which a new object is linked. Where the chain begins only the file knows.
//
// Most buckets are empty when an object comes to them. A bit for each tells that from
// a table that the processor's cache has; what is in ends it has not.
type wBuckets struct {
	off  uint64 // of the items, in the file
	ends []wEnd
	used []uint64 // bits
}

// wEnd is the last object of a chain.
type wEnd struct {
	last wRef   // of a used bucket
	pos  uint16 // objects before it, saturating
}

const wHashItem = object.HashItemSize

func newBuckets(off, n uint64) wBuckets {
	return wBuckets{off, make([]wEnd, n), make([]uint64, (n+63)/64)}
}

// size is that of the table in the file, in bytes.
func (b *wBuckets) size() uint64 { return uint64(len(b.ends)) * wHashItem }

func (b *wBuckets) isUsed(bucket uint64) bool { return b.used[bucket/64]>>(bucket%64)&1 != 0 }

// begin takes note that a bucket is used, and tells whether it was not.
func (b *wBuckets) begin(bucket uint64) bool {
	word := &b.used[bucket/64]
	bit := uint64(1) << (bucket % 64)
	was := *word
	*word = was | bit
	return was&bit == 0
}

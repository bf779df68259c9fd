package journal

import (
	"hash/maphash"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wMem is the private memory of a file that is being written: its header, both
// hash tables, a record of every DATA and FIELD object, and the bytes at the
// end of the file that are not written yet. Appending changes nothing else; it
// does no I/O. Writer.mu guards it.
//
// Bytes before base are in the file (or in a wStage on their way there). What
// must change in them is noted: dirty records and buckets, runs of new array
// slots, links between arrays. take turns those notes into writes.
type wMem struct {
	wHasher
	hdr       Header
	compact   bool
	dataHead  uint64 // bytes of a DATA object before its payload
	arrayItem uint64 // bytes of a slot of an array
	entryItem uint64 // bytes of an item of an entry
	limit     uint64 // no object ends beyond this offset

	data         wTable
	dataBuckets  wBuckets
	fields       []wField // numbered from 1; fields[0] is unused
	fieldIndex   map[wKey]uint32
	fieldBuckets wBuckets

	base uint64 // offset of tail[0] in the file, a multiple of 8
	tail []byte // whole objects with their padding

	main     wMain
	ordered  bool     // Options.Order is set: note fresh
	fresh    []wRef   // entries in the tail
	dirty    []wCount // records of DATA whose array and counts in the file are old
	dirtyFld []uint32 // records of FIELD whose head in the file is old
	runs     []wRun   // slots to fill in arrays that are in the file
	slots    []wSlot  // their values, in the order they were appended
	links    []wPatch // in the file, to the next array, or to a first entry
	chains   []wPatch // in the file, of hash chains: buckets and next of their objects

	tight  bool     // Options.TightArrays
	keeps  bool     // Options.KeepNumbers
	kept   wKept    // then: of the entry at hand
	large  []wLarge // of the entry at hand
	items  []uint64 // scratch: ref<<32 | record of the entry at hand
	probes []wProbe // scratch: one for each field of the entry at hand that is not carried
	wCarry
	counts []wCount // scratch of take
	zbuf   []byte   // scratch: a compressed payload
	zstd   blob.Encoder
}

// wMain is the end of the main entry array and what the file lacks of it.
type wMain struct {
	first wRef // first array written since the last take, 0 if that is not news
	array wRef // last array
	cap   uint32
	// Slots from runAt on, in the array runArray which is in the file.
	runArray wRef
	runAt    uint32
	run      []wRef
	link     wPatch // in the file, to the next array; at 0: none
}

// wRun is a sequence of neighbouring slots of one array in the file.
type wRun struct {
	array wRef
	first uint32 // index of its first slot
	n     uint32 // slots
	at    uint32 // scratch of take
}

// wCount is a DATA object whose array and counts are to be written.
type wCount struct {
	id    uint32
	first wRef // its first entry, to be written too, or wKeep
}

// wKept is what a copied entry has from the original.
type wKept struct{ seqnum, xor uint64 }

// wKeep says that the file has the right first entry.
const wKeep = ^wRef(0)

// wSlot is one value of a run.
type wSlot struct {
	run uint32
	ref wRef
}

// wPatch is an offset to be stored in the file: the eight bytes at at become to.
type wPatch struct{ at, to wRef }

// wProbe is what the first look at a field has found.
type wProbe struct {
	place  int    // of the field in the entry
	k0, k1 uint64 // not if same is set
	id     uint32 // record, 0: not seen before
	name   uint32 // length of the name, if id is 0
	field  uint32 // record of the name, if id is 0 and that is known
	same   bool   // as the entry before has it
	item   uint64 // of the entry, when that is composed
	// If id is 0:
	jenkins, hash uint64
	end           wEnd // of the bucket, only to have been read early: it comes from far away, and chain needs it
}

// newMem returns the memory for a file with header h, whose next object goes to
// base. Tables are empty, and that of the DATA objects is not there before begin.
func newMem(h Header, base, maxSize uint64, threshold int) *wMem {
	m := &wMem{
		wHasher:    wHasher{seed0: maphash.MakeSeed(), seed1: maphash.MakeSeed(), fileID: h.FileID, keyed: h.Keyed()},
		hdr:        h,
		compact:    h.Compact(),
		dataHead:   object.MinSize(object.Data, h.Compact()),
		arrayItem:  object.ArrayItemSize,
		entryItem:  object.EntryItemSize,
		limit:      min(maxSize, maxFileSize),
		base:       base,
		fields:     make([]wField, 1),
		fieldIndex: make(map[wKey]uint32),
	}
	if h.IncompatibleFlags&object.IncompatibleZSTD != 0 {
		m.threshold = threshold
	}
	if m.compact {
		m.arrayItem, m.entryItem = object.ArrayItemSizeCompact, object.EntryItemSizeCompact
	}
	m.fieldBuckets = newBuckets(h.FieldHashTableOffset, h.FieldBuckets())
	return m
}

// end is where the next object goes.
func (m *wMem) end() uint64 { return m.base + uint64(len(m.tail)) }

// owed is the memory in bytes that waits to be written.
func (m *wMem) owed() int64 {
	return int64(len(m.tail)) + m.owedIndex() + int64(len(m.main.run))*4
}

// owedIndex is the part of owed that waits for the index, but for what does not
// grow with the number of entries.
func (m *wMem) owedIndex() int64 {
	return int64(m.owes+len(m.slots)+len(m.links)+len(m.chains)) * 8
}

// object appends a zeroed object of size bytes, with its header, to the tail.
// The slice is valid until the next call.
func (m *wMem) object(t object.Type, size uint64) (wRef, []byte) {
	at, n := len(m.tail), int(object.Align8(size))
	off := m.end()
	m.tail = grown(m.tail, n)
	b := m.tail[at:]
	clear(b)
	b[object.ObjType] = byte(t)
	object.PutU64(b, object.ObjSize, size)
	m.hdr.TailObjectOffset = off
	m.hdr.NObjects++
	return refOf(off), b
}

// grown returns b longer by n bytes, with whatever is in its array there. It
// doubles: append grows large slices by a quarter, and copies them often.
func grown(b []byte, n int) []byte {
	if len(b)+n > cap(b) {
		c := make([]byte, len(b), max(2*cap(b), len(b)+n, 64<<10))
		copy(c, b)
		b = c
	}
	return b[:len(b)+n]
}

// unwritten returns the bytes of the object at r from offset field on, if the
// object is still in the tail, else nil.
func (m *wMem) unwritten(r wRef, field int) []byte {
	if off := r.offset(); off >= m.base {
		return m.tail[off-m.base+uint64(field):]
	}
	return nil
}

// newData appends the DATA object of payload p, which pr has looked up in vain,
// and its FIELD object if the name is new, and links both into their chains. It
// notes their records in pr. l is what is known of p already, nil if it is not
// large.
//
// As journald does it: the object, then its bucket, then the field and the
// list of the field's objects.
func (m *wMem) newData(pr *wProbe, p []byte, l *wLarge) {
	id, d := m.data.add(pr.k0, pr.k1)
	var z []byte
	d.jenkins, d.hash = pr.jenkins, pr.hash
	if l != nil && l.hashed {
		z = l.z
	} else {
		if m.threshold > 0 && len(p) >= m.threshold {
			m.zbuf = m.zstd.AppendZSTD(m.zbuf[:0], p)
			z = m.zbuf
		}
	}
	d.off = m.dataObject(d.hash, p, z)
	if cap(m.zbuf) > wKeepBuffer {
		m.zbuf = nil
	}
	m.chainData(d)
	m.hdr.NData++

	f := pr.field
	if f == 0 {
		f = m.field(p[:pr.name])
	} else {
		m.noteFieldDepth(m.fields[f].pos) // as the search for it would have walked
	}
	object.PutU64(m.unwritten(d.off, object.DataNextField), 0, m.fields[f].head.offset())
	m.fields[f].head = d.off
	m.touchField(f)
	m.joinField(d, f)
	pr.id, pr.field = id, f
}

// wHoldValues is how many values of a field are held back: those that a match
// is likely to name.
const wHoldValues = 512

// joinField counts a new DATA object with its field. One of the first values of
// a field, such as a PRIORITY that was not seen before, goes into the file
// without entries, and shows them together with all other values of the field.
// Else a reader with several of them in its match, which looks just when the
// index is written, finds a later entry by a value that was there, not yet an
// earlier one by the new value, and never goes back for it.
func (m *wMem) joinField(d *wData, f uint32) {
	d.group = uint8(f)
	if m.fields[f].n++; m.fields[f].n <= wHoldValues {
		d.state |= wHeld
	}
}

// dataObject appends the bytes of a DATA object with payload p, or with z, which
// is p compressed, if there is one and it is shorter.
func (m *wMem) dataObject(hash uint64, p, z []byte) wRef {
	var flag byte
	if len(z) > 0 && len(z) < len(p) {
		p, flag = z, object.CompressedZSTD
	}
	r, b := m.object(object.Data, m.dataHead+uint64(len(p)))
	b[object.ObjFlags] = flag
	object.PutU64(b, object.DataHash, hash)
	copy(b[m.dataHead:], p)
	return r
}

// wKeepBuffer is the largest buffer in bytes that is kept for reuse.
const wKeepBuffer = 8 << 20

// chainData links the object of a new DATA record into its bucket's chain.
func (m *wMem) chainData(d *wData) {
	d.pos = m.chain(&m.dataBuckets, d.hash, d.off, &m.hdr.DataHashChainDepth)
}

// chain links a new object, DATA or FIELD, at the end of its bucket's chain,
// and returns how many are before it. It counts the depth of the chain as the
// search for the object would have walked it.
func (m *wMem) chain(b *wBuckets, hash uint64, r wRef, depth *uint64) (pos uint16) {
	bucket := hash % uint64(len(b.ends))
	item := refOf(b.off + bucket*wHashItem)
	if b.begin(bucket) {
		m.chains = append(m.chains, wPatch{item, r})
	} else {
		end := b.ends[bucket]
		*depth = max(*depth, uint64(end.pos))
		pos = deeper(end.pos)
		m.patch(&m.chains, end.last, object.DataNextHash, r)
	}
	m.chains = append(m.chains, wPatch{item + 1, r}) // the bucket's tail
	b.ends[bucket] = wEnd{r, pos}
	return pos
}

// patch stores the offset to in a field of an object: in the tail if that has
// it, else as a note in log.
func (m *wMem) patch(log *[]wPatch, of wRef, field int, to wRef) {
	if b := m.unwritten(of, field); b != nil {
		object.PutU64(b, 0, to.offset())
	} else {
		*log = append(*log, wPatch{of + wRef(field/8), to})
	}
}

// deeper is pos+1, but never so large that it wraps.
func deeper(pos uint16) uint16 { return pos + 1 - pos>>15 }

func (m *wMem) noteDataDepth(pos uint16) {
	m.hdr.DataHashChainDepth = max(m.hdr.DataHashChainDepth, uint64(pos))
}

func (m *wMem) noteFieldDepth(pos uint16) {
	m.hdr.FieldHashChainDepth = max(m.hdr.FieldHashChainDepth, uint64(pos))
}

// field returns the record of the field called name, which it makes if it must.
func (m *wMem) field(name []byte) uint32 {
	k := m.key(name)
	if id := m.fieldIndex[k]; id != 0 {
		m.noteFieldDepth(m.fields[id].pos)
		return id
	}
	hash := m.hash(name)
	id := uint32(len(m.fields))
	m.fields = append(m.fields, wField{off: m.fieldObject(hash, name)})
	m.fieldIndex[k] = id
	m.chainField(&m.fields[id], hash)
	return id
}

// fieldObject appends the bytes of a FIELD object.
func (m *wMem) fieldObject(hash uint64, name []byte) wRef {
	r, b := m.object(object.FieldName, object.FieldPayload+uint64(len(name)))
	object.PutU64(b, object.FieldHash, hash)
	copy(b[object.FieldPayload:], name)
	m.hdr.NFields++
	return r
}

// chainField links the object of a new FIELD record into its bucket's chain.
func (m *wMem) chainField(f *wField, hash uint64) {
	f.pos = m.chain(&m.fieldBuckets, hash, f.off, &m.hdr.FieldHashChainDepth)
}

// touchData brings the object of a record up to date if it is still in the
// tail and not held back, else notes that the file's copy is old.
func (m *wMem) touchData(id uint32, d *wData) {
	if d.state&wDirty != 0 {
		return
	}
	if d.state&wHeld == 0 {
		if b := m.unwritten(d.off, dataCounts); b != nil {
			m.putDataCounts(b, d)
			return
		}
	}
	d.state |= wDirty
	m.dirty = append(m.dirty, wCount{id, wKeep})
}

// dataCounts is where in a DATA object that begins which changes with every
// entry: the first array, the count, and in a compact file the last array. It
// is the end of the object's head.
const dataCounts = object.DataEntryArray

func (m *wMem) putDataCounts(b []byte, d *wData) {
	object.PutU64(b, object.DataEntryArray-dataCounts, d.array.offset())
	object.PutU64(b, object.DataNEntries-dataCounts, uint64(d.n))
	if m.compact {
		object.PutU32(b, object.DataTailArray-dataCounts, uint32(d.tailArray.offset()))
		object.PutU32(b, object.DataTailArrayN-dataCounts, d.tailN)
	}
}

// touchField is touchData for the head of a FIELD.
func (m *wMem) touchField(id uint32) {
	f := &m.fields[id]
	if b := m.unwritten(f.off, object.FieldHeadData); b != nil {
		object.PutU64(b, 0, f.head.offset())
	} else if !f.dirty {
		f.dirty = true
		m.dirtyFld = append(m.dirtyFld, id)
	}
}

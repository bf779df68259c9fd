package journal

import (
	"bytes"
	"errors"
	"io"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wSurvey is a walk over all objects of a file that nobody writes, the first
// half of opening a file for writing and of repairing one. It trusts of the
// header only what never changes, and of the objects only what each says about
// itself: payloads that match their hash, entries whose items are such DATA
// objects, and the sizes of arrays. Everything that links them is found out
// anew by wRelink, and compared.
type wSurvey struct {
	f    vfs.File
	path string
	size uint64 // of the file
	buf  []byte // bytes of the file from at on
	at   uint64

	disk  Header // as it is in the file
	plain bool   // and there is nothing else in it
	m     *wMem

	dataOf  wOffsets    // DATA object -> record
	links   []wDiskLink // by record: the link fields in the file
	fieldOf []uint32    // by record: its field
	lastIn  []uint32    // by record: number of the last entry that has it, from 1
	missing []string    // by field: the name, while no FIELD object was found
	fhash   []uint64    // by field: the hash of its name
	flinks  []wDiskField

	arrays  wOffsets // ENTRY_ARRAY object -> index in array
	array   []wDiskArray
	entries []wRef   // ENTRY objects in order
	nItems  []uint32 // by entry: how many items
	items   []uint32 // records of the items of all entries
	odd     []uint64 // objects whose header has reserved bytes that are not zero
	badXor  []wXor   // entries with an xor_hash that their items cannot have

	cut  uint64 // end of the last good object
	tail uint64 // the last good object
	kept Header // with counters and times of what was found
	why  error  // *FormatError: why the walk ended before the header's tail; nil if it did not

	dec     blob.Decoder
	payload []byte // scratch
}

// wDiskLink are the link fields of a DATA object as the file has them.
type wDiskLink struct {
	nextHash, nextField, entry, array, n uint64
	tailArray, tailN                     uint32
}

type wDiskField struct{ nextHash, head uint64 }

type wDiskArray struct {
	next  uint64
	slots uint32
	taken bool // part of a chain
}

// wXor is what the xor_hash of the entry at off should be.
type wXor struct {
	off  wRef
	hash uint64
}

const surveyChunk = 1 << 20

// bytesAt returns n bytes at off, valid until the next call.
func (s *wSurvey) bytesAt(off, n uint64) ([]byte, error) {
	if off < s.at || off+n > s.at+uint64(len(s.buf)) {
		if off > s.size || n > s.size-off {
			return nil, formatErrorf(s.path, off, ErrTruncated, "%d bytes", n)
		}
		want := min(max(n, surveyChunk), s.size-off)
		if uint64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf = s.buf[:want]
		s.at = off
		if k, err := s.f.ReadAt(s.buf, int64(off)); err != nil && uint64(k) < want {
			s.buf = s.buf[:0]
			if errors.Is(err, io.EOF) {
				return nil, formatErrorf(s.path, off+uint64(k), ErrTruncated, "file became shorter")
			}
			return nil, err
		}
	}
	return s.buf[off-s.at:][:n], nil
}

// survey reads the file f. Errors are those that leave nothing to repair: of
// reading, or a *FormatError about the header or the hash tables.
func survey(f vfs.File, path string, maxSize uint64, threshold int) (*wSurvey, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	s := &wSurvey{f: f, path: path, size: uint64(size)}
	if err := s.header(); err != nil {
		return nil, err
	}
	s.m = newMem(s.disk, 0, maxSize, threshold)
	s.m.begin()
	h := &s.m.hdr
	h.NObjects, h.NData, h.NFields, h.NEntryArrays, h.NEntries = 0, 0, 0, 0, 0
	s.links = make([]wDiskLink, 1)
	s.fieldOf = make([]uint32, 1)
	s.lastIn = make([]uint32, 1)
	s.flinks = make([]wDiskField, 1)
	s.missing = make([]string, 1)
	s.fhash = make([]uint64, 1)
	if err := s.walk(); err != nil {
		return nil, err
	}
	s.m.base = object.Align8(s.cut)
	h.TailObjectOffset = s.tail
	s.kept = *h
	return s, nil
}

// header reads the header and refuses what a writer of this package does not
// write.
func (s *wSurvey) header() error {
	n := min(s.size, object.HeaderSize254)
	b, err := s.bytesAt(0, n)
	if err != nil {
		return err
	}
	if n < object.HeaderSizeMin {
		return formatErrorf(s.path, 0, ErrTruncated, "%d bytes", s.size)
	}
	if string(b[:8]) != object.Signature {
		return formatErrorf(s.path, 0, ErrNotJournal, "")
	}
	s.disk = decodeHeader(b)
	h := &s.disk
	if h.HeaderSize == object.HeaderSize252 || h.HeaderSize == object.HeaderSize254 {
		var again [object.HeaderSize254]byte
		encodeHeader(again[:], h)
		s.plain = n >= h.HeaderSize && string(again[:h.HeaderSize]) == string(b[:h.HeaderSize])
	}
	bad := func(at uint64, err error, format string, args ...any) error {
		return formatErrorf(s.path, at, err, format, args...)
	}
	switch {
	case h.IncompatibleFlags&^object.IncompatibleAll != 0:
		return bad(object.HdrIncompatible, ErrFlags, "incompatible flags %#x", h.IncompatibleFlags)
	case h.CompatibleFlags&^object.CompatibleTailEntryBootID != 0:
		return bad(object.HdrCompatible, ErrFlags, "compatible flags %#x", h.CompatibleFlags)
	case h.HeaderSize != object.HeaderSize252 && h.HeaderSize != object.HeaderSize254:
		return bad(object.HdrHeaderSize, ErrFlags, "header of %d bytes", h.HeaderSize)
	case h.State > StateArchived:
		return bad(object.HdrState, ErrCorrupt, "state %d", h.State)
	case s.size > maxFileSize:
		return bad(0, ErrFlags, "%d bytes", s.size)
	}
	for _, t := range [...]struct {
		at, off, size uint64
	}{
		{object.HdrDataHashTableOffset, h.DataHashTableOffset, h.DataHashTableSize},
		{object.HdrFieldHashTableOffset, h.FieldHashTableOffset, h.FieldHashTableSize},
	} {
		if t.off%8 != 0 || t.off < h.HeaderSize+object.HashTableItems || t.size == 0 || t.size%wHashItem != 0 ||
			t.off > s.size || t.size > s.size-t.off {
			return bad(t.at, ErrCorrupt, "hash table of %d bytes at %#x", t.size, t.off)
		}
	}
	return nil
}

// walk takes in every object up to the header's tail object, or up to the first
// that is not whole.
func (s *wSurvey) walk() error {
	off := object.Align8(s.disk.HeaderSize)
	tables := 0
	for off <= s.disk.TailObjectOffset {
		size, t, err := s.take(off)
		if err != nil {
			var fe *FormatError
			if !errors.As(err, &fe) {
				return err
			}
			s.why = err
			break
		}
		if t == object.DataHashTable || t == object.FieldHashTable {
			tables++
		}
		s.m.hdr.NObjects++
		s.tail, s.cut = off, off+size
		off = object.Align8(off + size)
	}
	if tables != 2 {
		if s.why == nil {
			s.why = formatErrorf(s.path, off, ErrCorrupt, "no hash tables")
		}
		return s.why
	}
	if s.why == nil && s.tail != s.disk.TailObjectOffset {
		s.why = formatErrorf(s.path, object.HdrTailObjectOffset, ErrCorrupt, "no object ends the file at %#x", s.disk.TailObjectOffset)
	}
	return nil
}

// take checks the object at off and takes it in.
func (s *wSurvey) take(off uint64) (size uint64, t object.Type, err error) {
	b, err := s.bytesAt(off, object.ObjHdrSize)
	if err != nil {
		return 0, 0, err
	}
	t, size = object.Type(b[object.ObjType]), object.U64(b, object.ObjSize)
	flags := b[object.ObjFlags]
	bad := func(format string, args ...any) error { return formatErrorf(s.path, off, ErrCorrupt, format, args...) }
	switch {
	case size < object.MinSize(t, s.m.compact):
		return 0, 0, bad("object of type %d has %d bytes", t, size)
	case size > s.size-off:
		return 0, 0, formatErrorf(s.path, off, ErrTruncated, "object of %d bytes", size)
	case flags != 0 && (t != object.Data || flags&^object.CompressedAny != 0):
		return 0, 0, bad("object of type %d has flags %#x", t, flags)
	}
	if object.U64(b, 0)>>16 != 0 {
		s.odd = append(s.odd, off)
	}
	if t == object.DataHashTable || t == object.FieldHashTable {
		return size, t, s.takeTable(off, size, t)
	}
	if b, err = s.bytesAt(off, size); err != nil {
		return 0, 0, err
	}
	switch t {
	case object.Data:
		err = s.takeData(off, b, flags)
	case object.FieldName:
		err = s.takeField(off, b)
	case object.Entry:
		err = s.takeEntry(off, b)
	case object.EntryArray:
		err = s.takeArray(off, b)
	default:
		err = bad("object of type %d", t)
	}
	return size, t, err
}

func (s *wSurvey) takeTable(off, size uint64, t object.Type) error {
	h := &s.disk
	at, n := h.DataHashTableOffset, h.DataHashTableSize
	if t == object.FieldHashTable {
		at, n = h.FieldHashTableOffset, h.FieldHashTableSize
	}
	if off+object.HashTableItems != at || size != object.HashTableItems+n {
		return formatErrorf(s.path, off, ErrCorrupt, "hash table that the header does not name")
	}
	return nil
}

func (s *wSurvey) takeData(off uint64, b []byte, flags byte) (err error) {
	m := s.m
	bad := func(format string, args ...any) error { return formatErrorf(s.path, off, ErrCorrupt, format, args...) }
	p := b[m.dataHead:]
	if flags != 0 {
		if uint32(flags)&^wCompressions(s.disk.IncompatibleFlags) != 0 {
			return bad("compression %#x is not among the file's", flags)
		}
		if s.payload, err = s.dec.Decompress(s.payload[:0], flags, p, 0); err != nil {
			return bad("%v", err)
		}
		p = s.payload
	}
	n := bytes.IndexByte(p, '=')
	if n < 0 || !entry.ValidName(p[:n], true) {
		return bad("payload without a valid name")
	}
	hash := object.U64(b, object.DataHash)
	if hash != m.hash(p) {
		return bad("hash %016x of a payload with another", hash)
	}
	k := m.key(p)
	id, d := m.data.add(k.k0, k.k1)
	d.off, d.hash, d.jenkins = refOf(off), hash, hash
	if m.keyed {
		d.jenkins = object.Jenkins(p)
	}
	m.hdr.NData++
	s.dataOf.put(d.off, id)
	l := wDiskLink{
		nextHash:  object.U64(b, object.DataNextHash),
		nextField: object.U64(b, object.DataNextField),
		entry:     object.U64(b, object.DataEntry),
		array:     object.U64(b, object.DataEntryArray),
		n:         object.U64(b, object.DataNEntries),
	}
	if m.compact {
		l.tailArray, l.tailN = object.U32(b, object.DataTailArray), object.U32(b, object.DataTailArrayN)
	}
	s.links = append(s.links, l)
	s.lastIn = append(s.lastIn, 0)
	s.fieldOf = append(s.fieldOf, s.fieldNamed(p[:n]))
	return nil
}

// wCompressions are the object flags that a file with these incompatible flags
// may have.
func wCompressions(incompatible uint32) (flags uint32) {
	for _, c := range [...][2]uint32{
		{object.IncompatibleXZ, object.CompressedXZ},
		{object.IncompatibleLZ4, object.CompressedLZ4},
		{object.IncompatibleZSTD, object.CompressedZSTD},
	} {
		if incompatible&c[0] != 0 {
			flags |= c[1]
		}
	}
	return flags
}

// fieldNamed returns the record of a field, whose FIELD object may follow.
func (s *wSurvey) fieldNamed(name []byte) uint32 {
	m := s.m
	k := m.key(name)
	id := m.fieldIndex[k]
	if id == 0 {
		id = s.newField(string(name), m.hash(name))
		m.fieldIndex[k] = id
	}
	return id
}

func (s *wSurvey) newField(missing string, hash uint64) uint32 {
	id := uint32(len(s.m.fields))
	s.m.fields = append(s.m.fields, wField{})
	s.flinks = append(s.flinks, wDiskField{})
	s.missing = append(s.missing, missing)
	s.fhash = append(s.fhash, hash)
	return id
}

func (s *wSurvey) takeField(off uint64, b []byte) error {
	m := s.m
	name := b[object.FieldPayload:]
	hash := object.U64(b, object.FieldHash)
	if !entry.ValidName(name, true) || hash != m.hash(name) {
		return formatErrorf(s.path, off, ErrCorrupt, "field whose name and hash do not match")
	}
	id := s.fieldNamed(name)
	if m.fields[id].off != 0 {
		id = s.newField("", hash) // a second object of that name: kept, and never used
	}
	s.missing[id] = ""
	m.fields[id].off = refOf(off)
	s.flinks[id] = wDiskField{object.U64(b, object.FieldNextHash), object.U64(b, object.FieldHeadData)}
	m.hdr.NFields++
	return nil
}

func (s *wSurvey) takeArray(off uint64, b []byte) error {
	n := uint64(len(b)) - object.ArrayItems
	if n == 0 || n%s.m.arrayItem != 0 {
		return formatErrorf(s.path, off, ErrCorrupt, "entry array of %d bytes", len(b))
	}
	s.arrays.put(refOf(off), uint32(len(s.array)))
	s.array = append(s.array, wDiskArray{next: object.U64(b, object.ArrayNext), slots: uint32(n / s.m.arrayItem)})
	s.m.hdr.NEntryArrays++
	return nil
}

// takeEntry takes in an entry if all of it is there: it must follow the one
// before it, and its items must be DATA objects.
func (s *wSurvey) takeEntry(off uint64, b []byte) error {
	m, h := s.m, &s.m.hdr
	bad := func(format string, args ...any) error { return formatErrorf(s.path, off, ErrCorrupt, format, args...) }
	seqnum := object.U64(b, object.EntrySeqnum)
	st := wStamp{object.U64(b, object.EntryRealtime), object.U64(b, object.EntryMonotonic), entry.ID(b[object.EntryBootID:])}
	n := uint64(len(b)) - object.EntryItems
	first := len(s.entries) == 0
	switch {
	case n == 0 || n%m.entryItem != 0:
		return bad("entry of %d bytes", len(b))
	case seqnum == 0 || !first && seqnum <= h.TailEntrySeqnum:
		return bad("entry number %d after %d", seqnum, h.TailEntrySeqnum)
	}
	h.NEntries = uint64(len(s.entries)) // for checkTime
	err := m.checkTime(st)
	h.NEntries = 0
	if err != nil {
		return bad("%v", err)
	}
	from := len(s.items)
	number := uint32(len(s.entries) + 1)
	for i := uint64(0); i < n; i += m.entryItem {
		ref := m.slotAt(b[object.EntryItems+i:])
		var why string
		id := s.dataOf.get(refOf(ref))
		switch at := object.EntryItems + i + 8; {
		case ref%8 != 0 || ref >= off || id == 0:
			why = "is no data object before it"
		case s.lastIn[id] == number:
			// Items are sorted, but for entries that journald has copied from
			// /run/log/journal. None comes twice.
			why = "came before"
		case !m.compact && object.U64(b, int(at)) != m.data.at(id).hash:
			why = "has another hash"
		}
		if why != "" {
			s.items = s.items[:from]
			return bad("item %d of the entry, %#x, %s", i/m.entryItem, ref, why)
		}
		s.lastIn[id] = number
		s.items = append(s.items, id)
	}
	s.checkXor(off, object.U64(b, object.EntryXorHash), s.items[from:])
	s.entries = append(s.entries, refOf(off))
	s.nItems = append(s.nItems, uint32(len(s.items)-from))
	if first {
		h.HeadEntrySeqnum, h.HeadEntryRealtime = seqnum, st.realtime
	}
	h.TailEntrySeqnum, h.TailEntryOffset = seqnum, off
	h.TailEntryRealtime, h.TailEntryMonotonic, h.TailEntryBootID = st.realtime, st.monotonic, st.boot
	return nil
}

// checkXor notes an xor_hash that the items of the entry at off cannot have.
func (s *wSurvey) checkXor(off, disk uint64, items []uint32) {
	var hash uint64
	for _, id := range items {
		hash ^= s.m.data.at(id).jenkins
	}
	if hash == disk {
		return
	}
	var basis xorBasis
	for _, id := range items {
		basis.add(s.m.data.at(id).jenkins)
	}
	if basis.reduce(hash^disk) != 0 {
		s.badXor = append(s.badXor, wXor{refOf(off), hash})
	}
}

// slotAt reads the offset at b, of an array's slot or an entry's item.
func (m *wMem) slotAt(b []byte) uint64 {
	if m.compact {
		return uint64(object.U32(b, 0))
	}
	return object.U64(b, 0)
}

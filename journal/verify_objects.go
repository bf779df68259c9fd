package journal

import (
	"bytes"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// vObject is the header of an object that lies within the file and is not
// smaller than its type demands.
type vObject struct {
	off, size uint64
	typ       object.Type
	flags     byte
	odd       bool // it has other flags, or reserved bytes that are not zero
}

// vTypeName is what journalctl calls a type.
func vTypeName(t object.Type) string {
	names := [...]string{"unused", "data", "field", "entry", "data hash table", "field hash table", "entry array", "tag"}
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown"
}

// vErrno are the words of the errno with which journalctl refuses an object.
const (
	vBadMessage = "Bad message"
	vBeyond     = "Cannot assign requested address"
)

// objectAt reads the object header at p. why tells what is wrong with it, in
// the words of journalctl and then in ours.
func (v *verifier) objectAt(p uint64) (o vObject, why string, err error) {
	return v.objectIn(&v.win, p)
}

// objectIn is objectAt through the window w.
func (v *verifier) objectIn(w *vWindow, p uint64) (o vObject, why string, err error) {
	if p%8 != 0 {
		return o, vBadMessage + " (offset is not a multiple of 8)", nil
	}
	if p > w.size || w.size-p < object.ObjHdrSize {
		return o, vBeyond + " (beyond the end of the file)", nil
	}
	b, err := w.get(p, object.ObjHdrSize)
	if err != nil {
		return o, "", err
	}
	o = vObject{off: p, size: object.U64(b, object.ObjSize), typ: object.Type(b[object.ObjType]), flags: b[object.ObjFlags]}
	o.odd = object.U64(b, 0)>>8&^object.CompressedAny != 0
	switch {
	case o.size == 0:
		return o, vBadMessage + " (uninitialized)", nil
	case o.size < object.ObjHdrSize:
		return o, vBadMessage + " (overly short)", nil
	case o.typ == object.Unused:
		return o, vBadMessage + " (invalid type 0)", nil
	case o.size < object.MinSize(o.typ, v.compact()):
		return o, vBadMessage + " (too short for its type, " + vTypeName(o.typ) + ")", nil
	case o.size > w.size-p:
		return o, vBeyond + " (ends beyond the end of the file)", nil
	}
	return o, "", nil
}

// walkObjects is the first pass: every object in the order of the file, its
// shape and contents, without following references. complete is false when it
// could not get to the last object.
func (v *verifier) walkObjects() (complete bool, err error) {
	// The header's count saves copying; it may be a lie, and the file sparse.
	v.data = make([]vData, 0, min(v.h(object.HdrNData), v.win.size/64, 1<<18))
	v.hot = make([]vHot, 0, cap(v.data))
	for p := v.hdrSize; v.tail != 0; {
		o, why, err := v.objectAt(p)
		if err != nil {
			return false, err
		}
		if why != "" {
			v.fail(p, ProblemObject, "Invalid object: %s", why)
			v.report.Stopped = p
			return false, nil
		}
		if p > v.tail {
			v.fail(object.HdrTailObjectOffset, ProblemHeader, "Invalid tail object pointer (%d > %d)", p, v.tail)
			v.report.Stopped = p
			return false, nil
		}
		v.report.Objects++
		if err := v.checkObject(o); err != nil {
			return false, err
		}
		if p == v.tail {
			break
		}
		p += object.Align8(o.size)
	}
	for _, x := range []*vIndex{&v.dataIdx, &v.fieldIdx, &v.entryIdx, &v.arrayIdx} {
		x.seal()
	}
	return true, nil
}

func (v *verifier) checkObject(o vObject) error {
	if o.flags&object.CompressedAny != 0 && o.typ != object.Data {
		v.fail(o.off, ProblemContents, "Found compressed object of type %s that isn't of type data, which is not allowed.", vTypeName(o.typ))
	}
	v.checkCompression(o)
	if o.odd {
		v.fail(o.off, ProblemContents, "Object header has unknown flags, or reserved bytes that are not zero")
	}
	switch o.typ {
	case object.Data:
		return v.checkData(o)
	case object.FieldName:
		return v.checkField(o)
	case object.Entry:
		return v.checkEntry(o)
	case object.DataHashTable:
		return v.checkTable(o, 0, object.HdrDataHashTableOffset, object.HdrDataHashTableSize)
	case object.FieldHashTable:
		return v.checkTable(o, 1, object.HdrFieldHashTableOffset, object.HdrFieldHashTableSize)
	case object.EntryArray:
		return v.checkArray(o)
	case object.Tag:
		return v.checkTag(o)
	default: // object types of the future are skipped, as readers do
		return nil
	}
}

func (v *verifier) checkCompression(o vObject) {
	f := o.flags & object.CompressedAny
	if f&(f-1) != 0 {
		v.fail(o.off, ProblemContents, "Object has multiple compression flags set (flags: 0x%x)", o.flags)
	}
	for _, c := range []struct {
		flag byte
		need uint32
		name string
	}{
		{object.CompressedXZ, object.IncompatibleXZ, "XZ"},
		{object.CompressedLZ4, object.IncompatibleLZ4, "LZ4"},
		{object.CompressedZSTD, object.IncompatibleZSTD, "ZSTD"},
	} {
		if f&c.flag != 0 && v.incompat&c.need == 0 {
			v.fail(o.off, ProblemContents, "%s compressed object in file without %[1]s compression", c.name)
		}
	}
}

// vMaxObject bounds an object whose payload is hashed: journald takes fields of
// up to 768 MiB.
const vMaxObject = blob.MaxSize + 4096

func (v *verifier) checkData(o vObject) error {
	head := uint64(object.DataPayload)
	if v.compact() {
		head = object.DataPayloadCompact
	}
	n := o.size
	if n > vMaxObject {
		v.fail(o.off, ProblemObject, "Bad object size (> %d): %d", vMaxObject, o.size)
		n = head
	}
	b, err := v.win.get(o.off, int(n))
	if err != nil {
		return err
	}
	d := vData{
		off:       o.off,
		nextHash:  object.U64(b, object.DataNextHash),
		nextField: object.U64(b, object.DataNextField),
		entry:     object.U64(b, object.DataEntry),
		array:     object.U64(b, object.DataEntryArray),
		n:         object.U64(b, object.DataNEntries),
	}
	if v.compact() {
		d.tailArray = object.U32(b, object.DataTailArray)
		d.tailN = object.U32(b, object.DataTailArrayN)
	}
	h := vHot{hash: object.U64(b, object.DataHash)}
	if (d.entry == 0) != (d.n == 0) {
		v.fail(o.off, ProblemObject, "Bad n_entries: %d", d.n)
	}
	if o.size == head {
		v.fail(o.off, ProblemObject, "Bad object size (<= %d): %d", head, o.size)
	}
	if p := v.payload(o, b[head:]); p == nil {
		h.flags |= vDamaged
	} else {
		got := v.hash(p)
		if h.hash != got {
			v.fail(o.off, ProblemContents, "Invalid hash (%08x vs. %08x)", h.hash, got)
			h.flags |= vDamaged
		}
		h.jenkins = got
		if v.incompat&object.IncompatibleKeyed != 0 {
			h.jenkins = object.Jenkins(p)
		}
		eq := bytes.IndexByte(p, '=')
		if eq < 0 {
			if h.hash == got {
				v.fail(o.off, ProblemContents, "Data object without field name")
			}
			eq = len(p)
		}
		d.name = object.Jenkins(p[:eq])
	}
	if (d.nextHash|d.nextField|d.entry|d.array)%8 != 0 {
		v.fail(o.off, ProblemObject, "Invalid offset (next_hash_offset=%06x, next_field_offset=%06x, entry_offset=%06x, entry_array_offset=%06x",
			d.nextHash, d.nextField, d.entry, d.array)
	}
	v.dataIdx.add(o.off)
	v.data = append(v.data, d)
	v.hot = append(v.hot, h)
	v.report.Data++
	return nil
}

// payload returns the uncompressed payload p of a DATA object, nil when it is
// empty or cannot be had. It is valid until the next call.
func (v *verifier) payload(o vObject, p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	var name string
	switch o.flags & object.CompressedAny {
	case 0:
		return p
	case object.CompressedXZ:
		name = "XZ"
	case object.CompressedLZ4:
		name = "LZ4"
	case object.CompressedZSTD:
		name = "ZSTD"
	default: // several flags, reported elsewhere
		return nil
	}
	if cap(v.plain) > 16*vPiece {
		v.plain = nil
	}
	plain, err := v.dec.Decompress(v.plain[:0], o.flags&object.CompressedAny, p, blob.MaxSize)
	if err != nil {
		v.fail(o.off, ProblemContents, "%s decompression failed: %s (%v)", name, vBadMessage, err)
		return nil
	}
	if v.plain = plain; len(plain) == 0 {
		v.fail(o.off, ProblemContents, "Compressed data object without payload")
		return nil
	}
	return plain
}

func (v *verifier) checkField(o vObject) error {
	n := o.size
	if n > vMaxObject {
		v.fail(o.off, ProblemObject, "Bad field size (> %d): %d", vMaxObject, o.size)
		n = object.FieldPayload
	}
	b, err := v.win.get(o.off, int(n))
	if err != nil {
		return err
	}
	f := vField{
		off:      o.off,
		hash:     object.U64(b, object.FieldHash),
		nextHash: object.U64(b, object.FieldNextHash),
		headData: object.U64(b, object.FieldHeadData),
	}
	if o.size == object.FieldPayload {
		v.fail(o.off, ProblemObject, "Bad field size (<= %d): %d", object.FieldPayload, o.size)
	}
	name := b[object.FieldPayload:]
	if got := v.hash(name); f.hash != got && n == o.size {
		v.fail(o.off, ProblemContents, "Invalid hash (%08x vs. %08x)", f.hash, got)
		f.damaged = true
	}
	f.name = object.Jenkins(name)
	if (f.nextHash|f.headData)%8 != 0 {
		v.fail(o.off, ProblemObject, "Invalid offset (next_hash_offset=%06x, head_data_offset=%06x", f.nextHash, f.headData)
	}
	v.fieldIdx.add(o.off)
	v.fields = append(v.fields, f)
	v.report.Fields++
	return nil
}

// pieces calls f with n elements of size elem that begin at off, some at a
// time; i is the number of the first of them.
func (v *verifier) pieces(off, n, elem uint64, f func(i uint64, b []byte) error) error {
	for i := uint64(0); i < n; {
		k := min(n-i, vPiece/elem)
		b, err := v.win.get(off+i*elem, int(k*elem))
		if err != nil {
			return err
		}
		if err := f(i, b); err != nil {
			return err
		}
		i += k
	}
	return nil
}

// checkTable checks a hash table object; which is 0 for data, 1 for fields.
func (v *verifier) checkTable(o vObject, which, hdrOff, hdrSize int) error {
	name, n := vTypeName(o.typ), (o.size-object.HashTableItems)/object.HashItemSize
	if (o.size-object.HashTableItems)%object.HashItemSize != 0 || n == 0 {
		v.fail(o.off, ProblemObject, "Invalid %s size: %d", name, o.size)
	}
	err := v.pieces(o.off+object.HashTableItems, n, object.HashItemSize, func(i uint64, b []byte) error {
		for ; len(b) > 0; i, b = i+1, b[object.HashItemSize:] {
			head, tail := object.U64(b, 0), object.U64(b, 8)
			switch {
			case head|tail == 0:
			case head%8 != 0:
				v.fail(o.off, ProblemContents, "Invalid %s hash table item (%d/%d) head_hash_offset: %06x", name, i, n, head)
			case tail%8 != 0:
				v.fail(o.off, ProblemContents, "Invalid %s hash table item (%d/%d) tail_hash_offset: %06x", name, i, n, tail)
			case head == 0 || tail == 0:
				v.fail(o.off, ProblemContents, "Invalid %s hash table item (%d/%d): head_hash_offset=%06x tail_hash_offset=%06x", name, i, n, head, tail)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.tables[which]++; v.tables[which] > 1 {
		v.fail(o.off, ProblemObject, "More than one %s: %d", name, v.tables[which])
	}
	if got := v.h(hdrOff); got != o.off+object.HashTableItems {
		v.fail(o.off, ProblemHeader, "Header offset for %s invalid (%d != %d)", name, got, o.off+object.HashTableItems)
	}
	if got := v.h(hdrSize); got != o.size-object.HashTableItems {
		v.fail(o.off, ProblemHeader, "Header size for %s invalid (%d != %d)", name, got, o.size-object.HashTableItems)
	}
	return nil
}

// arrayItem is the size of a slot of an entry array.
func (v *verifier) arrayItem() uint64 {
	if v.compact() {
		return object.ArrayItemSizeCompact
	}
	return object.ArrayItemSize
}

// vSlot reads the offset at b[i*elem:] of a slot or item of elem bytes.
func vSlot(b []byte, i int, elem uint64) uint64 {
	if elem == object.ArrayItemSizeCompact {
		return uint64(object.U32(b, i*object.ArrayItemSizeCompact))
	}
	return object.U64(b, i*int(elem))
}

func (v *verifier) checkArray(o vObject) error {
	elem := v.arrayItem()
	n := (o.size - object.ArrayItems) / elem
	if (o.size-object.ArrayItems)%elem != 0 || n == 0 {
		v.fail(o.off, ProblemObject, "Invalid object entry array size: %d", o.size)
	}
	b, err := v.win.get(o.off, object.ArrayItems)
	if err != nil {
		return err
	}
	if next := object.U64(b, object.ArrayNext); next%8 != 0 {
		v.fail(o.off, ProblemObject, "Invalid object entry array next_entry_array_offset: %06x", next)
	}
	err = v.pieces(o.off+object.ArrayItems, n, elem, func(first uint64, b []byte) error {
		for i := range len(b) / int(elem) {
			if q := vSlot(b, i, elem); q%8 != 0 {
				v.fail(o.off, ProblemContents, "Invalid object entry array item (%d/%d): %06x", first+uint64(i), n, q)
			}
		}
		return nil
	})
	v.arrayIdx.add(o.off)
	v.report.EntryArrays++
	return err
}

func (v *verifier) checkTag(o vObject) error {
	b, err := v.win.get(o.off, object.TagSize)
	if err != nil {
		return err
	}
	seq, epoch := object.U64(b, object.TagSeqnum), object.U64(b, object.TagEpoch)
	if o.size != object.TagSize {
		v.fail(o.off, ProblemObject, "Invalid object tag size: %d", o.size)
	}
	if epoch >= object.TimeLimit {
		v.fail(o.off, ProblemObject, "Invalid object tag epoch: %d", epoch)
	}
	if !v.report.Sealed {
		v.fail(o.off, ProblemSeal, "Tag object in file without sealing")
	}
	if seq != v.report.Tags+1 {
		v.fail(o.off, ProblemSeal, "Tag sequence number out of synchronization (%d != %d)", seq, v.report.Tags+1)
	}
	last := v.order.epoch
	if v.compat&object.CompatibleSealedContinuous != 0 {
		if t := v.report.Tags; t > 0 && (t != 1 || epoch != last) && epoch != last+1 {
			v.fail(o.off, ProblemSeal, "Epoch sequence not continuous (%d vs %d)", epoch, last)
		}
	} else if epoch < last {
		v.fail(o.off, ProblemSeal, "Epoch sequence out of synchronization (%d < %d)", epoch, last)
	}
	v.order.epoch = epoch
	v.report.Tags++
	return nil
}

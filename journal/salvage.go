package journal

import (
	"errors"
	"slices"
	"sort"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// salvage is the list of entries of a damaged file, found by walking its
// objects instead of its arrays. It holds 8 bytes an entry.
type salvage struct {
	index  []uint64 // offsets, ascending
	next   uint64   // where the scan goes on when the file grows
	budget uint64   // bytes of objects that may yet be checked
	gaps   int      // places where the walk had to search for the next object
	lost   uint64   // bytes passed over in them
	holes  []hole   // where they are
	bad    int      // ENTRY objects that are damaged themselves
	fs     fields   // for the items of an entry
	done   bool     // the first scan has come to its end
}

// hole is a part of a file in which a walk has found no object.
type hole struct{ from, to uint64 }

// searchBudget bounds the work spent on checking what may be objects, which may
// overlap and be compressed, as a multiple of the file's size.
const searchBudget = 16

// Salvaged reports whether the file is read by scanning it because it is
// damaged; found is the number of entries so delivered, counted the number that
// its header claims. The difference is what was skipped.
func (f *File) Salvaged() (found, counted uint64, ok bool) {
	if f.salvaged == nil {
		return 0, 0, false
	}
	return uint64(len(f.salvaged.index)), f.hdr.NEntries, true
}

// Damage is what a reader could not read of a file.
type Damage struct {
	// Scanned: the file was read by going through all of its objects. What its
	// header counts and was not found is part of Entries.
	Scanned bool
	// Entries that were passed over so far: there is nothing left of them.
	Entries uint64
	// Fields that are missing in entries that were delivered so far.
	Fields uint64
}

// Damage tells what could not be read so far; ok is false when nothing was found
// to be damaged. Warnings has the reasons. An entry that was read twice is counted
// twice.
func (f *File) Damage() (d Damage, ok bool) {
	d = Damage{Scanned: f.salvaged != nil, Entries: f.unread, Fields: f.badFields}
	// A count that does not fit the numbers of the first and the last says nothing.
	h := &f.hdr
	if n := h.NEntries; d.Scanned && h.HeadEntrySeqnum > 0 && n <= h.TailEntrySeqnum-h.HeadEntrySeqnum+1 {
		d.Entries += n - min(n, uint64(len(f.salvaged.index)))
	}
	return d, f.nWarn > 0
}

// damaged is called with an error of the main array, or of an entry in it. The
// first time it scans the file and answers errRenumbered: the caller begins
// again. In a file that has been scanned it returns err.
func (f *File) damaged(err error) error {
	if f.salvaged != nil || errors.Is(err, errRenumbered) {
		return err
	}
	f.warn(err)
	f.startSalvage()
	return errRenumbered
}

// startSalvage scans the file; from now on its entries are those found. A file that
// was cut while it was scanned, and has grown again since, is scanned once more.
func (f *File) startSalvage() {
	f.renumbered++
	if f.scan(); f.short {
		f.forget()
		if f.scan(); f.short {
			f.warn(f.errorf(f.salvaged.next, ErrTruncated, "cut while it was scanned: there may be more"))
		}
	}
	s := f.salvaged
	s.done = true
	f.warn(f.errorf(0, ErrCorrupt, "scanned: %d entries of %d, %d damaged, %d gaps of %d bytes together",
		len(s.index), f.hdr.NEntries, s.bad, s.gaps, s.lost))
}

// scan goes through the file once; f.short tells that it was cut meanwhile.
func (f *File) scan() {
	// It may have become shorter since the last Refresh.
	f.end, f.short = min(f.end, uint64(max(f.size(), 0))), false
	f.salvaged = f.newWalk()
	f.salvageMore()
	f.salvageListed()
}

// salvageMore goes on with the scan where it ended.
func (f *File) salvageMore() {
	f.salvaged.walk(f, func(off uint64, t object.Type) {
		if t == object.Entry {
			f.salvageEntry(off)
		}
	})
}

// salvageListed adds the entries in holes that the main array names, as far as
// it can be followed: those of which a byte is damaged that a walk goes by and
// nothing else. So a scan loses nothing that was read before it.
func (f *File) salvageListed() {
	s := f.salvaged
	holes := append(s.holes, hole{s.next, f.end})
	s.holes = nil
	var more []uint64
	var h entryHead
	for i := range min(f.hdr.NEntries, f.end/object.ArrayItemSizeCompact) {
		off, err := f.main.slot(f, i)
		if err != nil {
			break
		}
		k := sort.Search(len(holes), func(k int) bool { return off < holes[k].to })
		if k < len(holes) && off >= holes[k].from && f.readHead(off, &h) == nil {
			more = append(more, off)
		}
	}
	if len(more) > 0 {
		s.index = append(s.index, more...)
		slices.Sort(s.index)
		s.index = slices.Compact(s.index)
	}
}

// walkObjects calls visit for every object that can be found in the file.
func (f *File) walkObjects(visit func(off uint64, t object.Type)) {
	f.newWalk().walk(f, visit)
}

func (f *File) newWalk() *salvage {
	return &salvage{next: f.firstObject(), budget: searchBudget*f.end + largeStep}
}

// walk goes from object to object, from s.next on. Where there is none, or one
// whose size may be wrong, it searches for the next that is proven to be one.
func (s *salvage) walk(f *File, visit func(off uint64, t object.Type)) {
	last := f.tailObject()
	for off := s.next; ; {
		if last != 0 && off > last {
			s.next = off
			return
		}
		limit := f.end
		t, size := f.plausible(off)
		if t != object.Unused {
			next := off + object.Align8(size)
			if s.sound(f, off, size) {
				visit(off, t)
				off = next
				continue
			}
			if behind, _ := f.plausible(next); behind != object.Unused || off == last {
				limit = next
			}
		}
		found := s.search(f, off+8, limit)
		switch {
		case found != 0:
			s.gaps++
			s.lost += found - off
			s.holes = append(s.holes, hole{off, found})
			off = found
		case limit < f.end || off == last:
			// Its contents are damaged, its size is not.
			visit(off, t)
			off = limit
		default:
			s.next = off
			return
		}
	}
}

// salvageEntry takes the entry at off into the list if it is a good one.
func (f *File) salvageEntry(off uint64) {
	var h entryHead
	if err := f.readHead(off, &h); err != nil {
		f.salvaged.bad++
		f.warn(err)
		return
	}
	f.salvaged.index = append(f.salvaged.index, off)
}

// tailObject is the header's last object, or 0 when that cannot be one.
func (f *File) tailObject() uint64 {
	tail := f.hdr.TailObjectOffset
	if tail < f.firstObject() || f.torn != nil {
		return 0
	}
	if t, _ := f.plausible(tail); t == object.Unused {
		return 0
	}
	return tail
}

// plausible returns the type and size of the object whose header may be at off;
// the type is object.Unused when there can be none.
func (f *File) plausible(off uint64) (object.Type, uint64) {
	if off%8 != 0 {
		return object.Unused, 0
	}
	b, err := f.at(off, object.ObjHdrSize)
	if err != nil {
		return object.Unused, 0
	}
	return f.plausibleHeader(off, object.U64(b, 0), object.U64(b, object.ObjSize))
}

// plausibleHeader is plausible for a header already read as two integers.
func (f *File) plausibleHeader(off, word, size uint64) (object.Type, uint64) {
	t, flags := object.Type(word), byte(word>>8)
	if word>>16 != 0 || t == object.Unused || t > object.Tag || size > f.end-off {
		return object.Unused, 0
	}
	if flags != 0 && (t != object.Data || flags > object.CompressedZSTD || flags&(flags-1) != 0) {
		return object.Unused, 0
	}
	least := object.MinSize(t, f.hdr.Compact())
	if size < least {
		return object.Unused, 0
	}
	unit := uint64(1)
	switch t {
	case object.Entry:
		unit = f.entryItemSize()
	case object.EntryArray:
		unit = f.arrayItemSize()
	case object.DataHashTable, object.FieldHashTable:
		unit = object.HashItemSize
	case object.Tag:
		if size == least {
			return t, size
		}
	case object.Unused, object.Data, object.FieldName:
	}
	if rest := size - least; rest == 0 || rest%unit != 0 {
		return object.Unused, 0
	}
	return t, size
}

// diskBlock is what is passed over at once where the file cannot be read, in bytes.
const diskBlock = 4096

// search returns the next offset in [off, limit) at which there is proof of an
// object; 0 when there is none.
func (s *salvage) search(f *File, off, limit uint64) uint64 {
	for off < limit && off+object.ObjHdrSize <= f.end {
		// One window at a time. A header that begins in its last 8 bytes lies
		// across and is always looked at.
		n := min(windowSize-off%windowSize, f.end-off)
		b, err := f.at(off, n)
		if err != nil && !errors.Is(err, errBeyond) {
			n = min(diskBlock-off%diskBlock, f.end-off)
			if b, err = f.at(off, n); err != nil && !errors.Is(err, errBeyond) {
				off += n // the disk has lost it, and not what is behind it
				continue
			}
		}
		if err != nil {
			return 0
		}
		i := 0
		for ; i+object.ObjHdrSize <= len(b); i += 8 {
			word := object.U64(b, i)
			if word == 0 || word>>16 != 0 {
				continue
			}
			if t, _ := f.plausibleHeader(off+uint64(i), word, object.U64(b, i+8)); t != object.Unused {
				break
			}
		}
		off += uint64(i)
		if t, size := f.plausible(off); off < limit && provable(t) && s.sound(f, off, size) {
			return off
		}
		off += 8
	}
	return 0
}

// provable reports whether sound is proof for objects of type t: what an array
// or a tag holds proves nothing.
func provable(t object.Type) bool {
	return t == object.Data || t == object.FieldName || t == object.Entry
}

// sound reports whether the contents of the object at off, which is plausible,
// are in order, and with them its size: hashes are right, offsets ascend and
// point back.
func (s *salvage) sound(f *File, off, size uint64) bool {
	if size > s.budget {
		return false
	}
	s.budget -= size
	b, err := f.at(off, object.ObjHdrSize)
	if err != nil {
		return false
	}
	switch object.Type(b[object.ObjType]) {
	case object.Data:
		return s.soundData(f, off)
	case object.FieldName:
		p, err := f.at(off+object.FieldHash, 8)
		if err != nil {
			return false
		}
		hash := object.U64(p, 0)
		p, err = f.at(off+object.FieldPayload, size-object.FieldPayload)
		return err == nil && f.hash(p) == hash
	case object.Entry:
		return s.soundEntry(f, off)
	case object.EntryArray:
		return f.soundArray(off, size)
	case object.DataHashTable:
		return off+object.HashTableItems == f.hdr.DataHashTableOffset && size-object.HashTableItems == f.hdr.DataHashTableSize
	case object.FieldHashTable:
		return off+object.HashTableItems == f.hdr.FieldHashTableOffset && size-object.HashTableItems == f.hdr.FieldHashTableSize
	case object.Tag:
		return true
	case object.Unused:
	}
	return false
}

func (s *salvage) soundData(f *File, off uint64) bool {
	b, _, err := f.objectAt(off, object.Data, object.DataPayload)
	if err != nil {
		return false
	}
	hash := object.U64(b, object.DataHash)
	p, err := f.appendData(f.scratch[:0], off, int(min(s.budget, maxEntryBytes)))
	if err != nil {
		s.budget -= min(s.budget, uint64(f.dec.Spent))
		return false
	}
	f.scratch = p[:0]
	s.budget -= min(s.budget, uint64(len(p)))
	return f.hash(p) == hash
}

// soundEntry reports whether the entry at off refers to fields before it, in
// order, of which one at least is there; the others may be what is damaged.
func (s *salvage) soundEntry(f *File, off uint64) bool {
	var h entryHead
	if f.readHead(off, &h) != nil || f.readItems(&h, &s.fs) != nil {
		return false
	}
	prev := uint64(0)
	for _, item := range s.fs.items {
		if item < prev || item%8 != 0 || item == 0 || item >= off {
			return false
		}
		prev = item
	}
	for _, item := range s.fs.items {
		if _, _, err := f.objectAt(item, object.Data, object.DataPayload); err == nil {
			return true
		}
	}
	return false
}

// soundArray reports whether the slots of the array ascend and then are zero.
func (f *File) soundArray(off, size uint64) bool {
	w := f.arrayItemSize()
	end := off + size
	prev, ended := uint64(0), false
	for off += object.ArrayItems; off < end; {
		b, err := f.at(off, min(itemStep, end-off))
		if err != nil {
			return false
		}
		off += uint64(len(b))
		for i := 0; i < len(b); i += int(w) {
			v := uint64(object.U32(b, i))
			if w == object.ArrayItemSize {
				v = object.U64(b, i)
			}
			switch {
			case v == 0:
				ended = true
			case ended || v <= prev || v%8 != 0:
				return false
			}
			prev = v
		}
	}
	return true
}

// lastEntry is the offset of the last entry, 0 in an empty file.
func (f *File) lastEntry() (uint64, error) {
	n := f.Entries()
	if n == 0 {
		return 0, nil
	}
	return f.entryAt(n - 1)
}

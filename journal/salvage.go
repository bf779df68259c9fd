package journal

import (
	"errors"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// salvage is the list of entries of a damaged file, found by walking its
// objects instead of its arrays. It holds 8 bytes an entry.
type salvage struct {
	index  []uint64 // offsets, ascending
	next   uint64   // where the scan goes on when the file grows
	budget uint64   // bytes of objects that may yet be checked behind damage
	gaps   int      // places where the walk had to search for the next object
	lost   uint64   // bytes passed over in them
	bad    int      // ENTRY objects that are damaged themselves
	fs     fields   // for the items of an entry
}

// searchBudget bounds the work spent on objects that only look like such, as a
// multiple of the file's size.
const searchBudget = 4

// Salvaged reports whether the file is read by scanning it because it is
// damaged; found is the number of entries so delivered, counted the number that
// its header claims. The difference is what was skipped.
func (f *File) Salvaged() (found, counted uint64, ok bool) {
	if f.salvaged == nil {
		return 0, 0, false
	}
	return uint64(len(f.salvaged.index)), f.hdr.NEntries, true
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

// startSalvage scans the file; from now on its entries are those found.
func (f *File) startSalvage() {
	f.salvaged = f.newWalk()
	f.renumbered++
	f.salvageMore()
	s := f.salvaged
	f.warn(f.errorf(0, ErrCorrupt, "scanned: %d entries of %d, %d damaged, %d gaps of %d bytes together",
		len(s.index), f.hdr.NEntries, s.bad, s.gaps, s.lost))
}

// salvageMore goes on with the scan where it ended.
func (f *File) salvageMore() {
	f.salvaged.walk(f, func(off uint64, t object.Type) {
		if t == object.Entry {
			f.salvageEntry(off)
		}
	})
}

// walkObjects calls visit for every object that can be found in the file.
func (f *File) walkObjects(visit func(off uint64, t object.Type)) {
	f.newWalk().walk(f, visit)
}

func (f *File) newWalk() *salvage {
	return &salvage{next: f.firstObject(), budget: searchBudget*f.end + largeStep}
}

// walk goes from object to object, from s.next on. Where there is none it
// searches for the next that is proven to be one.
func (s *salvage) walk(f *File, visit func(off uint64, t object.Type)) {
	last := f.tailObject()
	for off := s.next; ; {
		if last != 0 && off > last {
			s.next = off
			return
		}
		t, size := f.plausible(off)
		if t != object.Unused {
			next := off + object.Align8(size)
			if off != last && next+object.ObjHdrSize <= f.end {
				// What lies behind must be an object too, or this one must be proven.
				if behind, _ := f.plausible(next); behind == object.Unused && !s.proven(f, off, size) {
					t = object.Unused
				}
			}
		}
		if t != object.Unused {
			visit(off, t)
			off += object.Align8(size)
			continue
		}
		found := s.search(f, off+8)
		if found == 0 {
			s.next = off
			return
		}
		s.gaps++
		s.lost += found - off
		off = found
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

// search returns the next offset, from off on, at which there is proof of an
// object; 0 when there is none.
func (s *salvage) search(f *File, off uint64) uint64 {
	for off+object.ObjHdrSize <= f.end {
		// One window at a time. A header that begins in its last 8 bytes lies
		// across and is always looked at.
		n := min(windowSize-off%windowSize, f.end-off)
		b, err := f.at(off, n)
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
		if t, size := f.plausible(off); t != object.Unused && s.proven(f, off, size) {
			return off
		}
		off += 8
	}
	return 0
}

// proven reports whether the object at off is one beyond doubt: its hash is
// right, or all it refers to is there.
func (s *salvage) proven(f *File, off, size uint64) bool {
	if size > s.budget {
		return false
	}
	s.budget -= size
	b, err := f.at(off, min(size, object.DataPayload))
	if err != nil {
		return false
	}
	switch object.Type(b[object.ObjType]) {
	case object.Data:
		hash := object.U64(b, object.DataHash)
		p, err := f.appendData(f.scratch[:0], off, int(min(s.budget, largeStep)))
		if err != nil {
			return false
		}
		f.scratch = p[:0]
		s.budget -= min(s.budget, uint64(len(p)))
		return f.hash(p) == hash
	case object.FieldName:
		hash := object.U64(b, object.FieldHash)
		p, err := f.at(off+object.FieldPayload, size-object.FieldPayload)
		return err == nil && f.hash(p) == hash
	case object.Entry:
		return s.provenEntry(f, off)
	case object.Unused, object.DataHashTable, object.FieldHashTable, object.EntryArray, object.Tag:
	}
	return false
}

// provenEntry reports whether the entry at off is in order and refers to at
// least one field; the others may be what is damaged.
func (s *salvage) provenEntry(f *File, off uint64) bool {
	var h entryHead
	if f.readHead(off, &h) != nil || f.readItems(&h, &s.fs) != nil {
		return false
	}
	good, prev := false, uint64(0)
	for _, item := range s.fs.items {
		if item < prev {
			return false
		}
		prev = item
		if !good {
			_, _, err := f.objectAt(item, object.Data, object.DataPayload)
			good = err == nil
		}
	}
	return good
}

// lastEntry is the offset of the last entry, 0 in an empty file.
func (f *File) lastEntry() (uint64, error) {
	n := f.Entries()
	if n == 0 {
		return 0, nil
	}
	return f.entryAt(n - 1)
}

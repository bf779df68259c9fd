package journal

import "github.com/tidemark-log/tidemark/journal/internal/object"

// A FIELD object begins a list of all DATA objects of that name. A Reader that looks
// for one field in many entries follows it once, and then knows of an offset whether
// it is such an object: the others are not looked at, nor decompressed. The list is
// not believed further than that: an object on it has to begin with the name, and an
// entry that has none of them is read as if there were no list.

// listed is what a Reader knows of the list of a file.
type listed struct {
	set   offsetSet
	state listState
	reads int // entries
}

type listState uint8

const (
	listUnknown listState = iota
	listWhole             // set holds all of it
	listUnused            // it is damaged, or may be incomplete
)

const (
	// listAfter is how many entries of a file are read before its list is followed,
	// which costs as much as a tenth of all entries.
	listAfter = 1024
	// listRoom bounds the chunks of a file's list: 4 MiB, for a file of 256 MiB.
	listRoom = 1024
)

// follow reports whether the offsets of all DATA objects of the field are in f.list.
// Where a writer is at work the list lags behind the entries; without a mapping it
// costs a read for each window.
func (f *File) follow(r *Reader) bool {
	l := &f.list
	if l.reads < r.listAfter {
		l.reads++
		return false
	}
	if l.state == listUnknown {
		l.state = listUnused // also if it faults
		if f.m != nil && f.hdr.State != StateOnline && f.listData(r.prefix[:len(r.prefix)-1]) {
			l.state = listWhole
		}
	}
	return l.state == listWhole
}

// listData fills f.list.set, and reports whether the list of the field could be
// followed to its end: to where it is written, from the newest to the oldest.
func (f *File) listData(name []byte) bool {
	field, err := f.findInTable(object.FieldName, f.hdr.FieldHashTableOffset, f.hdr.FieldHashTableSize, name)
	if err != nil || field == 0 {
		return false
	}
	b, _, err := f.objectAt(field, object.FieldName, object.FieldPayload)
	if err != nil {
		return false
	}
	room := listRoom
	for off, last := object.U64(b, object.FieldHeadData), f.end; off != 0; {
		if off >= last {
			return false
		}
		if b, _, err = f.objectAt(off, object.Data, object.DataPayload); err != nil {
			return false
		}
		if f.list.set.add(off, f.end, &room); room == 0 {
			return false // some may not have been added
		}
		last, off = off, object.U64(b, object.DataNextField)
	}
	return true
}

// readListed reads the first field of an entry whose items are in fs and whose object
// is on the list. It reports whether there is one, and it is what it should be.
func (f *File) readListed(fs *fields, r *Reader) bool {
	for _, off := range fs.items {
		if !f.list.set.has(off) {
			continue
		}
		p, err := f.appendIf(fs.arena, off, r.prefix)
		if err != nil || p == nil {
			return false
		}
		fs.found(f, off, p)
		return true
	}
	return false
}

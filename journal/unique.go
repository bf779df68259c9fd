package journal

import (
	"bytes"
	"iter"
	"slices"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// UniqueValues returns an iterator over the values a field has anywhere in the
// journal, each once: file by file, the newest value first; where the list of a
// field is damaged, those that are not on it follow. Matches do not matter and the
// Journal does not move. The values are borrowed until the next.
func (j *Journal) UniqueValues(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		j.OpenAll()
		l := valueList{prefix: append([]byte(name), '=')}
		for i, c := range j.files {
			l.begin(c.f)
			for !l.done {
				err := j.guarded(func(j *Journal, _ direction) error { return l.more(j, i) }, down)
				if err != nil {
					c.f.warn(err)
					break
				}
				from := 0
				for _, end := range l.ends {
					value := l.arena[from+len(l.prefix) : end : end]
					from = end
					if !yield(value, nil) {
						return
					}
				}
			}
		}
	}
}

// valueBatch is about how many bytes of values are read at once.
const valueBatch = 64 << 10

// valueList is a walk over the DATA objects of a field in one file, along the list
// that begins in the FIELD object, as far as that can be followed.
type valueList struct {
	prefix []byte // NAME=
	f      *File
	begun  bool   // head is known
	head   uint64 // the newest object
	next   uint64 // the one to read next
	last   uint64 // the one before it; noneYet: there is none

	scanned bool     // the list is damaged, scan has the rest
	scan    []uint64 // offsets
	done    bool

	arena []byte // payloads
	ends  []int  // of each in arena
}

const noneYet = ^uint64(0)

// begin goes to another file.
func (l *valueList) begin(f *File) {
	*l = valueList{prefix: l.prefix, f: f, last: noneYet, arena: l.arena[:0], ends: l.ends[:0]}
	if cap(l.arena) > keepArena {
		l.arena = nil
	}
}

// more reads the next values, without those that one of the files before j.files[n]
// has. After a fault of a mapping it is called again.
func (l *valueList) more(j *Journal, n int) error {
	l.arena, l.ends = l.arena[:0], l.ends[:0]
	at := *l
	err := at.read(j, n)
	if err != nil {
		if !at.f.notYet(err) {
			at.f.warn(err)
		}
		// What was read stays, but for the objects the scan finds.
		at.startScan()
	}
	*l = at
	return nil
}

// read fills the batch. An error is about the list.
func (l *valueList) read(j *Journal, n int) error {
	if !l.begun {
		if err := l.findHead(); err != nil {
			return err
		}
	}
	for len(l.arena) < valueBatch {
		off := l.next
		if l.scanned {
			if len(l.scan) == 0 {
				l.done = true
				return nil
			}
			off, l.scan = l.scan[0], l.scan[1:]
		} else if off == 0 {
			l.done = true
			return nil
		} else if off >= l.last {
			return l.f.errorf(off, ErrCorrupt, "list of values goes forward from %d", l.last)
		}
		b, size, err := l.f.objectAt(off, object.Data, l.f.payloadOffset())
		switch {
		case err == nil:
		case l.scanned:
			l.warn(err)
			continue
		default:
			return err
		}
		if !l.scanned {
			l.last, l.next = off, object.U64(b, object.DataNextField)
		}
		l.take(j, n, off, b[object.ObjFlags], size)
	}
	return nil
}

// take adds the payload of the DATA object at off.
func (l *valueList) take(j *Journal, n int, off uint64, flags byte, size uint64) {
	from := len(l.arena)
	out, err := l.f.appendPayload(l.arena, off, flags, size, maxEntryBytes)
	if err == nil && !bytes.HasPrefix(out[from:], l.prefix) {
		err = l.f.errorf(off, ErrCorrupt, "no value of the field %s", l.prefix[:len(l.prefix)-1])
	}
	switch {
	case err != nil:
		l.warn(err)
	case !j.inEarlier(n, out[from:]):
		l.arena = out
		l.ends = append(l.ends, len(out))
	}
}

func (l *valueList) warn(err error) {
	if !l.f.notYet(err) {
		l.f.warn(err)
	}
}

// inEarlier reports whether one of the files before j.files[n] has the payload.
func (j *Journal) inEarlier(n int, payload []byte) bool {
	var ref dataRef
	for _, c := range j.files[:n] {
		if ok, err := c.f.lookup(payload, &ref); ok && err == nil {
			return true
		}
	}
	return false
}

// findHead finds where the list begins.
func (l *valueList) findHead() error {
	f := l.f
	l.begun = true
	name := l.prefix[:len(l.prefix)-1]
	field, err := f.findInTable(object.FieldName, f.hdr.FieldHashTableOffset, f.hdr.FieldHashTableSize, name)
	if err != nil || field == 0 {
		return err
	}
	b, _, err := f.objectAt(field, object.FieldName, object.FieldPayload)
	if err != nil {
		return err
	}
	l.head = object.U64(b, object.FieldHeadData)
	if f.growing() {
		// The list begins with the newest value, of which older windows may not
		// know, nor the size.
		f.forget()
		f.updateSize()
	}
	l.next = l.head
	return nil
}

// startScan finds the values of a damaged file that have not been read by walking
// all objects.
func (l *valueList) startScan() {
	f := l.f
	known := make(map[uint64]bool)
	for off := l.head; l.last != noneYet && off >= l.last; {
		known[off] = true
		b, _, err := f.objectAt(off, object.Data, object.DataPayload)
		if err != nil || off == l.last {
			break
		}
		off = object.U64(b, object.DataNextField)
	}
	l.begun, l.scanned = true, true
	f.walkObjects(func(off uint64, t object.Type) {
		if t != object.Data || known[off] {
			return
		}
		p, err := f.appendData(f.scratch[:0], off, maxEntryBytes)
		if err == nil && bytes.HasPrefix(p, l.prefix) {
			l.scan = append(l.scan, off)
		}
		f.scratch = p[:0]
	})
	slices.Reverse(l.scan)
}

// FieldNames returns an iterator over the names of all fields in the journal,
// each once, in no particular order.
func (j *Journal) FieldNames() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := make(map[string]bool)
		j.OpenAll()
		for _, c := range j.files {
			var names []string
			err := j.guarded(func(*Journal, direction) error {
				var err error
				if names, err = c.f.fieldNames(); err != nil {
					c.f.warn(err)
					names = c.f.fieldNamesScan()
				}
				return nil
			}, down)
			if err != nil {
				c.f.warn(err)
			}
			for _, n := range names {
				if seen[n] {
					continue
				}
				seen[n] = true
				if !yield(n, nil) {
					return
				}
			}
		}
	}
}

// fieldNames walks all chains of the field hash table.
func (f *File) fieldNames() ([]string, error) {
	var names []string
	table, size := f.hdr.FieldHashTableOffset, f.hdr.FieldHashTableSize
	if table == 0 || table > f.end || size > f.end-table {
		return nil, f.errorf(table, ErrTruncated, "field hash table of %d bytes", size)
	}
	for at := table; at+object.HashItemSize <= table+size; at += object.HashItemSize {
		b, err := f.at(at, object.HashItemSize)
		if err != nil {
			return nil, f.readFailed(at, err)
		}
		prev := uint64(0)
		for off := object.U64(b, 0); off != 0; {
			if off <= prev {
				return nil, f.errorf(prev, ErrCorrupt, "hash chain goes back to %d", off)
			}
			name, next, err := f.fieldName(off)
			if f.notYet(err) {
				break // nor are those behind it
			}
			if err != nil {
				return nil, err
			}
			names = append(names, name)
			prev, off = off, next
		}
	}
	return names, nil
}

// maxFieldName bounds the names that are believed; journald takes 64 bytes.
const maxFieldName = 4096

func (f *File) fieldName(off uint64) (name string, next uint64, err error) {
	b, size, err := f.objectAt(off, object.FieldName, object.FieldPayload)
	if err != nil {
		return "", 0, err
	}
	next = object.U64(b, object.FieldNextHash)
	n := size - object.FieldPayload
	if n == 0 || n > maxFieldName {
		return "", 0, f.errorf(off, ErrCorrupt, "field name of %d bytes", n)
	}
	p, err := f.at(off+object.FieldPayload, n)
	if err != nil {
		return "", 0, f.readFailed(off, err)
	}
	return string(p), next, nil
}

func (f *File) fieldNamesScan() []string {
	var names []string
	f.walkObjects(func(off uint64, t object.Type) {
		if t == object.FieldName {
			if name, _, err := f.fieldName(off); err == nil {
				names = append(names, name)
			}
		}
	})
	return names
}

package journal

import (
	"bytes"
	"iter"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// UniqueValues returns an iterator over the values a field has anywhere in the
// journal, each once: file by file, the newest value first. Matches do not
// matter and the Journal does not move. The values are borrowed until the next.
func (j *Journal) UniqueValues(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var value []byte
		j.OpenAll()
		for i, c := range j.files {
			offs, err := j.valuesOf(c.f, name)
			if err != nil {
				c.f.warn(err)
			}
			for _, off := range offs {
				fresh := false
				err := j.guarded(func(j *Journal, _ direction) error {
					var err error
					value, err = c.f.appendData(value[:0], off, maxEntryBytes)
					fresh = err == nil && !j.inEarlier(i, value)
					return err
				}, down)
				if err != nil {
					if !c.f.notYet(err) {
						c.f.warn(err)
					}
					continue
				}
				if fresh && len(value) > len(name) && !yield(value[len(name)+1:], nil) {
					return
				}
			}
		}
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

// valuesOf returns the offsets of the DATA objects of a field, the newest first.
func (j *Journal) valuesOf(f *File, name string) (offs []uint64, err error) {
	err = j.guarded(func(*Journal, direction) error {
		var err error
		if offs, err = f.fieldList(name); err != nil {
			if !f.notYet(err) {
				f.warn(err)
			}
			offs = f.fieldScan(name)
		}
		return nil
	}, down)
	return offs, err
}

// fieldList walks the list that begins in the FIELD object.
func (f *File) fieldList(name string) ([]uint64, error) {
	field, err := f.findInTable(object.FieldName, f.hdr.FieldHashTableOffset, f.hdr.FieldHashTableSize, []byte(name))
	if err != nil || field == 0 {
		return nil, err
	}
	b, _, err := f.objectAt(field, object.FieldName, object.FieldPayload)
	if err != nil {
		return nil, err
	}
	head := object.U64(b, object.FieldHeadData)
	if f.growing() {
		// The list begins with the newest value, of which older windows may not
		// know, nor the size.
		f.forget()
		f.updateSize()
	}
	var offs []uint64
	last := f.end
	for off := head; off != 0; {
		if off >= last {
			return nil, f.errorf(off, ErrCorrupt, "list of values goes forward from %d", last)
		}
		b, _, err := f.objectAt(off, object.Data, object.DataPayload)
		if err != nil {
			return nil, err
		}
		offs = append(offs, off)
		last, off = off, object.U64(b, object.DataNextField)
	}
	return offs, nil
}

// fieldScan finds the values by walking all objects of a damaged file.
func (f *File) fieldScan(name string) []uint64 {
	prefix := append([]byte(name), '=')
	var offs []uint64
	f.walkObjects(func(off uint64, t object.Type) {
		if t != object.Data {
			return
		}
		p, err := f.appendData(f.scratch[:0], off, maxEntryBytes)
		if err == nil && bytes.HasPrefix(p, prefix) {
			offs = append(offs, off)
		}
		f.scratch = p[:0]
	})
	for i, k := 0, len(offs)-1; i < k; i, k = i+1, k-1 {
		offs[i], offs[k] = offs[k], offs[i]
	}
	return offs
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

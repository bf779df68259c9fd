package journal

import (
	"bytes"
	"io"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
)

// fields holds the fields of one entry. Those that occur again and again are in
// the cache, the others in one arena, which is reused.
type fields struct {
	arena []byte
	list  []entry.Field
	keys  []uint64 // of each field, as in dataCache; 0: none
	items []uint64 // offsets of the DATA objects
	bad   int      // items that could not be read, of the last entry
	total int      // bytes of all fields
}

// maxEntryBytes bounds the fields of one entry together, as journald does
// (ENTRY_SIZE_MAX).
const maxEntryBytes = 1 << 30

// readFields reads the fields of the entry into fs, all of them or, if want is
// not nil, those it names. Fields that are damaged are left out, warned of and
// counted in fs.bad. What fs held before is no longer valid.
func (f *File) readFields(h *entryHead, fs *fields, want *wanted) error {
	if err := f.readItems(h, fs); err != nil {
		return err
	}
	fs.reset()
	c := f.cache
	if c == nil {
		for _, off := range fs.items {
			f.readField(off, fs, want, nil)
		}
		return nil
	}
	c.renew()
	for _, off := range fs.items {
		s, ok := c.find(f.tag | off)
		if !ok {
			s.key[1], s.at[1] = f.tag|off, dataCacheNoted
			f.readField(off, fs, want, nil)
			continue
		}
		p, ok := c.payload(s.at[0])
		switch {
		case s.at[0] == dataCacheUnwanted:
			continue
		case !ok, fs.total > maxEntryBytes:
			f.readField(off, fs, want, s)
			continue
		case s.at[0].generation() != c.young:
			if q, at := c.keep(p); q != nil {
				p, s.at[0] = q, at
			}
		}
		fs.add(p, f.tag|off)
	}
	return nil
}

// readAll is readFields of all fields while the cache knows of some that they are
// not wanted: it looks there, and leaves it as it is.
func (f *File) readAll(h *entryHead, fs *fields) error {
	if err := f.readItems(h, fs); err != nil {
		return err
	}
	fs.reset()
	for _, off := range fs.items {
		if f.cache != nil && fs.total <= maxEntryBytes {
			if s, ok := f.cache.find(f.tag | off); ok {
				if p, ok := f.cache.payload(s.at[0]); ok {
					fs.add(p, f.tag|off)
					continue
				}
			}
		}
		f.readField(off, fs, nil, nil)
	}
	return nil
}

// keepArena is the largest memory kept for the fields of the next entry.
const keepArena = 1 << 20

// trim gives memory back that a large entry took.
func (fs *fields) trim() {
	if cap(fs.arena) > keepArena {
		fs.arena = nil
	}
}

// reset forgets the fields, not the items.
func (fs *fields) reset() {
	fs.arena, fs.list, fs.keys, fs.bad, fs.total = fs.arena[:0], fs.list[:0], fs.keys[:0], 0, 0
}

// add appends a field; the payloads of an entry together are not bounded by what
// the cache holds of them.
func (fs *fields) add(p []byte, key uint64) {
	fs.total += len(p)
	fs.list = append(fs.list, p)
	fs.keys = append(fs.keys, key)
}

// readField reads the field at off from the file and adds it to fs, if it is
// wanted. s is the place in the cache of one that is met again, or nil.
func (f *File) readField(off uint64, fs *fields, want *wanted, s *dataCacheSet) {
	from := len(fs.arena)
	arena, err := f.appendData(fs.arena, off, maxEntryBytes-fs.total)
	if err != nil {
		fs.total += f.dec.Spent
		fs.bad++
		f.warn(err)
		return
	}
	p := arena[from:len(arena):len(arena)]
	if want != nil && !want.has(p) {
		if s == nil && f.cache != nil {
			s = f.cache.set(f.tag | off)
		}
		if s != nil {
			s.note(f.tag|off, dataCacheUnwanted)
		}
		return
	}
	key := uint64(0)
	if f.cache != nil {
		key = f.tag | off
	}
	if s != nil {
		if q, at := f.cache.keep(p); q != nil {
			s.note(key, at)
			fs.add(q, key)
			return
		}
	}
	fs.arena = arena
	fs.add(p, key)
}

// note sets where the payload of key is.
func (s *dataCacheSet) note(key uint64, at dataCacheAt) {
	for i := range s.key {
		if s.key[i] == key {
			s.at[i] = at
		}
	}
}

// wanted are names of fields.
type wanted struct{ names []string }

// has reports whether field, NAME=value, has one of the names.
func (w *wanted) has(field []byte) bool {
	n := bytes.IndexByte(field, '=')
	for _, name := range w.names {
		if len(name) == n && string(field[:n]) == name {
			return true
		}
	}
	return false
}

// SetFields makes Next and Previous deliver only the fields of these names;
// without names, all. It is faster: the others are not read, and whether they are
// damaged is not noticed. An entry that has none of them is delivered without
// fields. The Journal does not move.
func (j *Journal) SetFields(names ...string) {
	j.want = nil
	if len(names) > 0 {
		j.want = &wanted{names: slices.Clone(names)}
	}
	j.cache.forget()
	j.e.Fields, j.fs.keys = nil, nil
}

// Whole returns the entry that Next, Previous or Skip moved to last with all its
// fields, whatever SetFields said; io.EOF when there is none, or when nothing is
// left of it. It takes the place of the entry that was delivered.
func (j *Journal) Whole() (*entry.Entry, error) {
	if err := j.guarded((*Journal).fillWhole, j.dir); err != nil {
		return nil, err
	}
	return &j.e, nil
}

func (j *Journal) fillWhole(direction) error {
	c := j.current
	if c == nil {
		return io.EOF
	}
	if err := c.f.readAll(&c.head, &j.fs); err != nil {
		c.f.warn(err)
		return io.EOF
	}
	if len(j.fs.list) == 0 {
		return io.EOF
	}
	j.setEntry(c)
	return nil
}

// FieldIDs returns a number for each of the Fields of the entry that was
// delivered last, in their order. Fields of one Journal with the same number are
// equal, so that what was made of one can be used again; 0 says nothing. The
// slice is valid as long as the entry.
func (j *Journal) FieldIDs() []uint64 { return j.fs.keys }

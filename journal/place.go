package journal

import (
	"bytes"
	"errors"
	"io"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
)

// Place is where an entry is, of a Journal that has moved to it. It is valid
// until the Journal is refreshed, its files change, or it is closed.
type Place struct {
	file     int // in Journal.files
	head     entryHead
	seqnumID entry.ID
}

// Entry returns the entry at p without its fields.
func (p *Place) Entry() entry.Entry {
	h := &p.head
	return entry.Entry{
		Realtime: h.realtime, Monotonic: h.monotonic, BootID: h.boot,
		Seqnum: h.seqnum, SeqnumID: p.seqnumID, XorHash: h.xorHash,
	}
}

// Realtime is the time of the entry, in µs since 1970.
func (p *Place) Realtime() uint64 { return p.head.realtime }

// Place returns the place of the entry that Next, Previous or Skip moved to last;
// ok is false when there is none.
func (j *Journal) Place() (p Place, ok bool) {
	c := j.current
	if c == nil {
		return Place{}, false
	}
	return Place{file: c.index, head: c.head, seqnumID: c.f.hdr.SeqnumID}, true
}

// Places moves on as Skip does, n entries, backwards when n is negative, and appends
// the places of these to dst. It moves no further than to the first for which last
// reports true. Of fewer places and none that is the last, the journal ends there.
func (j *Journal) Places(dst []Place, n int, last func(*Place) bool) ([]Place, error) {
	dir := down
	if n < 0 {
		dir, n = up, -n
	}
	all := len(dst) + n
	ended := false
	err := j.guarded(func(j *Journal, dir direction) error { // goes on behind a fault
		for len(dst) < all && !ended {
			if err := j.pick(dir); err != nil {
				return err
			}
			c := j.current
			dst = append(dst, Place{file: c.index, head: c.head, seqnumID: c.f.hdr.SeqnumID})
			ended = last(&dst[len(dst)-1])
		}
		return nil
	}, dir)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return dst, err
}

// Reader reads the entries at places of a Journal that goes on meanwhile: with
// several, goroutines share the work of one scan. It is not safe for concurrent
// use, and starts no goroutine.
type Reader struct {
	of    []*File // those of the Journal
	files []*File // how this one reads them
	want  *wanted
	fs    fields
	e     entry.Entry

	prefix []byte // what Value looked for
	left   int    // chunks that the files' others may still take

	listAfter int // entries of a file before its list is followed
}

// NewReader returns a Reader of j's files as they are, which delivers the fields
// that SetFields names. It must be made, and closed, while no other call of j
// runs, and closed before j is refreshed or closed.
func (j *Journal) NewReader() *Reader {
	j.OpenAll()
	return j.ReaderSoFar()
}

// ReaderSoFar is NewReader of the files that are open, for the places of a Journal
// that goes no further: what ReadOptions.Late has left closed stays closed.
func (j *Journal) ReaderSoFar() *Reader {
	r := &Reader{want: j.want, listAfter: listAfter}
	pool, cache, dec := &windowPool{max: poolWindows}, &dataCache{}, &blob.Decoder{}
	for _, c := range j.files {
		f := c.f
		own := &File{
			access: access{r: f.r, size: f.size, end: f.end, m: f.m, lazy: f.lazy, pool: pool},
			name:   f.name, hdr: f.hdr, dec: dec, mapped: f.mapped,
		}
		if f.m != nil {
			own.lent = 1 // the mapping belongs to f
		}
		own.useCache(cache)
		f.lent++
		r.of, r.files = append(r.of, f), append(r.files, own)
	}
	return r
}

// Close releases the Reader. What it found damaged is told by the warnings of the
// Journal from then on.
func (r *Reader) Close() {
	for i, f := range r.of {
		own := r.files[i]
		for _, err := range own.warnings {
			f.warn(err)
		}
		f.nWarn += own.nWarn - len(own.warnings)
		f.unread += own.unread
		f.badFields += own.badFields
		f.lent--
		f.unmapRetired()
		if own.lent == 0 {
			own.dropMap()
		}
		own.release()
	}
	r.of, r.files = nil, nil
}

// Read returns the entry at p with the fields that are wanted. It is valid until
// the next call. ok is false when nothing is left of it.
func (r *Reader) Read(p *Place) (e *entry.Entry, ok bool) { return r.read(p, r.want) }

// Whole is Read of all fields.
func (r *Reader) Whole(p *Place) (e *entry.Entry, ok bool) { return r.read(p, nil) }

// FieldIDs is Journal.FieldIDs of the entry that was returned last: the numbers
// are those of this Reader.
func (r *Reader) FieldIDs() []uint64 { return r.fs.keys }

func (r *Reader) read(p *Place, want *wanted) (*entry.Entry, bool) {
	f := r.files[p.file]
	if !r.guarded(f, func() error {
		if want == nil && r.want != nil {
			return f.readAll(&p.head, &r.fs)
		}
		return f.readFields(&p.head, &r.fs, want)
	}) {
		return nil, false
	}
	if len(r.fs.list) == 0 && (want == nil || len(r.fs.items) == r.fs.bad) {
		f.unread++
		return nil, false
	}
	f.badFields += uint64(r.fs.bad)
	r.e = p.Entry()
	r.e.Fields = r.fs.list
	return &r.e, true
}

// guarded runs fn, which reads an entry of f. It reports false when that cannot
// be read, which is counted.
func (r *Reader) guarded(f *File, fn func() error) bool {
	r.fs.trim()
	var err error
	if f.mapped {
		err = guardFault(f, fn)
	} else {
		err = fn()
	}
	if err != nil {
		f.warn(err)
		f.unread++
	}
	return err == nil
}

// Value looks for the first field of the entry at p that begins with prefix, its
// name and an equals sign, and returns what follows, and its number as FieldIDs
// has it; no error is told of fields behind it. The value is valid until the next
// call of a method; found is false when there is no such field. ok is false when
// nothing is left of the entry.
func (r *Reader) Value(p *Place, prefix []byte) (value []byte, id uint64, found, ok bool) {
	if !bytes.Equal(prefix, r.prefix) {
		r.prefix = bytes.Clone(prefix)
		for _, f := range r.files {
			f.others, f.list = offsetSet{}, listed{}
		}
		r.left = othersMax
	}
	f := r.files[p.file]
	var bad []error
	if !r.guarded(f, func() error {
		bad = nil
		return f.readFirst(&p.head, &r.fs, r, &bad)
	}) {
		return nil, 0, false, false
	}
	if len(r.fs.list) > 0 {
		return r.fs.list[0][len(prefix):], r.fs.keys[0], true, true
	}
	// One of these may have been it.
	for _, err := range bad {
		f.warn(err)
	}
	if len(bad) == len(r.fs.items) {
		f.unread++
		return nil, 0, false, false
	}
	f.badFields += uint64(len(bad))
	return nil, 0, false, true
}

// unmap gives a mapping back, once no Reader has it.
func (f *File) unmap(m []byte) {
	f.retired = append(f.retired, m)
	f.unmapRetired()
}

func (f *File) unmapRetired() {
	if f.lent > 0 {
		return
	}
	for _, m := range f.retired {
		_ = unmapFile(m)
	}
	f.retired = f.retired[:0]
}

package journal

import (
	"bytes"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// offsetSet is a set of offsets of objects: a bit for each that is possible, in
// chunks that are made when one in them is added.
type offsetSet struct{ chunks []*offsetChunk }

// offsetChunk covers 256 KiB of a file.
type offsetChunk [offsetChunkSize / 64 / 8]uint64

const offsetChunkSize = 256 << 10

// othersMax bounds the chunks of all files of a Reader, to 4 MiB: what lies in
// others is looked at each time.
const othersMax = 1024

// has reports whether off has been added.
func (s *offsetSet) has(off uint64) bool {
	i := off / offsetChunkSize
	if i >= uint64(len(s.chunks)) || s.chunks[i] == nil {
		return false
	}
	bit := off % offsetChunkSize / 8
	return s.chunks[i][bit/64]>>(bit%64)&1 != 0
}

// add adds off, which is a multiple of 8 below end, unless that takes more than
// left chunks.
func (s *offsetSet) add(off, end uint64, left *int) {
	if s.chunks == nil {
		s.chunks = make([]*offsetChunk, end/offsetChunkSize+1)
	}
	i := off / offsetChunkSize
	if i >= uint64(len(s.chunks)) {
		return // the file has grown
	}
	if s.chunks[i] == nil {
		if *left == 0 {
			return
		}
		*left--
		s.chunks[i] = new(offsetChunk)
	}
	bit := off % offsetChunkSize / 8
	s.chunks[i][bit/64] |= 1 << (bit % 64)
}

// readFirst reads the first field of the entry that r looks for into fs, or none.
// What could not be read on the way is in bad.
func (f *File) readFirst(h *entryHead, fs *fields, r *Reader, bad *[]error) error {
	if err := f.readItems(h, fs); err != nil {
		return err
	}
	fs.reset()
	if f.follow(r) && f.readListed(fs, r) {
		return nil
	}
	for _, off := range fs.items {
		if f.others.has(off) {
			continue
		}
		p, err := f.appendIf(fs.arena, off, r.prefix)
		switch {
		case err != nil:
			*bad = append(*bad, err)
		case p == nil:
			f.others.add(off, f.end, &r.left)
		default:
			fs.found(f, off, p)
			return nil
		}
	}
	return nil
}

// found makes p, the payload of the object at off, the only field. It is the arena.
func (fs *fields) found(f *File, off uint64, p []byte) {
	fs.arena = p
	id := uint64(0)
	if f.cache != nil {
		id = f.tag | off
	}
	fs.add(p, id)
}

// appendIf is appendData to dst, which is empty, of a payload that begins with
// prefix. Of others it returns nil.
func (f *File) appendIf(dst []byte, off uint64, prefix []byte) ([]byte, error) {
	po := f.payloadOffset()
	b, size, err := f.objectAt(off, object.Data, po)
	if err != nil {
		return nil, err
	}
	flags := b[object.ObjFlags]
	if flags&object.CompressedAny == 0 {
		begin, err := f.at(off+po, min(size-po, uint64(len(prefix))))
		if err != nil {
			return nil, f.readFailed(off, err)
		}
		if !bytes.Equal(begin, prefix) {
			return nil, nil
		}
	}
	p, err := f.appendPayload(dst, off, flags, size, maxEntryBytes)
	if err != nil || !bytes.HasPrefix(p, prefix) {
		return nil, err
	}
	return p, nil
}

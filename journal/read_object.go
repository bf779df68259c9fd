package journal

import (
	"bytes"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// entryHead is an ENTRY object without its items.
type entryHead struct {
	off       uint64
	size      uint64
	seqnum    uint64
	realtime  uint64
	monotonic uint64
	xorHash   uint64
	boot      entry.ID
}

// payloadOffset is where the payload of a DATA object begins.
func (f *File) payloadOffset() uint64 {
	if f.hdr.Compact() {
		return object.DataPayloadCompact
	}
	return object.DataPayload
}

func (f *File) entryItemSize() uint64 {
	if f.hdr.Compact() {
		return object.EntryItemSizeCompact
	}
	return object.EntryItemSize
}

func (f *File) arrayItemSize() uint64 {
	if f.hdr.Compact() {
		return object.ArrayItemSizeCompact
	}
	return object.ArrayItemSize
}

// objectAt returns the first n bytes of the object at off, at least its header,
// after checking that it is of type t and lies in the file whole. n must not be
// more than the smallest size of such objects.
func (f *File) objectAt(off uint64, t object.Type, n uint64) (b []byte, size uint64, err error) {
	if off%8 != 0 || off < object.HeaderSizeMin {
		return nil, 0, f.errorf(off, ErrCorrupt, "no object can be here")
	}
	b, err = f.at(off, n)
	if err != nil {
		return nil, 0, f.readFailed(off, err)
	}
	if object.Type(b[object.ObjType]) != t {
		return nil, 0, f.errorf(off, ErrCorrupt, "object of type %d instead of %d", b[object.ObjType], t)
	}
	size = object.U64(b, object.ObjSize)
	if size < n {
		return nil, 0, f.errorf(off, ErrCorrupt, "object of %d bytes, want at least %d", size, n)
	}
	if size > f.end-off {
		return nil, 0, f.errorf(off, ErrTruncated, "object of %d bytes in a file of %d", size, f.end)
	}
	return b, size, nil
}

// readHead reads the ENTRY object at off. On an error h is left as it was.
func (f *File) readHead(off uint64, h *entryHead) error {
	b, size, err := f.objectAt(off, object.Entry, object.EntryItems)
	if err != nil {
		return err
	}
	items := size - object.EntryItems
	if items == 0 || items%f.entryItemSize() != 0 {
		return f.errorf(off, ErrCorrupt, "entry of %d bytes", size)
	}
	seqnum, realtime, monotonic := object.U64(b, object.EntrySeqnum), object.U64(b, object.EntryRealtime), object.U64(b, object.EntryMonotonic)
	if seqnum == 0 || realtime == 0 || realtime >= object.TimeLimit || monotonic >= object.TimeLimit {
		return f.errorf(off, ErrCorrupt, "entry with seqnum %d, realtime %d, monotonic %d", seqnum, realtime, monotonic)
	}
	h.off, h.size = off, size
	h.seqnum, h.realtime, h.monotonic = seqnum, realtime, monotonic
	h.xorHash = object.U64(b, object.EntryXorHash)
	h.boot = entry.ID(b[object.EntryBootID:])
	return nil
}

// itemStep is how many bytes of items are read at once, so that an entry's
// claimed size does not decide what is allocated.
const itemStep = windowSize / 2

// readItems appends the DATA offsets of the entry to fs.items.
func (f *File) readItems(h *entryHead, fs *fields) error {
	fs.items = fs.items[:0]
	compact := f.hdr.Compact()
	off, end := h.off+object.EntryItems, h.off+h.size
	for off < end {
		b, err := f.at(off, min(itemStep, end-off))
		if err != nil {
			return f.readFailed(off, err)
		}
		off += uint64(len(b))
		if compact {
			for ; len(b) >= object.EntryItemSizeCompact; b = b[object.EntryItemSizeCompact:] {
				fs.items = append(fs.items, uint64(object.U32(b, 0)))
			}
			continue
		}
		for ; len(b) >= object.EntryItemSize; b = b[object.EntryItemSize:] {
			fs.items = append(fs.items, object.U64(b, 0))
		}
	}
	return nil
}

// appendData appends the payload, NAME=value, of the DATA object at off to dst,
// uncompressed, if it has no more than limit bytes. On an error it returns dst
// as it came. f.dec.Spent is then what was decompressed in vain.
func (f *File) appendData(dst []byte, off uint64, limit int) ([]byte, error) {
	f.dec.Spent = 0
	b, size, err := f.objectAt(off, object.Data, f.payloadOffset())
	if err != nil {
		return dst, err
	}
	out, err := f.appendPayload(dst, off, b[object.ObjFlags], size, limit)
	if err == nil && bytes.IndexByte(out[len(dst):], '=') < 1 {
		return dst, f.errorf(off, ErrCorrupt, "field without a name")
	}
	return out, err
}

// appendPayload is appendData of an object that has been looked at, whatever the
// payload is.
func (f *File) appendPayload(dst []byte, off uint64, flags byte, size uint64, limit int) ([]byte, error) {
	flags &= object.CompressedAny // others say nothing to systemd either
	po := f.payloadOffset()
	p, err := f.at(off+po, size-po)
	if err != nil {
		return dst, f.readFailed(off, err)
	}
	limit = min(limit, blob.MaxSize)
	switch {
	case flags == 0 && len(p) <= limit:
		return append(dst, p...), nil
	case flags == 0 || limit <= 0:
		return dst, f.errorf(off, ErrCorrupt, "field of %d bytes, larger than can be", len(p))
	default:
		return f.decompress(dst, off, flags, p, limit)
	}
}

func (f *File) decompress(dst []byte, off uint64, flags byte, p []byte, limit int) ([]byte, error) {
	out, err := f.dec.Decompress(dst, flags, p, limit)
	if err != nil {
		return dst, &FormatError{Path: f.name, Offset: off, Err: corruptBecause{err}, Detail: "field"}
	}
	return out, nil
}

// corruptBecause is ErrCorrupt with its cause.
type corruptBecause struct{ cause error }

func (e corruptBecause) Error() string   { return ErrCorrupt.Error() + ": " + e.cause.Error() }
func (e corruptBecause) Unwrap() []error { return []error{ErrCorrupt, e.cause} }

// hash is the hash of a payload in this file.
func (f *File) hash(payload []byte) uint64 {
	if f.hdr.Keyed() {
		return object.KeyedHash((*[16]byte)(&f.hdr.FileID), payload)
	}
	return object.Jenkins(payload)
}

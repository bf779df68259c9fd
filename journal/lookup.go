package journal

import (
	"bytes"
	"sort"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// dataRef is a DATA object and the entries that refer to it.
type dataRef struct {
	off uint64 // 0: not there
	n   uint64 // entries
	chain
}

func (d *dataRef) length(*File) uint64                      { return d.n }
func (d *dataRef) offset(f *File, i uint64) (uint64, error) { return d.slot(f, i) }

// lookup finds the DATA object of a payload through the hash table and fills
// ref. It reports whether there is one.
func (f *File) lookup(payload []byte, ref *dataRef) (bool, error) {
	off, err := f.findInTable(object.Data, f.hdr.DataHashTableOffset, f.hdr.DataHashTableSize, payload)
	if err != nil || off == 0 {
		return false, err
	}
	*ref = dataRef{off: off, chain: chain{nodes: ref.nodes[:0]}}
	return true, f.reload(ref)
}

// trim leaves out of the list of a growing file what was linked since the last
// Refresh: entries that are not counted yet.
func (f *File) trim(ref *dataRef) error {
	if ref.n == 0 {
		return nil
	}
	// What the counter counts was there before it was read; a window may be older.
	f.forget()
	last, err := f.lastEntry()
	if err != nil {
		return err
	}
	var failed error
	ref.n = uint64(sort.Search(int(ref.n), func(i int) bool {
		off, err := ref.slot(f, uint64(i))
		if err != nil && !f.notYet(err) {
			failed = err
		}
		return err != nil || off == 0 || off > last
	}))
	return failed
}

// reload reads the counters of a DATA object that was looked up before: its
// writer may have linked more entries.
func (f *File) reload(ref *dataRef) error {
	b, _, err := f.objectAt(ref.off, object.Data, object.DataPayload)
	if err != nil {
		return err
	}
	ref.inline = object.U64(b, object.DataEntry)
	first := object.U64(b, object.DataEntryArray)
	// As in setMain, no more than can be.
	ref.n = min(object.U64(b, object.DataNEntries), f.end/object.ArrayItemSizeCompact)
	if first != ref.first {
		ref.first, ref.nodes, ref.last = first, ref.nodes[:0], 0
	}
	if ref.inline == 0 {
		ref.n = 0
	}
	if first == 0 {
		ref.n = min(ref.n, 1)
	}
	if f.growing() {
		return f.trim(ref)
	}
	return nil
}

// findInTable walks the chain of the payload's bucket in one of the hash
// tables. It returns 0 when there is no such object, or not yet.
func (f *File) findInTable(t object.Type, table, size uint64, payload []byte) (uint64, error) {
	if table == 0 || size < object.HashItemSize {
		return 0, nil
	}
	hash := f.hash(payload)
	bucket := table + hash%(size/object.HashItemSize)*object.HashItemSize
	b, err := f.at(bucket, object.HashItemSize)
	if err != nil {
		return 0, f.readFailed(bucket, err)
	}
	prev := uint64(0)
	for off := object.U64(b, 0); off != 0; {
		if off <= prev {
			return 0, f.errorf(prev, ErrCorrupt, "hash chain goes back to %d", off)
		}
		b, _, err := f.objectAt(off, t, object.FieldPayload)
		if err != nil {
			return 0, f.unlessNotYet(err) // nor are those behind it
		}
		next := object.U64(b, object.DataNextHash) // the same place in FIELD
		if object.U64(b, object.DataHash) == hash {
			same, err := f.samePayload(off, t, payload)
			if err != nil {
				return 0, f.unlessNotYet(err)
			}
			if same {
				return off, nil
			}
		}
		prev, off = off, next
	}
	return 0, nil
}

// samePayload reports whether the object at off, DATA or FIELD, holds payload.
func (f *File) samePayload(off uint64, t object.Type, payload []byte) (bool, error) {
	po := f.payloadOffset()
	if t == object.FieldName {
		po = object.FieldPayload
	}
	b, size, err := f.objectAt(off, t, po)
	if err != nil {
		return false, err
	}
	flags := b[object.ObjFlags]
	if flags == 0 && size-po != uint64(len(payload)) {
		return false, nil
	}
	p, err := f.at(off+po, size-po)
	if err != nil {
		return false, f.readFailed(off, err)
	}
	if flags != 0 && t == object.Data {
		if p, err = f.decompress(f.scratch[:0], off, flags, p, blob.MaxSize); err != nil {
			return false, err
		}
		f.scratch = p[:0]
	}
	return bytes.Equal(p, payload), nil
}

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
	ended bool // checkEnd has been here
}

func (d *dataRef) length(*File) uint64                      { return d.n }
func (d *dataRef) offset(f *File, i uint64) (uint64, error) { return d.slot(f, i) }

// checkEnd tells when the list goes on behind the entries that the object
// counts, or there are fewer. In a file with a writer both are usual.
func (d *dataRef) checkEnd(f *File) error {
	if d.ended || !f.settled() {
		return nil
	}
	d.ended = true
	wrong := func() error { return f.errorf(d.off, ErrCorrupt, "list is not as long as the %d entries counted", d.n) }
	if (d.inline == 0) != (d.n == 0) || (d.first == 0) != (d.n < 2) {
		return wrong()
	}
	if d.n < 2 {
		return nil
	}
	if off, err := d.slot(f, d.n-1); err != nil || off == 0 {
		return wrong()
	}
	node := &d.nodes[d.last]
	if used := d.n - 1 - node.base; used < node.cap {
		if off, err := d.slot(f, d.n); err != nil || off != 0 {
			return wrong()
		}
		return nil
	}
	b, err := f.at(node.off, object.ArrayItems)
	if err != nil || object.U64(b, object.ArrayNext) != 0 {
		return wrong()
	}
	return nil
}

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
	ref.ended = false
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
	buckets := size / object.HashItemSize
	bucket := table + hash%buckets*object.HashItemSize
	b, err := f.at(bucket, object.HashItemSize)
	if err != nil {
		return 0, f.readFailed(bucket, err)
	}
	first, tail := object.U64(b, 0), object.U64(b, 8)
	if first == 0 {
		return 0, f.emptied(t, table, hash%buckets, buckets)
	}
	prev := uint64(0)
	for off := first; off != 0; {
		if off <= prev {
			return 0, f.errorf(prev, ErrCorrupt, "hash chain goes back to %d", off)
		}
		b, _, err := f.objectAt(off, t, object.FieldPayload)
		if err != nil {
			return 0, f.unlessNotYet(err) // nor are those behind it
		}
		next := object.U64(b, object.DataNextHash) // the same place in FIELD
		have := object.U64(b, object.DataHash)
		if have%buckets != hash%buckets {
			return 0, f.errorf(off, ErrCorrupt, "object in a hash chain that is not its own")
		}
		if have == hash {
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
	if prev != tail && f.settled() {
		return 0, f.errorf(prev, ErrCorrupt, "hash chain ends before %d, its last object", tail)
	}
	return 0, nil
}

// settled reports whether what the file has is complete: no writer is between
// two steps of a change.
func (f *File) settled() bool {
	return f.hdr.State == StateArchived || f.hdr.State == StateOffline && !f.moved()
}

// emptyExpected is how many objects an empty part of a hash table could be
// expected to hold: by chance it is empty in one of e^40 cases.
const emptyExpected = 40

// emptied tells whether an empty bucket is in a part of its hash table that was
// lost: in a table with so many objects so many neighbours are not all empty. It
// reads up to the first that is not.
func (f *File) emptied(t object.Type, table, bucket, buckets uint64) error {
	objects := f.hdr.NData
	switch {
	case t == object.FieldName:
		objects = f.hdr.NFields
	case !f.hdr.Has(HasNData):
		objects = (f.hdr.NObjects - min(f.hdr.NEntries, f.hdr.NObjects)) / 4 // about that many, and no fewer
	}
	if f.pending || objects == 0 || objects > f.hdr.NObjects {
		return nil // the index is not written yet, or the header does not say
	}
	n := min(emptyExpected*buckets/objects+1, buckets)
	from := min(bucket-min(bucket, n/2), buckets-n)
	for at, end := table+from*object.HashItemSize, table+(from+n)*object.HashItemSize; at < end; {
		b, err := f.at(at, min(windowSize-at%windowSize, end-at))
		if err != nil {
			return f.readFailed(at, err)
		}
		for _, v := range b {
			if v != 0 {
				return nil
			}
		}
		at += uint64(len(b))
	}
	return f.errorf(table+bucket*object.HashItemSize, ErrCorrupt, "%d empty buckets in a row", n)
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
	flags := b[object.ObjFlags] & object.CompressedAny // others say nothing to systemd either
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

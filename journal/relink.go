package journal

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wRelink is the second half of opening a file for writing and of repairing
// one: from the objects that a survey has found it works out every link,
// counter and bucket as they must be, keeps of the file's what is right, and
// notes the rest in the survey's wMem, as appends do. A clean file leaves no
// note.
type wRelink struct {
	*wSurvey
	zero  []wZero  // slots behind the end of a list that are not 0
	lists [][]wRef // by record: the entries that have it; nil after use
	piece []byte   // an array, or a part of a table

	first  []wRef   // by record: the first entry that has it
	inList []wRef   // by record: the DATA of its field before it
	want   []wPatch // of all chains, in the order of offsets

	badData, badFields []wRef // objects whose links in the file are wrong
	badTable           uint64 // offset of a hash table that is wrong; 0: none is
}

// wZero is bytes of the file to be zeroed.
type wZero struct {
	off uint64
	n   int
}

// relink works out all links. Errors are those of reading.
func (s *wSurvey) relink() (*wRelink, error) {
	r := &wRelink{wSurvey: s}
	for _, off := range s.odd {
		if off < s.cut {
			r.zero = append(r.zero, wZero{off + 2, 6}) // the reserved bytes
		}
	}
	r.countLists()
	if err := r.mainArray(); err != nil {
		return nil, err
	}
	if err := r.dataLists(); err != nil {
		return nil, err
	}
	if err := r.orphans(); err != nil {
		return nil, err
	}
	r.fieldLists()
	r.chains()
	r.compareData()
	r.compareFields()
	for _, b := range [...]*wBuckets{&s.m.dataBuckets, &s.m.fieldBuckets} {
		if err := r.compareTable(b); err != nil {
			return nil, err
		}
	}
	r.finishHeader()
	return r, nil
}

// countLists sorts the entries by the DATA objects they have.
func (r *wRelink) countLists() {
	counts := make([]uint32, r.m.data.n+1)
	for _, id := range r.items {
		counts[id]++
	}
	all := make([]wRef, len(r.items))
	r.lists = make([][]wRef, len(counts))
	for id, n := range counts {
		r.lists[id], all = all[:0:n], all[n:]
	}
	i := 0
	for e, ref := range r.entries {
		for range r.nItems[e] {
			id := r.items[i]
			r.lists[id] = append(r.lists[id], ref)
			i++
		}
	}
	r.items, r.nItems = nil, nil
}

// wChain is how far a chain of arrays in the file is right.
type wChain struct {
	first, last wRef
	n           uint32 // slots used in last
	slots       uint32 // of last
	total       int    // slots that are right, all arrays together
	stale       bool   // last links to an array that is not part of the list
}

// chain follows the arrays from first as long as they hold want, which is not
// empty when there is an array at all. Arrays that do not belong are left out,
// and slots that do not are noted to be zeroed.
func (r *wRelink) chain(first uint64, want []wRef) (wChain, error) {
	var c wChain
	at := first
	for at != 0 && c.total < len(want) {
		i, ok := r.arrays.find(refOf(at))
		if !ok || at%8 != 0 || at > maxFileSize || r.array[i].taken || refOf(at) <= c.last {
			break
		}
		a := &r.array[i]
		got, slots, err := r.slotsOf(at, a.slots, want[c.total:])
		if err != nil {
			return c, err
		}
		if got == 0 {
			break // nothing in it is right: leave it out
		}
		a.taken = true
		if c.first == 0 {
			c.first = refOf(at)
		}
		c.last, c.n, c.slots = refOf(at), uint32(got), a.slots
		c.total += got
		r.noteZero(at, got, slots)
		at = a.next
		if uint32(got) < a.slots {
			break
		}
	}
	if c.last != 0 {
		i, _ := r.arrays.find(c.last)
		c.stale = r.array[i].next != 0
	}
	return c, nil
}

// slotsOf reads the array at off and counts how many of its slots hold want.
func (r *wRelink) slotsOf(off uint64, slots uint32, want []wRef) (got int, b []byte, err error) {
	size := int(r.m.arrayItem)
	if b, err = r.read(off+object.ArrayItems, int(slots)*size); err != nil {
		return 0, nil, err
	}
	for got < int(slots) && got < len(want) && r.m.slotAt(b[got*size:]) == want[got].offset() {
		got++
	}
	return got, b, nil
}

// noteZero notes slots from the nth on that are not 0.
func (r *wRelink) noteZero(off uint64, n int, b []byte) {
	b = b[n*int(r.m.arrayItem):]
	if len(bytes.TrimLeft(b, "\x00")) > 0 {
		r.zero = append(r.zero, wZero{off + object.ArrayItems + uint64(n)*r.m.arrayItem, len(b)})
	}
}

func (r *wRelink) read(off uint64, n int) ([]byte, error) {
	if cap(r.piece) < n {
		r.piece = make([]byte, n)
	}
	b := r.piece[:n]
	if k, err := r.f.ReadAt(b, int64(off)); err != nil && k < n {
		if errors.Is(err, io.EOF) {
			return nil, formatErrorf(r.path, off+uint64(k), ErrTruncated, "file became shorter")
		}
		return nil, err
	}
	return b, nil
}

// mainArray rebuilds the main entry array.
func (r *wRelink) mainArray() error {
	m, h := r.m, &r.m.hdr
	c, err := r.chain(h.EntryArrayOffset, r.entries)
	if err != nil {
		return err
	}
	h.EntryArrayOffset = c.first.offset()
	h.TailEntryArrayOffset, h.TailEntryArrayNEntries = uint32(c.last.offset()), c.n
	h.NEntries = uint64(c.total)
	m.main = wMain{array: c.last, cap: c.slots}
	for _, ref := range r.entries[c.total:] {
		m.linkMain(ref)
	}
	if c.stale && m.main.array == c.last {
		m.main.link = wPatch{c.last + object.ArrayNext/8, 0}
	}
	return nil
}

// dataLists rebuilds the list of entries of every DATA object.
func (r *wRelink) dataLists() error {
	r.first = make([]wRef, r.m.data.n+1)
	for id := uint32(1); id <= r.m.data.n; id++ {
		want := r.lists[id]
		r.lists[id] = nil
		if len(want) == 0 {
			continue
		}
		d := r.m.data.at(id)
		r.first[id], d.n = want[0], 1
		if len(want) == 1 {
			continue
		}
		c, err := r.chain(r.links[id].array, want[1:])
		if err != nil {
			return err
		}
		d.array, d.tailArray, d.tailN, d.tailCap = c.first, c.last, c.n, c.slots
		d.n += uint32(c.total)
		for _, ref := range want[d.n:] {
			r.m.linkData(id, d, ref)
		}
		if c.stale && d.tailArray == c.last {
			r.m.links = append(r.m.links, wPatch{c.last + object.ArrayNext/8, 0})
		}
	}
	return nil
}

// orphans empties the arrays that no list uses.
func (r *wRelink) orphans() error {
	for _, v := range r.arrays.slots {
		if v == 0 || r.array[uint32(v)].taken {
			continue
		}
		a := &r.array[uint32(v)]
		off := wRef(v >> 32).offset()
		b, err := r.read(off+object.ArrayItems, int(a.slots)*int(r.m.arrayItem))
		if err != nil {
			return err
		}
		r.noteZero(off, 0, b)
		if a.next != 0 {
			r.zero = append(r.zero, wZero{off + object.ArrayNext, 8})
		}
	}
	return nil
}

// fieldLists rebuilds the list of DATA objects of every field, newest first,
// and appends FIELD objects that are missing.
func (r *wRelink) fieldLists() {
	m := r.m
	for id := uint32(1); int(id) < len(m.fields); id++ {
		if m.fields[id].off == 0 {
			m.fields[id].off = m.fieldObject(r.fhash[id], []byte(r.missing[id]))
		}
	}
	r.inList = make([]wRef, m.data.n+1)
	for id := uint32(1); id <= m.data.n; id++ {
		f := &m.fields[r.fieldOf[id]]
		d := m.data.at(id)
		r.inList[id], f.head = f.head, d.off
		d.group = uint8(r.fieldOf[id])
		f.n++
	}
}

// chains rebuilds both hash tables, each chain in the order of offsets. What
// that notes becomes want; what of it the file has already is not noted again.
func (r *wRelink) chains() {
	m := r.m
	var longest, longestFld uint16 // last position in a chain
	data, fields := m.hdr.DataHashChainDepth, m.hdr.FieldHashChainDepth
	for id := uint32(1); id <= m.data.n; id++ {
		d := m.data.at(id)
		m.chainData(d)
		longest = max(longest, d.pos)
	}
	order := make([]uint32, len(m.fields)-1)
	for i := range order {
		order[i] = uint32(i + 1)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(m.fields[a].off, m.fields[b].off) })
	for _, id := range order {
		m.chainField(&m.fields[id], r.fhash[id])
		longestFld = max(longestFld, m.fields[id].pos)
	}
	m.hdr.DataHashChainDepth = depthOf(data, longest)
	m.hdr.FieldHashChainDepth = depthOf(fields, longestFld)
	r.want, _ = sortPatches(m.chains, nil)
	m.chains = nil
}

// wanted is what a link of a chain must be, 0 at the end of one.
func (r *wRelink) wanted(object wRef, field int) wRef {
	at := object + wRef(field/8)
	i, ok := slices.BinarySearchFunc(r.want, at, func(p wPatch, at wRef) int { return cmp.Compare(p.at, at) })
	if !ok {
		return 0
	}
	return r.want[i].to
}

// depthOf brings a header's chain depth into the range that it can have. It
// counts the hops of the searches there were: at least those before the last
// object of the longest chain was added, at most those that find that object.
func depthOf(disk uint64, longest uint16) uint64 {
	return min(max(disk, max(uint64(longest), 1)-1), uint64(longest))
}

// compareData notes what must change in the links of DATA objects.
func (r *wRelink) compareData() {
	m := r.m
	m.dirty = m.dirty[:0]
	for id := uint32(1); id <= m.data.n; id++ {
		d, l := m.data.at(id), &r.links[id]
		right := r.compare(&m.chains, d.off, object.DataNextHash, l.nextHash, r.wanted(d.off, object.DataNextHash))
		right = r.compare(&m.chains, d.off, object.DataNextField, l.nextField, r.inList[id]) && right
		d.state = 0
		if l.entry != r.first[id].offset() || l.array != d.array.offset() || l.n != uint64(d.n) ||
			m.compact && (l.tailArray != uint32(d.tailArray.offset()) || l.tailN != d.tailN) {
			d.state = wDirty
			m.dirty = append(m.dirty, wCount{id, r.first[id]})
		}
		if d.state != 0 || !right {
			r.badData = append(r.badData, d.off)
		}
	}
}

// compareFields notes what must change in the links of FIELD objects.
func (r *wRelink) compareFields() {
	m := r.m
	m.dirtyFld = m.dirtyFld[:0]
	for id := uint32(1); int(id) < len(m.fields); id++ {
		f := &m.fields[id]
		if b := m.unwritten(f.off, object.FieldHeadData); b != nil {
			object.PutU64(b, 0, f.head.offset())
			continue // chain has seen to the other one
		}
		l := &r.flinks[id]
		right := r.compare(&m.chains, f.off, object.FieldNextHash, l.nextHash, r.wanted(f.off, object.FieldNextHash))
		if f.dirty = l.head != f.head.offset(); f.dirty {
			m.dirtyFld = append(m.dirtyFld, id)
		}
		if f.dirty || !right {
			r.badFields = append(r.badFields, f.off)
		}
	}
}

// compare notes in log what a link must be, and returns whether it is.
func (r *wRelink) compare(log *[]wPatch, of wRef, field int, disk uint64, must wRef) bool {
	if disk == must.offset() {
		return true
	}
	r.m.patch(log, of, field, must)
	return false
}

// compareTable notes what must change in a hash table.
func (r *wRelink) compareTable(b *wBuckets) error {
	want := r.want
	for at := uint64(0); at < b.size(); at += wMaxPiece {
		got, err := r.read(b.off+at, int(min(wMaxPiece, b.size()-at)))
		if err != nil {
			return err
		}
		for i := 0; i < len(got); i += 8 {
			link := wPatch{at: refOf(b.off + at + uint64(i))}
			for len(want) > 0 && want[0].at < link.at {
				want = want[1:]
			}
			if len(want) > 0 && want[0].at == link.at {
				link = want[0]
			}
			if object.U64(got, i) != link.to.offset() {
				r.m.chains = append(r.m.chains, link)
				r.badTable = b.off
			}
		}
	}
	return nil
}

// finishHeader brings what is left of the header in line with the entries.
func (r *wRelink) finishHeader() {
	h := &r.m.hdr
	h.NTags = 0
	if len(r.entries) == 0 {
		h.HeadEntrySeqnum, h.HeadEntryRealtime = 0, 0
		h.TailEntryRealtime, h.TailEntryMonotonic, h.TailEntryOffset = 0, 0, 0
	}
	if h.HeaderSize < object.HeaderSize254 {
		h.TailEntryOffset = 0
	}
}

// fault tells what is wrong with the file, nil if nothing is: then it is as its
// writer left it when it closed it.
func (r *wRelink) fault() error {
	m := r.m
	switch {
	case r.why != nil:
		return r.why
	case r.disk.ArenaSize > r.size-r.disk.HeaderSize || r.disk.HeaderSize+r.disk.ArenaSize < r.cut:
		return formatErrorf(r.path, object.HdrArenaSize, ErrTruncated, "contents up to %#x, arena of %d bytes, file of %d", r.cut, r.disk.ArenaSize, r.size)
	case m.hdr != r.disk || !r.plain:
		return formatErrorf(r.path, 0, ErrCorrupt, "header does not agree with the objects")
	case len(r.badData) > 0:
		return formatErrorf(r.path, r.badData[0].offset(), ErrCorrupt, "links of a data object")
	case len(r.badXor) > 0:
		return formatErrorf(r.path, r.badXor[0].off.offset(), ErrCorrupt, "xor_hash is not that of the items")
	case len(r.badFields) > 0:
		return formatErrorf(r.path, r.badFields[0].offset(), ErrCorrupt, "links of a field object")
	case len(r.zero) > 0:
		return formatErrorf(r.path, r.zero[0].off, ErrCorrupt, "bytes that must be zero")
	case len(m.links) > 0:
		return formatErrorf(r.path, m.links[0].at.offset(), ErrCorrupt, "link between entry arrays")
	case len(m.tail) > 0 || len(m.runs) > 0 || len(m.main.run) > 0 || m.main.link.at != 0:
		return formatErrorf(r.path, m.base, ErrCorrupt, "links that are missing")
	case r.badTable != 0:
		return formatErrorf(r.path, r.badTable, ErrCorrupt, "hash tables")
	}
	return nil
}

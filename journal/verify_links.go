package journal

import (
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Owners of entry arrays, by ordinal of array in verifier.owner; a larger value
// is 2 + the ordinal of a DATA object.
const (
	vNobody = 0
	vMain   = 1
)

// checkLinks follows what refers to what: the main entry array, the hash
// chains, the lists of each field, and then in a second pass over the file
// every entry array and every entry.
func (v *verifier) checkLinks() error {
	v.second = true
	v.inMain = newVBits(v.entryIdx.n)
	v.owner = make([]uint32, v.arrayIdx.n)
	if err := v.walkMain(); err != nil {
		return err
	}
	if err := v.walkBuckets(v.dataChains()); err != nil {
		return err
	}
	if err := v.walkBuckets(v.fieldChains()); err != nil {
		return err
	}
	v.walkFieldLists()
	for i := range v.data {
		v.beginList(i)
	}
	err := vEach(&v.entryIdx, &v.arrayIdx, func(off uint64, isEntry bool) error {
		if isEntry {
			return v.linkEntry(off)
		}
		return v.linkArray(off)
	})
	if err != nil {
		return err
	}
	return v.checkLists()
}

// walkMain walks the main entry array: as many slots as the header counts
// entries, each an entry, in ascending order.
func (v *verifier) walkMain() error {
	v.mainBroken = true
	n, elem := v.h(object.HdrNEntries), v.arrayItem()
	var last, lastArray, used, room, behind uint64
	for i, a := uint64(0), v.h(object.HdrEntryArrayOffset); i < n; {
		if a == 0 {
			v.fail(object.HdrEntryArrayOffset, ProblemEntryArray, "Array chain too short at %d of %d", i, n)
			return nil
		}
		ord, ok := v.arrayIdx.find(a)
		if !ok {
			v.fail(a, ProblemEntryArray, "Invalid array %d of %d", i, n)
			return nil
		}
		v.owner[ord] = vMain
		slots, next, ok, err := v.arrayAt(a)
		if err != nil {
			return err
		}
		if !ok {
			v.fail(a, ProblemEntryArray, "Invalid array %d of %d", i, n)
			return nil
		}
		if next != 0 && next <= a {
			v.fail(a, ProblemEntryArray, "Array chain has cycle at %d of %d (jumps back from to %06x)", i, n, next)
			return nil
		}
		k := min(slots, n-i)
		err = v.pieces(a+object.ArrayItems, k, elem, func(first uint64, b []byte) error {
			for j := range len(b) / int(elem) {
				last = v.mainSlot(a, i+first+uint64(j), n, vSlot(b, j, elem), last)
			}
			return nil
		})
		if err != nil {
			return err
		}
		lastArray, used, room, behind = a, k, slots, next
		i, a = i+k, next
	}
	v.lastEntry, v.mainBroken = last, false
	if lastArray != 0 {
		if err := v.checkBeyond(ProblemEntryArray, lastArray, used, room, behind); err != nil {
			return err
		}
	}
	v.checkTailHint(object.HdrTailEntryArrayOffset, ProblemEntryArray, lastArray, used)
	return nil
}

// arrayAt reads the head of the ENTRY_ARRAY object at a: how many slots it has, and
// the array behind it. ok is false if there is none any more: the file is being
// written.
func (v *verifier) arrayAt(a uint64) (slots, next uint64, ok bool, err error) {
	o, why, err := v.objectAt(a)
	if err != nil || why != "" || o.typ != object.EntryArray {
		return 0, 0, false, err
	}
	b, err := v.win.get(a, object.ArrayItems)
	if err != nil {
		return 0, 0, false, err
	}
	return (o.size - object.ArrayItems) / v.arrayItem(), object.U64(b, object.ArrayNext), true, nil
}

// mainSlot checks slot number i of the main array, which is in the array at a,
// and returns the larger of its value and last.
func (v *verifier) mainSlot(a, i, n, p, last uint64) uint64 {
	if p <= last {
		v.fail(a, ProblemEntryArray, "Entry array not sorted at %d of %d", i, n)
		return last
	}
	ord, ok := v.entryIdx.find(p)
	if !ok {
		v.fail(a, ProblemEntryArray, "Invalid array entry at %d of %d", i, n)
		return last
	}
	v.inMain.set(ord)
	return p
}

// checkTailHint compares the header's hint to the last array of the main chain
// with what was found. A writer of systemd 252 trusts it.
func (v *verifier) checkTailHint(off int, kind ProblemKind, array, used uint64) {
	if !v.has(off) {
		return
	}
	if got, n := object.U32(v.hdr, off), object.U32(v.hdr, off+4); uint64(got) != array&(1<<32-1) || uint64(n) != used&(1<<32-1) {
		v.fail(uint64(off), kind, "Tail entry array hint incorrect (%06x with %d entries != %06x with %d)", got, n, array, used)
	}
	if off := object.HdrTailEntryOffset; v.has(off) && v.h(off) != v.lastEntry {
		v.fail(uint64(off), kind, "Tail entry offset incorrect (%06x != %06x)", v.h(off), v.lastEntry)
	}
}

// vChains is a hash table with the objects of its chains.
type vChains struct {
	kind    ProblemKind
	name    string // in problems
	tableAt int    // header field with the table's offset; its size is behind it
	depthAt int
	// next returns the next object in the chain and the hash of the one at p;
	// seen that the chain has come to it before, which next notes.
	next func(p uint64) (next, hash uint64, seen, ok bool)
}

func (v *verifier) dataChains() *vChains {
	return &vChains{
		kind: ProblemData, name: "data object", tableAt: object.HdrDataHashTableOffset, depthAt: object.HdrDataHashChainDepth,
		next: func(p uint64) (next, hash uint64, seen, ok bool) {
			i, ok := v.dataIdx.find(p)
			if !ok {
				return 0, 0, false, false
			}
			seen = v.hot[i].flags&vReached != 0
			v.hot[i].flags |= vReached
			return v.data[i].nextHash, v.hot[i].hash, seen, true
		},
	}
}

func (v *verifier) fieldChains() *vChains {
	return &vChains{
		kind: ProblemField, name: "field object", tableAt: object.HdrFieldHashTableOffset, depthAt: object.HdrFieldHashChainDepth,
		next: func(p uint64) (next, hash uint64, seen, ok bool) {
			i, ok := v.fieldIdx.find(p)
			if !ok {
				return 0, 0, false, false
			}
			f := &v.fields[i]
			seen, f.reached = f.reached, true
			return f.nextHash, f.hash, seen, true
		},
	}
}

// walkBuckets walks every chain of a hash table. An object that two chains
// share ends the second, so that the walk is linear whatever the file says.
func (v *verifier) walkBuckets(c *vChains) error {
	table, size := v.h(c.tableAt), v.h(c.tableAt+8)
	n := size / object.HashItemSize
	if n == 0 {
		return nil
	}
	if table > v.win.size || n*object.HashItemSize > v.win.size-table {
		v.fail(uint64(c.tableAt), c.kind, "Failed to map %s hash table: %s", c.kind, vBeyond)
		return nil
	}
	deepest := uint64(0)
	err := v.pieces(table, n, object.HashItemSize, func(first uint64, b []byte) error {
		for i := range len(b) / object.HashItemSize {
			head, tail := object.U64(b, i*object.HashItemSize), object.U64(b, i*object.HashItemSize+8)
			if head|tail == 0 {
				continue
			}
			bucket := first + uint64(i)
			last, length, ok := v.walkChain(c, head, bucket, n)
			if ok && last != tail {
				v.fail(table+bucket*object.HashItemSize, c.kind, "Tail hash pointer mismatch in hash table (%d != %d)", last, tail)
			}
			deepest = max(deepest, length)
		}
		return nil
	})
	// A search walks deepest-1 hops to the last object, and deepest-2 before that
	// was there: the writer may not have looked it up since.
	if got := v.h(c.depthAt); v.has(c.depthAt) && (got+2 < deepest || got > 0 && got >= deepest) {
		v.note(uint64(c.depthAt), c.kind, "Deepest %s hash chain incorrect (%d, but the longest has %d objects)", c.kind, got, deepest)
	}
	return err
}

// walkChain walks the chain of one bucket and returns its last object; ok is
// false when it did not come to the end.
func (v *verifier) walkChain(c *vChains, p, bucket, n uint64) (last, length uint64, ok bool) {
	for p != 0 {
		next, hash, seen, ok := c.next(p)
		switch {
		case !ok:
			v.fail(p, c.kind, "Invalid %s at hash entry %d of %d", c.name, bucket, n)
			return last, length, false
		case next != 0 && next <= p:
			v.fail(p, c.kind, "Hash chain has a cycle in hash entry %d of %d", bucket, n)
			return p, length + 1, false
		case hash%n != bucket:
			v.fail(p, c.kind, "Hash value mismatch in hash entry %d of %d", bucket, n)
		}
		if seen {
			v.fail(p, c.kind, "%s is in two hash chains, one of them of hash entry %d of %d", c.name, bucket, n)
			return p, length + 1, false
		}
		last, length, p = p, length+1, next
	}
	return last, length, true
}

// walkFieldLists walks the list of DATA objects of every FIELD object, newest
// first, and then looks for objects that nothing leads to.
func (v *verifier) walkFieldLists() {
	incomplete := map[uint64]*vMissing{} // by field name
	for i := range v.fields {
		f := &v.fields[i]
		if !f.reached {
			// A writer that died before it linked the object leaves it unused.
			if f.headData == 0 {
				v.note(f.off, ProblemField, "Unused field object")
			} else {
				v.fail(f.off, ProblemField, "Field object missing from hash table")
			}
		}
		if !v.walkFieldList(f) {
			incomplete[f.name] = &vMissing{} // reported already
		}
	}
	var missing []*vMissing
	for i := range v.data {
		d, flags := &v.data[i], v.hot[i].flags
		if flags&vReached == 0 {
			if d.n == 0 {
				v.note(d.off, ProblemData, "Unused data object")
				continue
			}
			v.fail(d.off, ProblemData, "Data object missing from hash table")
		}
		switch {
		case flags&(vListed|vDamaged) != 0:
		case d.n == 0:
			v.note(d.off, ProblemField, "Unused data object is missing from the list of its field")
		case incomplete[d.name] == nil:
			m := &vMissing{first: d.off}
			incomplete[d.name] = m
			missing = append(missing, m)
		default:
			incomplete[d.name].more++
		}
	}
	for _, m := range missing {
		if m.more == 0 {
			v.fail(m.first, ProblemField, "Data object missing from the list of its field")
		} else {
			v.fail(m.first, ProblemField, "Data object missing from the list of its field, and %d more of the same field", m.more)
		}
	}
}

// vMissing are the DATA objects that are missing from the list of one field.
type vMissing struct {
	first uint64
	more  int
}

// walkFieldList walks the list of one FIELD object. It returns false when it
// did not come to its end.
func (v *verifier) walkFieldList(f *vField) bool {
	broken := func(format string, args ...any) bool {
		v.fail(f.off, ProblemField, format, args...)
		return false
	}
	for p, before := f.headData, uint64(0); p != 0; {
		if before != 0 && p >= before {
			return broken("Field object's data list has a cycle (jumps from %06x to %06x)", before, p)
		}
		i, ok := v.dataIdx.find(p)
		if !ok {
			return broken("Field object references invalid data at %06x", p)
		}
		h := &v.hot[i]
		if h.flags&vListed != 0 {
			return broken("Field object's data list shares data at %06x with another", p)
		}
		if h.flags&vDamaged == 0 && !f.damaged && v.data[i].name != f.name {
			return broken("Field object's data list has data of another field at %06x", p)
		}
		h.flags |= vListed
		before, p = p, v.data[i].nextField
	}
	return true
}

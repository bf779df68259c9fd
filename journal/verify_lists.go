package journal

import (
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// beginList checks the beginning of the list of entries of DATA object i, which
// stands in the object itself, and claims the first array of the rest.
func (v *verifier) beginList(i int) {
	d := &v.data[i]
	if d.array != 0 && d.n < 2 {
		v.fail(d.off, ProblemData, "Entry array present (entry_array_offset=%06x, but n_entries=%d)", d.array, d.n)
	}
	if d.n == 0 || d.entry == 0 {
		return
	}
	if !v.listed(i, d.entry) {
		return
	}
	d.seen, d.last = 1, d.entry
	if d.n > 1 {
		v.claim(i, d.array)
	}
}

// listed takes entry p into account as one that the list of DATA object i
// names. It reports false when that list is to be followed no further.
func (v *verifier) listed(i int, p uint64) bool {
	ord, ok := v.entryIdx.find(p)
	if !ok {
		return v.breakList(i, "Data object references invalid entry at %06x", p)
	}
	if !v.mainBroken && !v.inMain.has(ord) {
		if v.once(p) {
			v.fail(p, ProblemData, "Entry object doesn't exist in the main entry array")
		}
		return v.breakList(i, "")
	}
	if p != v.lastEntry {
		v.hot[i].acc += vMix(p, v.seed)
	}
	return true
}

// breakList reports what is wrong with the list of DATA object i, and that the
// list was not followed to its end. It returns false.
func (v *verifier) breakList(i int, format string, args ...any) bool {
	if format != "" {
		v.fail(v.data[i].off, ProblemData, format, args...)
	}
	v.hot[i].flags |= vBrokenUp
	return false
}

// claim makes the array at a the next of DATA object i's list.
func (v *verifier) claim(i int, a uint64) {
	if a == 0 {
		v.breakList(i, "Array chain too short")
		return
	}
	ord, ok := v.arrayIdx.find(a)
	if !ok {
		v.breakList(i, "Invalid array offset %06x", a)
		return
	}
	if v.owner[ord] != vNobody {
		v.breakList(i, "Entry array at %06x belongs to two lists", a)
		return
	}
	v.owner[ord] = uint32(i) + 2
}

// linkArray follows the slots of the array at a, in the list of the DATA object
// that has claimed it. Arrays come in ascending order, as in every list.
func (v *verifier) linkArray(a uint64) error {
	ord, _ := v.arrayIdx.find(a)
	if v.owner[ord] < 2 {
		return nil
	}
	i := int(v.owner[ord] - 2)
	d, elem := &v.data[i], v.arrayItem()
	slots, next, ok, err := v.arrayAt(a)
	if err != nil {
		return err
	}
	if !ok {
		v.breakList(i, "Invalid array offset %06x", a)
		return nil
	}
	if next != 0 && next <= a {
		v.breakList(i, "Array chain has cycle (jumps back from %06x to %06x)", a, next)
		return nil
	}
	k := min(slots, d.n-d.seen)
	whole := true
	err = v.pieces(a+object.ArrayItems, k, elem, func(_ uint64, b []byte) error {
		for j := 0; j < len(b)/int(elem) && whole; j++ {
			q := vSlot(b, j, elem)
			if q <= d.last {
				whole = v.breakList(i, "Data object's entry array not sorted (%d <= %d)", q, d.last)
			} else if whole = v.listed(i, q); whole {
				d.last = q
			}
		}
		return nil
	})
	if err != nil || !whole {
		return err
	}
	d.seen, d.lastArray, d.lastUsed = d.seen+k, a, k
	if d.seen < d.n {
		v.claim(i, next)
		return nil
	}
	return v.checkBeyond(ProblemData, a, k, slots, next)
}

// checkBeyond looks behind the last of a list's entries, in slot used-1 of the array
// at a: there is to be nothing. A writer that was killed may have counted it not yet.
func (v *verifier) checkBeyond(kind ProblemKind, a, used, slots, next uint64) error {
	elem := v.arrayItem()
	if used < slots {
		b, err := v.win.get(a+object.ArrayItems+used*elem, int(elem))
		if err != nil {
			return err
		}
		next = vSlot(b, 0, elem)
	}
	if next != 0 {
		say := v.fail
		if v.hdr[object.HdrState] == object.StateOnline {
			say = v.note
		}
		say(a, kind, "Entry array has more entries than are counted")
	}
	return nil
}

// linkEntry checks the items of the entry at p: DATA objects, reachable by their
// hashes and with the entry in their lists as often as it has them; and that
// xor_hash is theirs. They need not be sorted: in the entries that journald
// copies from /run/log/journal they are not.
func (v *verifier) linkEntry(p uint64) error {
	o, why, err := v.objectAt(p)
	if err != nil {
		return err
	}
	if why != "" || o.typ != object.Entry { // the file is being written
		v.fail(p, ProblemEntry, "Invalid object: %s", why)
		return nil
	}
	b, err := v.win.get(p, object.EntryItems)
	if err != nil {
		return err
	}
	it := vItems{p: p, elem: v.entryItem(), mix: vMix(p, v.seed), xor: object.U64(b, object.EntryXorHash), checkXor: true}
	if p == v.lastEntry {
		// The last entry of a full file may not be in the lists of all its data:
		// there was no room for another array.
		it.mix = 0
	}
	err = v.pieces(p+object.EntryItems, (o.size-object.EntryItems)/it.elem, it.elem, func(_ uint64, b []byte) error {
		v.linkItems(&it, b)
		return nil
	})
	if err != nil || !it.checkXor || it.xor == 0 {
		return err
	}
	return v.checkXor(&it, (o.size-object.EntryItems)/it.elem)
}

// vItems is the state of linkEntry.
type vItems struct {
	p, elem, mix uint64
	xor          uint64 // xor_hash less the items seen
	checkXor     bool
}

func (v *verifier) linkItems(it *vItems, b []byte) {
	for j := range len(b) / int(it.elem) {
		q := vSlot(b, j, it.elem)
		i, ok := v.dataIdx.find(q)
		if !ok {
			if v.once(q) {
				v.fail(it.p, ProblemEntry, "Invalid data object of entry (%06x)", q)
			}
			it.checkXor = false
			continue
		}
		h := &v.hot[i]
		if h.flags&(vReached|vDamaged) != vReached {
			if h.flags&(vReached|vSaid) == 0 {
				v.fail(it.p, ProblemEntry, "Data object missing from hash table")
				h.flags |= vSaid
			}
			if h.flags&vDamaged != 0 {
				it.checkXor = false
			}
		}
		if it.elem == object.EntryItemSize {
			if got := object.U64(b, j*object.EntryItemSize+8); got != h.hash {
				v.fail(it.p, ProblemEntry, "Hash of entry item incorrect (%08x vs. %08x of the data object at %06x)", got, h.hash, q)
			}
		}
		h.acc -= it.mix
		it.xor ^= h.jenkins
	}
}

// checkXor looks into an xor_hash that is not that of the items, each once.
func (v *verifier) checkXor(it *vItems, n uint64) error {
	var basis xorBasis
	err := v.pieces(it.p+object.EntryItems, n, it.elem, func(_ uint64, b []byte) error {
		for j := range len(b) / int(it.elem) {
			i, ok := v.dataIdx.find(vSlot(b, j, it.elem))
			if !ok {
				continue
			}
			basis.add(v.hot[i].jenkins)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if basis.reduce(it.xor) != 0 {
		v.fail(it.p, ProblemEntry, "xor_hash is not that of the items (differs by %08x)", it.xor)
	}
	return nil
}

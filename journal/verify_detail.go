package journal

import (
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// checkLists ends the second pass: the hints of every DATA object's list, and
// whether its list names exactly the entries that have it as an item.
func (v *verifier) checkLists() error {
	suspects := map[int]*vCursor{}
	for i := range v.data {
		d, h := &v.data[i], &v.hot[i]
		if h.flags&vBrokenUp != 0 {
			continue // said already
		}
		if h.acc != 0 && len(suspects) < MaxProblems {
			suspects[i] = &vCursor{at: d.entry, array: d.array, left: d.n}
			continue
		}
		if v.compact() && (uint64(d.tailArray) != d.lastArray || uint64(d.tailN) != d.lastUsed) {
			v.fail(d.off, ProblemData, "Tail entry array hint incorrect (%06x with %d entries != %06x with %d)",
				d.tailArray, d.tailN, d.lastArray, d.lastUsed)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	// The entries go through the large window, the lists through small looks.
	v.look = vWindow{r: v.win.r, size: v.win.size, name: v.win.name, tick: v.win.tick, min: vLook}
	return v.explain(suspects)
}

// vCursor goes through the list of entries of one DATA object.
type vCursor struct {
	at    uint64 // the entry it stands at; 0: at the end
	array uint64 // the array with the entries after
	slot  uint64 // the next one in it
	left  uint64 // entries from at on
}

// explain goes over all entries once more and says which entries and lists do
// not agree, for DATA objects of which it is known that some do not.
func (v *verifier) explain(suspects map[int]*vCursor) error {
	elem := v.entryItem()
	var none vIndex
	var items []uint64
	err := vEach(&v.entryIdx, &none, func(p uint64, _ bool) error {
		o, why, err := v.objectAt(p)
		if err != nil || why != "" || v.full() {
			return err
		}
		items = items[:0]
		err = v.pieces(p+object.EntryItems, (o.size-object.EntryItems)/elem, elem, func(_ uint64, b []byte) error {
			for j := range len(b) / int(elem) {
				q := vSlot(b, j, elem)
				if i, ok := v.dataIdx.find(q); ok && suspects[i] != nil {
					items = append(items, q)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, q := range items {
			i, _ := v.dataIdx.find(q)
			c := suspects[i]
			if err := v.advance(q, c, p); err != nil {
				return err
			}
			if c.at == p {
				if err := v.step(c); err != nil {
					return err
				}
			} else if p != v.lastEntry {
				v.fail(p, ProblemEntry, "Entry object not referenced by linked data object at %06x", q)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range v.data { // in the order of the file
		if c := suspects[i]; c != nil {
			if err := v.advance(v.data[i].off, c, ^uint64(0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance moves the cursor of the DATA object at q to entry p or behind. The
// entries it passes are named by the list and do not have the object.
func (v *verifier) advance(q uint64, c *vCursor, p uint64) error {
	for c.at != 0 && c.at < p && !v.full() {
		if c.at != v.lastEntry {
			v.fail(q, ProblemData, "Data object references entry at %06x, which does not have it", c.at)
		}
		if err := v.step(c); err != nil {
			return err
		}
	}
	return nil
}

// step moves the cursor to the next entry of its list. The list has been
// followed before, but the file may have changed since.
func (v *verifier) step(c *vCursor) error {
	was := c.at
	c.at = 0
	c.left--
	if c.left == 0 {
		return nil
	}
	elem := v.arrayItem()
	for {
		if _, ok := v.arrayIdx.find(c.array); !ok {
			return nil
		}
		o, why, err := v.objectIn(&v.look, c.array)
		if err != nil || why != "" || o.typ != object.EntryArray {
			return err
		}
		if c.slot < (o.size-object.ArrayItems)/elem {
			break
		}
		b, err := v.look.get(c.array, object.ArrayItems)
		if err != nil {
			return err
		}
		next := object.U64(b, object.ArrayNext)
		if next <= c.array {
			return nil
		}
		c.array, c.slot = next, 0
	}
	b, err := v.look.get(c.array+object.ArrayItems+c.slot*elem, int(elem))
	if err != nil {
		return err
	}
	c.slot++
	if at := vSlot(b, 0, elem); at > was {
		c.at = at
	}
	return nil
}

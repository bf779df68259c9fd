package journal

import "github.com/tidemark-log/tidemark/journal/internal/object"

// tightFrom is from how many entries on a list grows by half with Options.TightArrays.
const tightFrom = 1000

// nextCapacity is the number of slots journald gives the array that follows one
// of last slots in a chain that holds n entries: 4, 8, 26, 78, 234, ...; or fewer, if
// tight is set and the chain is long.
func nextCapacity(n, last uint64, tight bool) uint64 {
	switch {
	case tight && n >= tightFrom:
		return n / 4 * 2
	case n > last:
		return max(2*(n+1), 4)
	}
	return max(2*last, 4)
}

func (m *wMem) arraySize(slots uint64) uint64 { return object.ArrayItems + slots*m.arrayItem }

// newArray appends an array of cap slots with ref in the first.
func (m *wMem) newArray(slots uint64, ref wRef) wRef {
	r, b := m.object(object.EntryArray, m.arraySize(slots))
	m.putSlot(b[object.ArrayItems:], ref)
	m.hdr.NEntryArrays++
	return r
}

func (m *wMem) putSlot(b []byte, ref wRef) {
	if m.compact {
		object.PutU32(b, 0, uint32(ref.offset()))
	} else {
		object.PutU64(b, 0, ref.offset())
	}
}

// linkMain appends an entry to the main entry array.
func (m *wMem) linkMain(ref wRef) {
	c := &m.main
	n := m.hdr.TailEntryArrayNEntries
	switch {
	case n < c.cap:
		if b := m.unwritten(c.array, object.ArrayItems+int(uint64(n)*m.arrayItem)); b != nil {
			m.putSlot(b, ref)
		} else {
			if c.runArray == 0 {
				c.runArray, c.runAt = c.array, n
			}
			c.run = append(c.run, ref)
		}
		m.hdr.TailEntryArrayNEntries++
	default:
		slots := nextCapacity(m.hdr.NEntries, uint64(c.cap), m.tight)
		r := m.newArray(slots, ref)
		if c.array == 0 {
			m.hdr.EntryArrayOffset = r.offset()
			c.first = r
		} else if b := m.unwritten(c.array, object.ArrayNext); b != nil {
			object.PutU64(b, 0, r.offset())
		} else {
			c.link = wPatch{c.array + object.ArrayNext/8, r}
		}
		c.array, c.cap = r, uint32(slots)
		m.hdr.TailEntryArrayOffset = uint32(r.offset())
		m.hdr.TailEntryArrayNEntries = 1
	}
	m.hdr.NEntries++
}

// linkData appends an entry to the list of a DATA object.
func (m *wMem) linkData(id uint32, d *wData, ref wRef) {
	switch {
	case d.n == 0 && d.state&wHeld != 0:
		// An object that has a first entry must count it, and the other way round.
		d.state |= wDirty
		m.dirty = append(m.dirty, wCount{id, ref})
	case d.n == 0:
		m.patch(&m.links, d.off, object.DataEntry, ref)
	case d.tailN < d.tailCap:
		m.linkSlots(d, []wRef{ref})
		m.touchData(id, d)
		return
	default:
		slots := nextCapacity(uint64(d.n)-1, uint64(d.tailCap), m.tight)
		r := m.newArray(slots, ref)
		if d.tailArray == 0 {
			d.array = r
		} else {
			m.patch(&m.links, d.tailArray, object.ArrayNext, r)
		}
		d.tailArray, d.tailN, d.tailCap = r, 1, uint32(slots)
	}
	d.n++
	m.touchData(id, d)
}

// linkSlots appends entries to the list of a DATA object whose last array has room for
// them. touchData is the caller's.
func (m *wMem) linkSlots(d *wData, refs []wRef) {
	if b := m.unwritten(d.tailArray, object.ArrayItems+int(uint64(d.tailN)*m.arrayItem)); b != nil {
		for _, ref := range refs {
			m.putSlot(b, ref)
			b = b[m.arrayItem:]
		}
	} else {
		m.noteSlots(d, refs)
	}
	d.tailN += uint32(len(refs))
	d.n += uint32(len(refs))
}

// noteSlots notes the next slots of d's last array, which is in the file.
func (m *wMem) noteSlots(d *wData, refs []wRef) {
	i := d.run - 1 // wraps for 0, and is then out of range
	if int(i) >= len(m.runs) || m.runs[i].array != d.tailArray {
		i = uint32(len(m.runs))
		m.runs = append(m.runs, wRun{array: d.tailArray, first: d.tailN})
		d.run = i + 1
	}
	m.runs[i].n += uint32(len(refs))
	for _, ref := range refs {
		m.slots = append(m.slots, wSlot{i, ref})
	}
}

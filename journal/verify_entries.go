package journal

import (
	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// entryItem is the size of an item of an entry.
func (v *verifier) entryItem() uint64 {
	if v.compact() {
		return object.EntryItemSizeCompact
	}
	return object.EntryItemSize
}

// checkEntry checks an ENTRY object by itself and against the one before it.
func (v *verifier) checkEntry(o vObject) error {
	elem := v.entryItem()
	n := (o.size - object.EntryItems) / elem
	if (o.size-object.EntryItems)%elem != 0 {
		v.fail(o.off, ProblemObject, "Bad entry size (<= %d): %d", object.EntryItems, o.size)
	}
	if n == 0 {
		v.fail(o.off, ProblemObject, "Invalid number items in entry: %d", n)
	}
	b, err := v.win.get(o.off, object.EntryItems)
	if err != nil {
		return err
	}
	e := vOrder{
		seqnum:    object.U64(b, object.EntrySeqnum),
		realtime:  object.U64(b, object.EntryRealtime),
		monotonic: object.U64(b, object.EntryMonotonic),
		boot:      entry.ID(b[object.EntryBootID:]),
	}
	if e.seqnum == 0 {
		v.fail(o.off, ProblemObject, "Invalid entry seqnum: %x", e.seqnum)
	}
	if e.realtime == 0 || e.realtime >= object.TimeLimit {
		v.fail(o.off, ProblemObject, "Invalid entry realtime timestamp: %d", e.realtime)
	}
	if e.monotonic >= object.TimeLimit {
		v.fail(o.off, ProblemObject, "Invalid entry monotonic timestamp: %d", e.monotonic)
	}
	if v.report.Sealed && v.report.Tags == 0 {
		v.fail(o.off, ProblemSeal, "First entry before first tag")
	}
	v.checkOrder(o.off, &e)
	v.entryIdx.add(o.off)
	v.report.Entries++
	return v.pieces(o.off+object.EntryItems, n, elem, func(first uint64, b []byte) error {
		for i := range len(b) / int(elem) {
			if q := vSlot(b, i, elem); q == 0 || q%8 != 0 {
				v.fail(o.off, ProblemContents, "Invalid entry item (%d/%d) offset: %06x", first+uint64(i), n, q)
			}
		}
		return nil
	})
}

// checkOrder compares an entry with the one before and keeps it in its place.
func (v *verifier) checkOrder(p uint64, e *vOrder) {
	was := &v.order
	if !was.set {
		if h := v.h(object.HdrHeadEntrySeqnum); e.seqnum != h {
			v.fail(p, ProblemOrder, "Head entry sequence number incorrect (%d != %d)", e.seqnum, h)
		}
		if h := v.h(object.HdrHeadEntryRealtime); e.realtime != h {
			v.fail(p, ProblemOrder, "Head entry realtime timestamp incorrect (%d != %d)", e.realtime, h)
		}
	} else {
		if was.seqnum >= e.seqnum {
			v.fail(p, ProblemOrder, "Entry sequence number out of synchronization (%d >= %d)", was.seqnum, e.seqnum)
		}
		if was.boot == e.boot && was.monotonic > e.monotonic {
			v.fail(p, ProblemOrder, "Entry timestamp out of synchronization (%d > %d)", was.monotonic, e.monotonic)
		}
	}
	was.set, was.seqnum, was.realtime, was.monotonic, was.boot = true, e.seqnum, e.realtime, e.monotonic, e.boot
}

// checkCounts compares the header's counters and tail values with what the
// first pass found.
func (v *verifier) checkCounts() {
	for _, c := range []struct {
		off  int
		name string
		n    uint64
	}{
		{object.HdrNObjects, "Object", v.report.Objects},
		{object.HdrNEntries, "Entry", v.report.Entries},
		{object.HdrNData, "Data", v.report.Data},
		{object.HdrNFields, "Field", v.report.Fields},
		{object.HdrNTags, "Tag", v.report.Tags},
		{object.HdrNEntryArrays, "Entry array", v.report.EntryArrays},
	} {
		if v.has(c.off) && c.n != v.h(c.off) {
			v.fail(uint64(c.off), ProblemCount, "%s number mismatch (%d != %d)", c.name, c.n, v.h(c.off))
		}
	}
	if p := v.h(object.HdrEntryArrayOffset); p != 0 {
		if _, ok := v.arrayIdx.find(p); !ok {
			v.fail(object.HdrEntryArrayOffset, ProblemEntryArray, "Missing main entry array")
		}
	}
	for i, off := range []int{object.HdrDataHashTableSize, object.HdrFieldHashTableSize} {
		if v.tables[i] == 0 && v.h(off) != 0 {
			v.fail(uint64(off), ProblemHeader, "Missing %s", vTypeName(object.DataHashTable+object.Type(i)))
		}
	}
	last := &v.order
	if !last.set {
		return
	}
	if t := v.h(object.HdrTailEntrySeqnum); last.seqnum != t {
		v.fail(object.HdrTailEntrySeqnum, ProblemCount, "Tail entry sequence number incorrect (%d != %d)", last.seqnum, t)
	}
	boot := entry.ID(v.hdr[object.HdrTailEntryBootID:])
	if t := v.h(object.HdrTailEntryMonotonic); last.boot == boot && last.monotonic != t {
		v.fail(object.HdrTailEntryMonotonic, ProblemCount, "Invalid tail monotonic timestamp (%d != %d)", last.monotonic, t)
	}
	if t := v.h(object.HdrTailEntryRealtime); last.realtime != t {
		v.fail(object.HdrTailEntryRealtime, ProblemCount, "Invalid tail realtime timestamp (%d != %d)", last.realtime, t)
	}
}

package journal

import (
	"sort"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// arrayNode is one ENTRY_ARRAY of a chain.
type arrayNode struct {
	off  uint64
	base uint64 // slots in the arrays before
	cap  uint64 // slots
}

// chain is a list of entries as files hold them: one inline entry (DATA objects
// only), then the slots of arrays, each of which names the next. The arrays
// walked so far are kept; there are few, as they double in size.
type chain struct {
	inline uint64 // offset of the entry with index 0; 0: the chain has none
	first  uint64 // offset of the first array; 0: none
	nodes  []arrayNode
	last   int // node of the last access
}

// slot returns the offset of the entry with index i. It is not checked to be
// one.
func (c *chain) slot(f *File, i uint64) (uint64, error) {
	if c.inline != 0 {
		if i == 0 {
			return c.inline, nil
		}
		i--
	}
	if c.last >= len(c.nodes) || i < c.nodes[c.last].base || i-c.nodes[c.last].base >= c.nodes[c.last].cap {
		if err := c.find(f, i); err != nil {
			return 0, err
		}
	}
	n := &c.nodes[c.last]
	w := f.arrayItemSize()
	off := n.off + object.ArrayItems + (i-n.base)*w
	b, err := f.at(off, w)
	if err != nil {
		return 0, f.readFailed(off, err)
	}
	if w == object.ArrayItemSizeCompact {
		return uint64(object.U32(b, 0)), nil
	}
	return object.U64(b, 0), nil
}

// find makes c.last the array that holds slot i.
func (c *chain) find(f *File, i uint64) error {
	for len(c.nodes) == 0 || i >= c.nodes[len(c.nodes)-1].base+c.nodes[len(c.nodes)-1].cap {
		if err := c.extend(f); err != nil {
			return err
		}
	}
	c.last = sort.Search(len(c.nodes), func(k int) bool { return i < c.nodes[k].base+c.nodes[k].cap })
	return nil
}

// extend walks one array further.
func (c *chain) extend(f *File) error {
	next, base, prev := c.first, uint64(0), uint64(0)
	if len(c.nodes) > 0 {
		n := c.nodes[len(c.nodes)-1]
		b, err := f.at(n.off, object.ArrayItems)
		if err != nil {
			return f.readFailed(n.off, err)
		}
		next, base, prev = object.U64(b, object.ArrayNext), n.base+n.cap, n.off
	}
	if next <= prev {
		// Also the end of the chain, where next is 0: the counter says more.
		return f.errorf(prev, ErrCorrupt, "next entry array at %d", next)
	}
	_, size, err := f.objectAt(next, object.EntryArray, object.ArrayItems)
	if err != nil {
		return err
	}
	n := (size - object.ArrayItems) / f.arrayItemSize()
	if n == 0 {
		return f.errorf(next, ErrCorrupt, "entry array without a slot")
	}
	c.nodes = append(c.nodes, arrayNode{off: next, base: base, cap: n})
	return nil
}

// entryAt returns the offset of the i-th entry of the file.
func (f *File) entryAt(i uint64) (uint64, error) {
	if s := f.salvaged; s != nil {
		if i >= uint64(len(s.index)) { // a file that became shorter may have none
			return 0, f.errorf(0, ErrTruncated, "no entry %d of %d", i, len(s.index))
		}
		return s.index[i], nil
	}
	off, err := f.main.slot(f, i)
	if err == nil && off == 0 {
		err = f.errorf(f.main.nodes[f.main.last].off, ErrCorrupt, "entry array without entry %d", i)
	}
	return off, err
}

// ready makes sure that the entries of the file can be listed, by a scan of its
// objects when it is known to be damaged.
func (f *File) ready() {
	if f.salvaged != nil {
		return
	}
	if f.torn == nil && f.hdr.State != StateOnline {
		f.torn = f.checkCount()
	}
	if f.torn != nil {
		f.warn(f.torn)
		f.startSalvage()
	}
}

// checkCount finds out whether the main array has the last entry that the header
// counts, and none behind it. With a writer at work there often is one.
func (f *File) checkCount() error {
	if f.n == 0 {
		return nil
	}
	var h entryHead
	off, err := f.entryAt(f.n - 1)
	if err == nil {
		err = f.readHead(off, &h)
	}
	if err != nil {
		return err
	}
	node := f.main.nodes[f.main.last]
	if f.n-node.base >= node.cap {
		return nil
	}
	if off, err := f.main.slot(f, f.n); err == nil && off != 0 && !f.moved() {
		return f.errorf(object.HdrNEntries, ErrCorrupt, "more entries than the %d counted", f.n)
	}
	return nil
}

// headAt reads the i-th entry, coming from dir. When the main array turns out to
// be broken, there or at the entry behind, the file is scanned, the numbering
// changes, and it answers errRenumbered.
func (f *File) headAt(i uint64, h *entryHead, dir direction) error {
	off, err := f.entryAt(i)
	if err == nil {
		err = f.readHead(off, h)
	}
	if f.salvaged != nil {
		return err
	}
	if k := i + uint64(dir); err == nil && k < f.n { // also -1
		var behind uint64
		if behind, err = f.entryAt(k); err == nil && (behind > off) != (dir == down) {
			err = f.errorf(off, ErrCorrupt, "entries are not in order: %d, then %d", min(i, k), max(i, k))
		}
	}
	if err != nil {
		return f.damaged(err)
	}
	return nil
}

// errRenumbered says that the file has been scanned and that entries have new
// numbers.
var errRenumbered = &FormatError{Err: ErrCorrupt, Detail: "entries renumbered"}

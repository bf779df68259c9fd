package journal

import (
	"errors"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// cursorState says what a cursor knows.
type cursorState uint8

const (
	stateFresh     cursorState = iota // its place in the file is to be found
	stateCandidate                    // head is its next entry
	statePicked                       // head has been delivered
	stateTail                         // behind its last entry, until the file grows
	stateDead                         // given up
	stateDeferred                     // of a chain, and not at its turn yet
)

// cursor is the place of a Journal in one of its files.
type cursor struct {
	f     *File
	index int // in Journal.files: decides between equal entries
	state cursorState
	// late: the file was added while the others were being read.
	late bool

	head entryHead // of the candidate
	ord  uint64    // its number in the file; in stateTail the number of the next
	gen  int       // File.renumbered that ord belongs to
	pos  uint64    // offset up to which matches have been looked for, going down
	seen uint64    // File.Entries when the end was met
	tick int       // File.generation when the end was met
	seq  uint64    // seqnum of the entry of this file delivered last; 0: none

	rest []*cursor // what follows c in its chain
	from location  // in stateDeferred: where reading began

	plan *plan // evaluates the match in this file; nil: every entry matches
}

// place finds the first candidate from a location on.
func (c *cursor) place(loc *location, dir direction) error {
	for {
		i, err := c.f.find(loc, dir)
		if errors.Is(err, errRenumbered) {
			continue
		}
		if err != nil {
			return err
		}
		c.gen, c.ord = c.f.renumbered, i
		if dir == up {
			c.ord--
		}
		err = c.settleAt(dir)
		if errors.Is(err, errRenumbered) {
			continue
		}
		return err
	}
}

// settleAt makes the entry c.ord, or the next that matches, the candidate.
func (c *cursor) settleAt(dir direction) error {
	if c.ord >= c.f.Entries() { // also -1, going up
		c.end(dir)
		if c.plan == nil {
			return nil
		}
		off, err := c.f.lastEntry()
		if err != nil {
			return c.f.damaged(err)
		}
		c.pos = off
		return nil
	}
	if c.plan == nil {
		return c.take(dir)
	}
	off, err := c.f.entryAt(c.ord)
	if err != nil {
		return c.f.damaged(err)
	}
	return c.match(off, dir)
}

// take reads entry c.ord.
func (c *cursor) take(dir direction) error {
	var h entryHead
	if err := c.f.headAt(c.ord, &h, dir); err != nil {
		return err
	}
	if c.state == statePicked && (h.off > c.head.off) != (dir == down) {
		return c.f.damaged(c.f.errorf(h.off, ErrCorrupt, "entries are not in order"))
	}
	c.head = h
	c.state = stateCandidate
	return nil
}

// match makes the first match at or behind offset off the candidate.
func (c *cursor) match(off uint64, dir direction) error {
	got, err := c.plan.seek(c.f, off, dir)
	if err != nil {
		return c.f.damaged(err)
	}
	if got == 0 {
		c.pos = max(c.pos, off-1)
		c.end(dir)
		return nil
	}
	if err := c.f.readHead(got, &c.head); err != nil {
		return c.f.damaged(err)
	}
	c.pos = got
	c.state = stateCandidate
	return nil
}

// end notes that there is no further entry.
func (c *cursor) end(dir direction) {
	c.state = stateTail
	c.seen, c.tick = c.f.Entries(), c.f.generation
	if dir == up {
		return
	}
	c.ord = c.seen
	if c.plan != nil && c.plan.final(c.f) {
		if off, err := c.f.lastEntry(); err == nil {
			c.pos = max(c.pos, off)
		}
	}
}

// grown reports whether there may be more behind the end. With a match also
// links that were missing may have come.
func (c *cursor) grown() bool {
	return c.f.Entries() != c.seen || c.plan != nil && c.f.generation != c.tick
}

// advance goes on from the entry that was delivered or passed over.
func (c *cursor) advance(dir direction) error {
	for {
		err := c.step(dir)
		if !errors.Is(err, errRenumbered) {
			return err
		}
	}
}

func (c *cursor) step(dir direction) error {
	c.state = statePicked
	if c.plan != nil {
		if dir == down {
			return c.match(c.head.off+1, dir)
		}
		return c.match(c.head.off-1, dir)
	}
	if c.gen != c.f.renumbered {
		i, err := c.f.ordinal(c.head.off)
		if err != nil {
			return err
		}
		c.gen = c.f.renumbered
		if dir == down {
			// A scan does not lose an entry that the array had; if it did, i is
			// the one behind it.
			if off, err := c.f.entryAt(min(i, c.f.Entries()-1)); i < c.f.Entries() && err == nil && off == c.head.off {
				i++
			}
		} else {
			i--
		}
		c.ord = i
	} else {
		c.ord += uint64(dir)
	}
	if c.ord >= c.f.Entries() {
		c.end(dir)
		return nil
	}
	return c.take(dir)
}

// resume goes on from the end of a file that has grown.
func (c *cursor) resume(dir direction) error {
	for {
		err := c.again(dir)
		if !errors.Is(err, errRenumbered) {
			return err
		}
	}
}

func (c *cursor) again(dir direction) error {
	if c.plan != nil {
		return c.match(c.pos+1, dir)
	}
	if c.gen != c.f.renumbered {
		i, err := c.f.ordinal(c.head.off + 1)
		if err != nil {
			return err
		}
		c.gen, c.ord = c.f.renumbered, i
	}
	if c.ord >= c.f.Entries() {
		c.end(dir)
		return nil
	}
	return c.take(dir)
}

// compareHeads orders two entries as sd-journal does: the same sequence by
// sequence number, the same boot by monotonic time, else by realtime, then by
// xor_hash.
//
// Source: systemd 252, journal_file_compare_locations.
func compareHeads(a *entryHead, aSeq *entry.ID, b *entryHead, bSeq *entry.ID) int {
	if *aSeq == *bSeq {
		if c := cmpU64(a.seqnum, b.seqnum); c != 0 {
			return c
		}
	}
	if a.boot == b.boot {
		if c := cmpU64(a.monotonic, b.monotonic); c != 0 {
			return c
		}
	}
	if c := cmpU64(a.realtime, b.realtime); c != 0 {
		return c
	}
	return cmpU64(a.xorHash, b.xorHash)
}

func compareCursors(a, b *cursor) int {
	return compareHeads(&a.head, &a.f.hdr.SeqnumID, &b.head, &b.f.hdr.SeqnumID)
}

// mergeHeap is a binary heap of the cursors that have a candidate; the next
// entry is at the top.
type mergeHeap struct {
	list []*cursor
	dir  direction
}

func (h *mergeHeap) less(a, b *cursor) bool {
	switch c := compareCursors(a, b); {
	case c != 0:
		return c < 0 == (h.dir == down)
	case a.f.aside() != b.f.aside():
		return b.f.aside()
	default:
		return a.index < b.index
	}
}

// aside reports whether the file was set aside, by its name: of an entry that it
// and another file have, its copy is the one that may be damaged.
func (f *File) aside() bool { return strings.HasSuffix(f.name, "~") }

func (h *mergeHeap) push(c *cursor) {
	h.list = append(h.list, c)
	i := len(h.list) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(h.list[i], h.list[p]) {
			break
		}
		h.list[i], h.list[p] = h.list[p], h.list[i]
		i = p
	}
}

// init makes a heap of the list.
func (h *mergeHeap) init() {
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// fix restores the order after the top has changed.
func (h *mergeHeap) fix() { h.down(0) }

func (h *mergeHeap) down(i int) {
	l := h.list
	for {
		k := 2*i + 1
		if k >= len(l) {
			return
		}
		if k+1 < len(l) && h.less(l[k+1], l[k]) {
			k++
		}
		if !h.less(l[k], l[i]) {
			return
		}
		l[i], l[k] = l[k], l[i]
		i = k
	}
}

// pop removes the top.
func (h *mergeHeap) pop() {
	n := len(h.list) - 1
	h.list[0] = h.list[n]
	h.list[n] = nil
	h.list = h.list[:n]
	h.fix()
}

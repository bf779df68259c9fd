package journal

import (
	"slices"
)

// Files of one sequence whose numbers follow one another, such as the archives of
// one machine, are a chain: no entry of the next comes before all of the one before
// are read. So only the first that has an entry is placed, and of the others no
// more is read than their headers.

// prepareAll finds candidates in the files that have none.
func (j *Journal) prepareAll() {
	j.pending = false
	var fresh []*cursor
	for _, c := range j.files {
		switch {
		case c.state == stateFresh:
			fresh = append(fresh, c)
		case c.state == stateTail && j.dir == down && c.grown():
			j.offer(c, c.resume(j.dir))
		}
	}
	for len(fresh) > 0 {
		n := j.chain(fresh)
		j.startChain(fresh[:n:n])
		fresh = fresh[n:]
	}
}

// offer takes note of what came of looking for the next entry of c.
func (j *Journal) offer(c *cursor, err error) {
	if err != nil {
		j.kill(c, err)
	}
	if c.state == stateCandidate {
		j.heap.push(c)
	}
}

// startChain places the first file of a chain that has an entry. The rest follows
// when that one is at its end.
func (j *Journal) startChain(list []*cursor) {
	for i, c := range list {
		j.offer(c, j.prepare(c))
		if c.state != stateCandidate {
			continue
		}
		c.rest = list[i+1:]
		for _, next := range c.rest {
			if next.state == stateFresh {
				next.state, next.from = stateDeferred, j.loc
			}
		}
		return
	}
}

// unchain has the files that wait for others placed when reading goes on, since
// one of the files is about to go.
func (j *Journal) unchain() {
	for _, c := range slices.Concat(j.files, j.limbo) {
		c.rest = nil
		if c.state == stateDeferred {
			c.state, c.late = stateFresh, false
			j.pending = true
		}
	}
}

// chain sorts list so that it begins with a chain, in the order of reading, and
// returns the length of that.
func (j *Journal) chain(list []*cursor) int {
	if len(list) == 1 || !list[0].orderly() {
		return 1
	}
	id := list[0].f.hdr.SeqnumID
	n := 1
	for i := 1; i < len(list); i++ {
		if c := list[i]; c.f.hdr.SeqnumID == id && c.orderly() {
			list[n], list[i] = list[i], list[n]
			n++
		}
	}
	slices.SortFunc(list[:n], func(a, b *cursor) int { return cmpU64(a.f.hdr.HeadEntrySeqnum, b.f.hdr.HeadEntrySeqnum) })
	for i, c := range list[:n-1] {
		if c.f.hdr.TailEntrySeqnum >= list[i+1].f.hdr.HeadEntrySeqnum {
			return 1 // they overlap: the others come one by one, too
		}
	}
	if j.dir == up {
		slices.Reverse(list[:n])
	}
	return n
}

// orderly reports whether the header says which numbers the entries have.
func (c *cursor) orderly() bool {
	h := &c.f.hdr
	return !c.late && c.state == stateFresh && c.f.torn == nil && c.f.salvaged == nil && !c.f.aside() && c.f.n > 0 &&
		h.HeadEntrySeqnum > 0 && h.HeadEntrySeqnum <= h.TailEntrySeqnum && !h.SeqnumID.IsZero()
}

// beyond reports whether the header tells that all entries are before loc or
// behind it: then find has nothing to look for, and answers i.
func (f *File) beyond(loc *location, dir direction) (i uint64, ok bool) {
	h := &f.hdr
	var first, last, at uint64
	switch {
	case f.torn != nil || f.salvaged != nil || f.n == 0 || loc.kind != atSeek && loc.kind != atEntry:
		return 0, false
	case loc.by(f) == bySeqnum:
		first, last, at = h.HeadEntrySeqnum, h.TailEntrySeqnum, loc.seqnum
	case loc.by(f) == byRealtime:
		first, last, at = h.HeadEntryRealtime, h.TailEntryRealtime, loc.realtime
	default:
		return 0, false
	}
	switch {
	case first == 0 || first > last:
		return 0, false
	case last < at:
		return f.n, true
	case first > at:
		return 0, true
	case first == at && dir == down:
		return 0, true
	case last == at && dir == up:
		return f.n, true
	}
	return 0, false
}

package journal

import (
	"slices"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Going forward from a time, archives on a shelf wait too: those whose headers say
// that they end before it are not opened, and of the others the next one when all of
// the one before has been read. A name is not believed here: the one that says where
// the next archive begins says nothing about this one where a clock was set back.

// aheadState says whether shelves are read forward.
type aheadState uint8

const (
	aheadNever aheadState = iota // all are opened to go forward
	aheadSoon                    // reading begins at a time
	aheadNow
	aheadDone // something else came: all are opened next
)

// seekAhead takes note of a new place to begin at.
func (j *Journal) seekAhead() {
	if j.ahead == aheadDone {
		return
	}
	j.ahead = aheadNever
	if j.loc.kind == atSeek && j.loc.has == entry.HasRealtime && len(j.shelves) > 0 {
		j.ahead, j.aheadFrom = aheadSoon, j.loc
		for i := range j.shelves {
			j.shelves[i].passed, j.shelves[i].low = 0, nil
		}
	}
}

// shelvesAhead opens what is wanted next going forward, and reports whether it
// opened any.
func (j *Journal) shelvesAhead() (opened bool) {
	j.ahead = aheadNow
	for i := range j.shelves {
		s := &j.shelves[i]
		if c := s.low; c != nil && c.state != stateTail && c.state != stateDead {
			continue
		}
		for s.low == nil && s.passed < len(s.closed) && j.endsBefore(s, s.passed) {
			s.passed++
		}
		if s.passed == len(s.closed) {
			continue
		}
		next := s.closed[s.passed]
		s.closed = slices.Delete(s.closed, s.passed, s.passed+1)
		opened = true
		c := j.takeOff(next.path)
		if c == nil {
			continue
		}
		if h := &c.f.hdr; !s.confirms(&next, c, nil) || s.low != nil && s.low.f.hdr.TailEntrySeqnum >= h.HeadEntrySeqnum ||
			h.TailEntrySeqnum >= s.begins(s.passed) {
			j.OpenAll()
			return true
		}
		s.low = c
		c.state, c.from = stateDeferred, j.aheadFrom
		j.offer(c, j.prepare(c))
	}
	return opened
}

// begins is the first number of what follows the first n closed archives.
func (s *shelf) begins(n int) uint64 {
	switch {
	case n < len(s.closed):
		return s.closed[n].seqnum
	case s.front != nil:
		return s.front.f.hdr.HeadEntrySeqnum
	}
	return ^uint64(0)
}

// endsBefore reports whether the header of a closed archive says that it is what
// its name says, and ends before the time that is read from.
func (j *Journal) endsBefore(s *shelf, n int) bool {
	var raw [object.HeaderSize254]byte
	k, err := readBegin(s.closed[n].path, raw[:])
	if err != nil || k < object.HeaderSizeMin || string(raw[:len(object.Signature)]) != object.Signature {
		return false
	}
	h := decodeHeader(raw[:k])
	return h.IncompatibleFlags&^object.IncompatibleAll == 0 && h.State == StateArchived && h.NEntries > 0 &&
		h.SeqnumID == s.id && h.HeadEntrySeqnum == s.closed[n].seqnum &&
		h.HeadEntrySeqnum <= h.TailEntrySeqnum && h.TailEntrySeqnum < s.begins(n+1) &&
		0 < h.HeadEntryRealtime && h.HeadEntryRealtime <= h.TailEntryRealtime && h.TailEntryRealtime < j.aheadFrom.realtime
}

package journal

import (
	"slices"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wStage is what one turn of writing puts into the file: bytes copied from
// wMem, and where they go. It stays as it is until all of it has been written.
// After a failed or short write it goes on with what that has not done: what was
// reported as written is in the page cache, and nobody else writes to the file.
// So a disk that fails one write in a hundred costs one write in a hundred more,
// however many a stage has. A write that may have been done all the same is
// repeated: each is to a place of its own and says the same again.
//
// The order of the writes, and what a reader, or a kill between two of them,
// sees (reference: systemd's reader looks again only when n_entries changes):
//
//	pwrite tail        whole new objects; nothing points to them yet
//	pwrite main slots  slots of the main array that lies in the file already
//	                   (and its link to a new array); beyond n_entries; before the
//	                   first entries the sequence they belong to
//	without the index:
//	pwrite header      counters, with n_entries less one: the last entry is kept
//	                   back, so that n_entries changes once more when the index
//	                   follows, and a reader with matches looks again
//	with the index:
//	pwrite extent      where the last object is, and how many there are: what a
//	                   reader can find from here on survives a kill
//	pwrite slots       of arrays of DATA objects, and links between arrays;
//	                   beyond the objects' n_entries
//	pwrite heads       of FIELD objects
//	pwrite chains      reach the new DATA and FIELD objects
//	pwrite counts      of DATA objects: from here on matches find the entries
//	pwrite header      all counters
//
// All of the index or nothing: a reader that finds a later entry through one
// object and not an earlier one through another never goes back for it. For the
// same reason the header waits for the index where there is one: a reader must
// not be called to look while half of it is there. And since a reader that was
// called earlier may look at any time, the counts come last, with nothing between
// them, those of one field together, as matches for several values of one field
// are what readers ask for: what is left are microseconds, as with a writer that
// links entry by entry in memory that readers share. The values that a field has
// from its 513th on, when they are new, show their entries with the chains.
type wStage struct {
	full   bool   // holds something that is not written yet
	index  bool   // includes the index
	pos    uint64 // entries appended to the writer when it was taken
	end    uint64 // the file must be this long, in bytes
	tail   []byte
	base   uint64 // offset of tail
	early  []wOp  // slots of the main array; with the index, its extent
	late   []wOp  // the index, in phases, but for chains and what comes behind them
	counts []wOp  // the last phase of the index
	buf    []byte // the bytes of early, late and counts
	chains []wPatch
	sorted bool // chains is in order
	header [object.HeaderSize254]byte
	hdrLen int
	past   wPast // what is written of it

	spare []wPatch // scratch
	piece []byte   // scratch
}

// wPast is how far the writing of a stage has come. The writes of a stage have an
// order, in which they are counted: a piece of chains is one.
type wPast struct {
	whole int // writes that are done
	bytes int // of the next write, from its beginning on
	each  int // patches of the next write, which is a piece, that were written one by one
}

// wOp is a write of buf[at:at+n] to off.
type wOp struct {
	off   uint64
	at, n int
}

// bytes is the memory that s holds for what is not written yet.
func (s *wStage) bytes() int64 { return int64(len(s.tail) + len(s.buf) + 8*len(s.chains)) }

// reset empties s for reuse, and lets go of buffers that one burst has made
// large.
func (s *wStage) reset() {
	s.full, s.index, s.sorted = false, false, false
	s.past = wPast{}
	s.tail = keepSmall(s.tail)
	s.buf = keepSmall(s.buf)
	s.early, s.late, s.counts = s.early[:0], s.late[:0], s.counts[:0]
	s.chains = s.chains[:0]
	if 8*cap(s.chains) > wKeepBuffer {
		s.chains, s.spare = nil, nil
	}
}

func keepSmall(b []byte) []byte {
	if cap(b) > wKeepBuffer {
		return nil
	}
	return b[:0]
}

// op begins a write of n bytes to off, to be filled in by the caller.
func (s *wStage) op(ops *[]wOp, off uint64, n int) []byte {
	at := len(s.buf)
	s.buf = grown(s.buf, n)
	*ops = append(*ops, wOp{off, at, n})
	return s.buf[at:]
}

// patch stages an offset.
func (s *wStage) patch(ops *[]wOp, p wPatch) {
	object.PutU64(s.op(ops, p.at.offset(), 8), 0, p.to.offset())
}

// take moves what the file lacks from m to s, which is empty: always the tail,
// the main array and the header; the rest if index is set.
func (m *wMem) take(s *wStage, index bool) {
	if index {
		m.settleAll()
	}
	s.full, s.index = true, index
	s.base, s.end = m.base, m.end()
	s.tail, m.tail = m.tail, s.tail
	m.base = s.end
	m.takeMain(s)
	if index {
		if len(s.tail) > 0 {
			b := s.op(&s.early, object.HdrTailObjectOffset, 16)
			object.PutU64(b, 0, m.hdr.TailObjectOffset)
			object.PutU64(b, 8, m.hdr.NObjects)
		}
		m.takeSlots(s)
		m.takeHeads(s)
		m.takeCounts(s)
		s.chains, m.chains = m.chains, s.chains
	}
	m.takeHeader(s)
}

func (m *wMem) takeHeader(s *wStage) {
	h := m.hdr
	if !s.index && h.NEntries > 0 {
		h.NEntries--
	}
	s.hdrLen = int(h.HeaderSize)
	encodeHeader(s.header[:], &h)
}

// takeMain stages the main array. The header's pointer to a first array goes
// out before n_entries counts what is in it.
func (m *wMem) takeMain(s *wStage) {
	c := &m.main
	if c.runArray != 0 {
		off := c.runArray.offset() + object.ArrayItems + uint64(c.runAt)*m.arrayItem
		b := s.op(&s.early, off, len(c.run)*int(m.arrayItem))
		for i, ref := range c.run {
			m.putSlot(b[i*int(m.arrayItem):], ref)
		}
		c.runArray, c.run = 0, c.run[:0]
	}
	if c.link.at != 0 {
		s.patch(&s.early, c.link)
		c.link = wPatch{}
	}
	if c.first != 0 {
		// These are the first entries: what shows them also shows their sequence,
		// which may be another than the file was created with.
		copy(s.op(&s.early, object.HdrSeqnumID, len(m.hdr.SeqnumID)), m.hdr.SeqnumID[:])
		s.patch(&s.early, wPatch{object.HdrEntryArrayOffset / 8, c.first})
		c.first = 0
	}
}

// takeSlots stages the slots and links of the arrays of DATA objects.
func (m *wMem) takeSlots(s *wStage) {
	size := int(m.arrayItem)
	for i := range m.runs {
		r := &m.runs[i]
		off := r.array.offset() + object.ArrayItems + uint64(r.first)*m.arrayItem
		n := int(r.n) * size
		s.op(&s.late, off, n)
		r.at = uint32(len(s.buf) - n) // where the next slot of the run goes
	}
	for _, v := range m.slots {
		r := &m.runs[v.run]
		m.putSlot(s.buf[r.at:], v.ref)
		r.at += uint32(size)
	}
	for _, l := range m.links {
		s.patch(&s.late, l)
	}
	m.runs, m.slots, m.links = m.runs[:0], m.slots[:0], m.links[:0]
}

// takeHeads stages the lists of values.
func (m *wMem) takeHeads(s *wStage) {
	for _, id := range m.dirtyFld {
		f := &m.fields[id]
		s.patch(&s.late, wPatch{f.off + object.FieldHeadData/8, f.head})
		f.dirty = false
	}
	m.dirtyFld = m.dirtyFld[:0]
}

// takeCounts stages what changes in DATA objects with every entry, by groups.
func (m *wMem) takeCounts(s *wStage) {
	var at [256]int
	for _, c := range m.dirty {
		at[m.data.at(c.id).group]++
	}
	sum := 0
	for i, n := range at {
		at[i] = sum
		sum += n
	}
	m.counts = slices.Grow(m.counts[:0], sum)[:sum]
	for _, c := range m.dirty {
		i := &at[m.data.at(c.id).group]
		m.counts[*i] = c
		*i++
	}
	n := int(m.dataHead) - dataCounts
	for _, c := range m.counts {
		d := m.data.at(c.id)
		if c.first != wKeep {
			b := s.op(&s.counts, d.off.offset()+object.DataEntry, dataCounts-object.DataEntry+n)
			object.PutU64(b, 0, c.first.offset())
			m.putDataCounts(b[dataCounts-object.DataEntry:], d)
		} else {
			m.putDataCounts(s.op(&s.counts, d.off.offset()+dataCounts, n), d)
		}
		d.state = 0
	}
	m.dirty = m.dirty[:0]
}

// write puts into f what is missing of s. When a write fails and some of s was
// written since the one before, it goes on at once, having told failed; when
// nothing was, it returns the error.
func (s *wStage) write(f vfs.File, failed func(error)) error {
	for {
		before := s.past
		err := s.writeRest(f)
		if err == nil || s.past == before {
			return err
		}
		failed(err)
	}
}

// writeRest writes what is missing, up to the first error.
func (s *wStage) writeRest(f vfs.File) error {
	n := 0 // writes considered
	if len(s.tail) > 0 {
		if err := s.put(f, &n, s.tail, s.base); err != nil {
			return err
		}
	}
	if err := s.putOps(f, &n, s.early); err != nil {
		return err
	}
	if err := s.putOps(f, &n, s.late); err != nil {
		return err
	}
	if !s.sorted {
		s.chains, s.spare = sortPatches(s.chains, s.spare)
		s.sorted = true
	}
	if err := s.putChains(f, &n); err != nil {
		return err
	}
	if err := s.putOps(f, &n, s.counts); err != nil {
		return err
	}
	return s.put(f, &n, s.header[:s.hdrLen], 0)
}

func (s *wStage) putOps(f vfs.File, n *int, ops []wOp) error {
	for _, o := range ops {
		if err := s.put(f, n, s.buf[o.at:o.at+o.n], o.off); err != nil {
			return err
		}
	}
	return nil
}

// put is the next write of the stage: b to off.
func (s *wStage) put(f vfs.File, n *int, b []byte, off uint64) error {
	if s.isPast(n) {
		return nil
	}
	return s.putRest(f, *n, b, off)
}

// putRest is write n of the stage, which is b to off: what an earlier attempt has
// left of it.
func (s *wStage) putRest(f vfs.File, n int, b []byte, off uint64) error {
	done := s.past.bytes
	k, err := f.WriteAt(b[done:], int64(off)+int64(done))
	if err != nil {
		s.past.bytes += k
		return err
	}
	s.past = wPast{whole: n}
	return nil
}

// isPast counts the next write in n, and tells whether it is done already.
func (s *wStage) isPast(n *int) bool {
	*n++
	return *n <= s.past.whole
}

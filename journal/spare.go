package journal

import "sync"

// wSpare is memory that a writer has grown and that its successor needs again: in a
// flood a file is full within the second, and to grow a table takes longer than to
// empty one. What is in it is of no meaning.
type wSpare struct {
	data   wTable
	ends   []wEnd
	used   []uint64
	tail   []byte
	slots  []wSlot
	chains []wPatch
}

// spares holds those that wait for a writer. What is not wanted for a while goes.
var spares sync.Pool // of *wSpare

// begin makes the memory ready for the first entry. A file that is prepared and not
// written to has none of it.
func (m *wMem) begin() {
	s, _ := spares.Get().(*wSpare)
	m.beginIn(s)
}

// beginIn is begin in the memory of s; nil: in its own.
func (m *wMem) beginIn(s *wSpare) {
	n := m.hdr.DataBuckets()
	if s == nil || uint64(len(s.ends)) != n {
		m.dataBuckets = newBuckets(m.hdr.DataHashTableOffset, n)
		return
	}
	clear(s.used)
	m.dataBuckets = wBuckets{m.hdr.DataHashTableOffset, s.ends, s.used}
	m.data = s.data
	m.data.empty()
	m.tail, m.slots, m.chains = s.tail[:0], s.slots[:0], s.chains[:0]
}

// release lets go of what only appending needs; a Ticket may keep the writer
// long after it was closed.
func (m *wMem) release() {
	if m.dataBuckets.ends != nil {
		spares.Put(&wSpare{m.data, m.dataBuckets.ends, m.dataBuckets.used, keepSmall(m.tail), m.slots, m.chains})
	}
	*m = wMem{hdr: m.hdr, limit: m.limit, base: m.end()}
}

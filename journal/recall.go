package journal

import "github.com/tidemark-log/tidemark/entry"

// wLast is a field of the entry before. Most entries repeat most of the fields of
// that, at the same places: to compare them is less than to look them up. What one
// repeats is not even linked to it at once: the entries that a field has been carried
// through are linked when it is not repeated, or when the index is taken, in a row.
//
//	entry    1        2        3        4        5
//	place 0  A=1      A=1      A=1      A=2      A=2     A=1 is linked to 2 and 3 with entry 4
//	place 1  B=1      B=1      B=1      B=1      B=1     to nothing but 1 yet
type wLast struct {
	payload []byte // a copy, cut at wLastMax or behind its name
	whole   bool   // payload is
	id      uint32 // its record
	field   uint32 // the record of its name, 0: not known
	name    uint32 // the length of its name, if that is known
	changes uint8  // how often it was new since it was last repeated, wrapping

	item    uint64 // of the entries that have it, as in wMem.items
	jenkins uint64 // of the record
	since   uint64 // turns of the entries from this one on are to be linked
	until   uint64 // turn at which its last array is full
}

const (
	// wLastMax bounds what is kept of a field, in bytes.
	wLastMax = 256
	// wLastFields is how many fields of the entry before are kept.
	wLastFields = 64
	// wSeldom is after how many changes in a row a field is not kept to be compared any
	// more, but for once in as many.
	wSeldom = 16
	// wRecent is how many entries are kept to be linked later, at most.
	wRecent = 4096
)

// wCarry is what is to be linked to the fields of the entry before.
type wCarry struct {
	last   []wLast       // by the place of a field
	before []entry.Field // of the entry before, if they are still what they were
	places int           // how many fields the entry before had, if they may be carried
	turn   uint64        // entries built
	recent []wRef        // the latest of them
	owes   int           // links
}

// recall sorts the fields of an entry: into m.probes come those that are not carried.
// What was carried and is not any more is linked.
func (m *wMem) recall(fields []entry.Field) {
	m.probes = m.probes[:0]
	for i, f := range fields {
		if i >= len(m.last) {
			m.probes = append(m.probes, wProbe{place: i})
			continue
		}
		l := &m.last[i]
		same := l.whole && (i < len(m.before) && isThat(f, m.before[i]) || string(l.payload) == string(f))
		if same && i < m.places && m.turn < l.until {
			continue
		}
		if i < m.places {
			m.settle(l)
		}
		p := wProbe{place: i}
		if same {
			p.same, p.id, l.changes = true, l.id, 0
		} else if n := int(l.name); l.field != 0 && len(f) > n && f[n] == '=' && string(f[:n]) == string(l.payload[:n]) {
			p.field, p.name = l.field, l.name
		}
		m.probes = append(m.probes, p)
	}
	for i := len(fields); i < m.places; i++ {
		m.settle(&m.last[i])
	}
}

// isThat tells whether two fields are the same bytes, in the same place of memory.
func isThat(a, b entry.Field) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// remember keeps the field f of an entry at hand for the next, with what p and its
// record d say of it.
func (m *wMem) remember(f entry.Field, p *wProbe, d *wData) {
	if p.place >= len(m.last) {
		if p.place >= wLastFields {
			return
		}
		m.last = append(m.last, make([]wLast, p.place+1-len(m.last))...)
	}
	l := &m.last[p.place]
	keep := min(len(f), wLastMax)
	if l.changes++; l.changes > wSeldom && l.changes%wSeldom != 0 && p.name > 0 {
		keep = min(keep, int(p.name)) // such as a message, which is not repeated mostly
	}
	l.whole = keep == len(f)
	l.payload = append(l.payload[:0], f[:keep]...)
	l.id, l.field, l.name = p.id, p.field, p.name
	l.item, l.jenkins = p.item, d.jenkins
}

// carry links an entry of n fields to those in m.probes, in the order of their
// offsets, and takes note that it is to be linked to the others.
func (m *wMem) carry(ref wRef, n int) {
	if m.owes == 0 {
		m.recent = m.recent[:0]
	}
	m.recent = append(m.recent, ref)
	m.turn++
	m.owes += n - len(m.probes)
	m.items = m.items[:0]
	for i := range m.probes {
		m.items = append(m.items, m.probes[i].item)
	}
	sortItems(m.items)
	m.linkItems(ref)
	for i := range m.probes {
		if p := &m.probes[i]; p.place < len(m.last) {
			m.last[p.place].from(m.turn, m.data.at(p.id))
		}
	}
	m.places = min(n, wLastFields)
	if len(m.recent) >= wRecent {
		m.settleAll()
	}
}

// from says that the entries from a turn on are to be linked to it.
func (l *wLast) from(turn uint64, d *wData) {
	l.since, l.until = turn, turn+uint64(d.tailCap-d.tailN)
}

// settle links what a field owes.
func (m *wMem) settle(l *wLast) {
	n := int(m.turn - l.since)
	if n == 0 {
		return
	}
	d := m.data.at(l.id)
	m.linkSlots(d, m.recent[len(m.recent)-n:])
	m.touchData(l.id, d)
	m.owes -= n
	l.since = m.turn
}

// settleAll links what all fields owe.
func (m *wMem) settleAll() {
	for i := range m.places {
		m.settle(&m.last[i])
	}
}

// carryNone links an entry, which has a field twice, to its items, and has none
// carried to the next.
func (m *wMem) carryNone(ref wRef) {
	m.settleAll()
	m.places = 0
	m.turn++
	m.linkItems(ref)
}

// linkItems links an entry to m.items.
func (m *wMem) linkItems(ref wRef) {
	for _, it := range m.items {
		id := uint32(it)
		m.linkData(id, m.data.at(id), ref)
	}
}

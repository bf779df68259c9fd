package journal

import "github.com/tidemark-log/tidemark/entry"

// wLast is a field of the entry before. Most entries repeat most of the fields of
// that, at the same places: to compare them is less than to look them up.
type wLast struct {
	payload []byte // a copy, cut at wLastMax
	whole   bool   // payload is
	id      uint32 // its record
	field   uint32 // the record of its name, 0: not known
	name    uint32 // the length of its name, if that is known
}

// wLastMax bounds what is kept of a field, in bytes.
const wLastMax = 256

// recall tells whether the entry before had the field f at place i, and notes
// that in p, or at least the name if that was the same.
func (m *wMem) recall(i int, f entry.Field, p *wProbe) bool {
	if i >= len(m.last) {
		return false
	}
	l := &m.last[i]
	if l.whole && string(l.payload) == string(f) {
		p.id, p.same = l.id, true
		return true
	}
	if n := int(l.name); l.field != 0 && len(f) > n && f[n] == '=' && string(f[:n]) == string(l.payload[:n]) {
		p.field, p.name = l.field, l.name
	}
	return false
}

// remember keeps the field f of an entry at hand, at place i, for the next.
func (m *wMem) remember(i int, f entry.Field, p *wProbe) {
	if i >= len(m.last) {
		if i >= wLastFields {
			return
		}
		m.last = append(m.last, make([]wLast, i+1-len(m.last))...)
	}
	l := &m.last[i]
	l.whole = len(f) <= wLastMax
	l.payload = append(l.payload[:0], f[:min(len(f), wLastMax)]...)
	l.id, l.field, l.name = p.id, p.field, p.name
}

// wLastFields is how many fields of the entry before are kept.
const wLastFields = 64

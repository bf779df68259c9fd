package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Why an entry cannot be appended. They are found with errors.Is inside an
// *EntryError, after which the entries behind it may still be appended.
var (
	// ErrNoFields says that an entry has no fields.
	ErrNoFields = errors.New("entry has no fields")
	// ErrFieldName says that a field is not NAME=value with a valid name.
	ErrFieldName = errors.New("invalid field name")
	// ErrTime says that a time is 0 or 2^55 µs or more.
	ErrTime = errors.New("time out of range")
	// ErrOrder says that an entry's monotonic time is before that of the last
	// entry, of the same boot. A new file can take it.
	ErrOrder = errors.New("monotonic time goes backwards")
	// ErrSeqnum says that an entry with a number of its own (Options.KeepNumbers)
	// has one that is not behind that of the last entry.
	ErrSeqnum = errors.New("sequence number does not grow")
	// ErrTooLarge says that an entry does not fit into any file of this MaxSize.
	ErrTooLarge = errors.New("entry too large")
)

// EntryError says why an entry was refused. Nothing of it has been appended.
type EntryError struct {
	// Index of the entry among those given to Append.
	Index int
	// Field is the index of the field in question, -1 for none.
	Field int
	// Err is one of the sentinels beside this type.
	Err error
	// Detail says what was found, for people; may be empty.
	Detail string
}

// Error names the entry and the field by their index, and what is wrong.
func (e *EntryError) Error() string {
	s := fmt.Sprintf("append entry %d", e.Index)
	if e.Field >= 0 {
		s += fmt.Sprintf(" field %d", e.Field)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }

// errNoRoom is build's word for "not in this file".
var errNoRoom = errors.New("no room")

// wStamp is the time an entry is stored with.
type wStamp struct {
	realtime, monotonic uint64
	boot                entry.ID
}

// build appends e with all that journald would write for it: new DATA and FIELD
// objects, the ENTRY, arrays. With an error nothing has changed.
//
// It looks at the fields once to check them and to add up what they need, and
// once to append. Only what the first look did not find is looked up again,
// because an entry may have the same new field twice.
func (m *wMem) build(e *entry.Entry, s wStamp) error {
	if err := m.checkTime(s); err != nil {
		return err
	}
	if m.keeps && m.kept.seqnum <= m.hdr.TailEntrySeqnum {
		return &EntryError{Field: -1, Err: ErrSeqnum, Detail: fmt.Sprintf("%d after %d", m.kept.seqnum, m.hdr.TailEntrySeqnum)}
	}
	if m.dataBuckets.ends == nil {
		m.begin()
	}
	need, err := m.probe(e.Fields)
	if err != nil {
		return err
	}
	if m.end()+need > m.limit {
		if m.firstObject()+need > m.limit {
			return &EntryError{Field: -1, Err: ErrTooLarge, Detail: fmt.Sprintf("%d bytes", need)}
		}
		return errNoRoom
	}

	xor := m.compose(e.Fields)
	sortItems(m.items)
	all := len(m.items)
	m.items = slices.Compact(m.items)

	if m.keeps {
		m.hdr.TailEntrySeqnum, xor = m.kept.seqnum-1, m.kept.xor
	}
	ref := m.entryObject(s, xor)
	if m.ordered {
		m.fresh = append(m.fresh, ref)
	}
	m.linkMain(ref)
	if len(m.items) == all {
		m.carry(ref, len(e.Fields))
	} else {
		m.carryNone(ref)
	}
	return nil
}

// compose makes the items of an entry, with the objects of what is new, and returns its
// xor_hash.
func (m *wMem) compose(fields []entry.Field) (xor uint64) {
	m.items = m.items[:0]
	fresh := false // a new field was appended
	next := 0      // in m.probes
	for i, f := range fields {
		if next == len(m.probes) || m.probes[next].place != i {
			l := &m.last[i]
			xor ^= l.jenkins
			m.items = append(m.items, l.item)
			continue
		}
		p := &m.probes[next]
		next++
		if p.id == 0 && fresh {
			p.id = m.data.find(p.k0, p.k1) // the entry may have it twice
		}
		var d *wData
		if p.id == 0 {
			m.newData(p, f, m.largeField(i))
			d, fresh = m.data.at(p.id), true
		} else {
			d = m.data.at(p.id)
			m.noteDataDepth(d.pos) // as the search for it would have walked
		}
		xor ^= d.jenkins
		p.item = uint64(d.off)<<32 | uint64(p.id)
		m.items = append(m.items, p.item)
		if !p.same {
			m.remember(f, p, d)
		}
	}
	return xor
}

// checkTime refuses what journalctl --verify would complain about.
func (m *wMem) checkTime(s wStamp) error {
	h := &m.hdr
	switch {
	case s.realtime == 0 || s.realtime >= object.TimeLimit:
		return &EntryError{Field: -1, Err: ErrTime, Detail: fmt.Sprintf("realtime %d", s.realtime)}
	case s.monotonic >= object.TimeLimit:
		return &EntryError{Field: -1, Err: ErrTime, Detail: fmt.Sprintf("monotonic %d", s.monotonic)}
	case h.NEntries > 0 && s.monotonic < h.TailEntryMonotonic && s.boot == h.TailEntryBootID:
		return &EntryError{
			Field: -1, Err: ErrOrder,
			Detail: fmt.Sprintf("%d after %d", s.monotonic, h.TailEntryMonotonic),
		}
	}
	return nil
}

// probe checks fields and looks each of them up that is not carried from the entry
// before, into m.probes. It returns an upper bound of the bytes that the entry needs.
func (m *wMem) probe(fields []entry.Field) (need uint64, err error) {
	if len(fields) == 0 {
		return 0, &EntryError{Field: -1, Err: ErrNoFields}
	}
	need = object.Align8(object.EntryItems + uint64(len(fields))*m.entryItem)
	if m.hdr.TailEntryArrayNEntries >= m.main.cap {
		need += object.Align8(m.arraySize(nextCapacity(m.hdr.NEntries, uint64(m.main.cap), m.tight)))
	}
	m.recall(fields)
	for i := range m.probes {
		p := &m.probes[i]
		n, err := m.probeField(p, fields[p.place])
		if err != nil {
			return 0, err
		}
		need += n
	}
	return need, nil
}

// probeField looks the field f up.
func (m *wMem) probeField(p *wProbe, f entry.Field) (need uint64, err error) {
	l := m.largeField(p.place)
	if l != nil {
		p.k0, p.k1 = l.k.k0, l.k.k1
		p.id = m.data.find(p.k0, p.k1)
	} else if !p.same {
		k := m.key(f)
		p.k0, p.k1 = k.k0, k.k1
		p.id = m.data.find(p.k0, p.k1)
	}
	if p.id != 0 {
		if d := m.data.at(p.id); d.tailN >= d.tailCap && d.n > 0 {
			need = object.Align8(m.arraySize(nextCapacity(uint64(d.n)-1, uint64(d.tailCap), m.tight)))
		}
		return need, nil
	}
	if p.field == 0 {
		n := bytes.IndexByte(f, '=')
		if n < 0 || !entry.ValidName(f[:n], true) {
			return 0, &EntryError{Field: p.place, Err: ErrFieldName, Detail: fmt.Sprintf("%.80q", []byte(f))}
		}
		p.name = uint32(n)
	}
	if l != nil && l.hashed {
		p.jenkins, p.hash = l.jenkins, l.hash // before the lock was taken
	} else {
		p.jenkins, p.hash = m.hashes(f)
	}
	b := &m.dataBuckets
	if bucket := p.hash % uint64(len(b.ends)); b.isUsed(bucket) {
		p.end = b.ends[bucket]
	}
	return object.Align8(m.dataHead+uint64(len(f))) + object.Align8(object.FieldPayload+uint64(p.name)), nil
}

// entryObject appends an ENTRY of m.items and notes it in the header.
func (m *wMem) entryObject(s wStamp, xor uint64) wRef {
	h := &m.hdr
	r, b := m.object(object.Entry, object.EntryItems+uint64(len(m.items))*m.entryItem)
	h.TailEntrySeqnum++
	if h.HeadEntrySeqnum == 0 {
		h.HeadEntrySeqnum = h.TailEntrySeqnum
	}
	object.PutU64(b, object.EntrySeqnum, h.TailEntrySeqnum)
	object.PutU64(b, object.EntryRealtime, s.realtime)
	object.PutU64(b, object.EntryMonotonic, s.monotonic)
	copy(b[object.EntryBootID:], s.boot[:])
	object.PutU64(b, object.EntryXorHash, xor)
	b = b[object.EntryItems:]
	for i, it := range m.items {
		off := wRef(it >> 32).offset()
		if m.compact {
			object.PutU32(b, i*object.EntryItemSizeCompact, uint32(off))
		} else {
			object.PutU64(b, i*object.EntryItemSize, off)
			object.PutU64(b, i*object.EntryItemSize+8, m.data.at(uint32(it)).hash)
		}
	}
	if h.HeadEntryRealtime == 0 {
		h.HeadEntryRealtime = s.realtime
	}
	h.TailEntryRealtime = s.realtime
	h.TailEntryMonotonic = s.monotonic
	h.TailEntryBootID = s.boot
	h.TailEntryOffset = r.offset()
	return r
}

// firstObject is where the first object behind the hash tables goes in a new
// file of this size.
func (m *wMem) firstObject() uint64 {
	return object.Align8(m.hdr.HeaderSize) + 2*object.HashTableItems +
		(object.DataBuckets(m.limit)+object.DefaultFieldBuckets)*object.HashItemSize
}

// sortItems sorts the items of an entry. They come nearly sorted: most entries
// repeat the fields of others in the same order.
func sortItems(a []uint64) {
	if len(a) > 64 {
		slices.Sort(a)
		return
	}
	for i := 1; i < len(a); i++ {
		v, j := a[i], i
		for j > 0 && a[j-1] > v {
			a[j] = a[j-1]
			j--
		}
		a[j] = v
	}
}

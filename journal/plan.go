package journal

import (
	"errors"
	"slices"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// plan evaluates a Match in one file. Terms, and ANDs and ORs of them, are
// looked up in the hash table and walk the entry arrays of the DATA objects
// found, each jumping to where the others are. What has no index, NOT, is a
// condition on the entries so found.
type plan struct {
	indexed seeker
	scanned *filterSeeker // the same, reading every entry
	scan    bool          // ReadOptions.Scan
	broken  bool          // the index of the file is damaged

	gen   int    // File.generation that fresh is of
	fresh uint64 // offset from which on the index is not relied upon
}

// plan returns the evaluation of m in one file; nil when all entries match.
func (m Match) plan(scan bool) *plan {
	if m.op == matchAll {
		return nil
	}
	return &plan{
		indexed: newSeeker(m),
		scanned: &filterSeeker{base: &listSeeker{list: mainList{}}, cond: newCondition(m)},
		scan:    scan,
	}
}

// seek returns the offset of the first match at or behind off (down) or of the
// last at or before it (up); 0 when there is none.
func (p *plan) seek(f *File, off uint64, dir direction) (uint64, error) {
	fresh, err := p.freshFrom(f)
	if err != nil {
		return 0, err
	}
	p.scanned.floor = fresh
	if dir == up {
		if off >= fresh {
			if got, err := p.scanned.seek(f, off, up); got != 0 || err != nil || fresh == 0 {
				return got, err
			}
			off = fresh - 1
		}
		return p.seekIndex(f, off, up)
	}
	if off < fresh {
		if got, err := p.seekIndex(f, off, down); err != nil || got != 0 && got < fresh || fresh == ^uint64(0) {
			return got, err
		}
		if p.broken {
			return p.seek(f, off, down)
		}
		off = fresh
	}
	return p.scanned.seek(f, off, down)
}

// seekIndex is seek by the index; when that is damaged, by reading the entries.
func (p *plan) seekIndex(f *File, off uint64, dir direction) (uint64, error) {
	got, err := p.indexed.seek(f, off, dir)
	if err == nil || errors.Is(err, errRenumbered) {
		return got, err
	}
	f.warn(err)
	p.broken = true
	return p.seek(f, off, dir)
}

// indexLag is how old an entry is, in µs before the last one, that the writer of
// the file must have linked. tidemark's writer takes 250 ms, if the disk lets
// it.
const indexLag = 60e6

// freshFrom is the offset from which on entries are read and not looked up: those
// that a writer which has the file open may not have linked yet, if it says that
// there are such, or if that is asked for.
func (p *plan) freshFrom(f *File) (uint64, error) {
	switch {
	case p.broken || f.salvaged != nil:
		return 0, nil
	case f.hdr.State != StateOnline || !p.scan && !f.pending:
		return ^uint64(0), nil
	case p.gen == f.generation:
		return p.fresh, nil
	}
	var h entryHead
	off, err := f.lastEntry()
	if err != nil || off == 0 {
		return 0, err
	}
	if err := f.readHead(off, &h); err != nil {
		return 0, err
	}
	since := h.realtime - min(h.realtime, indexLag)
	i, err := f.bisect(down, func(h *entryHead) int { return cmpU64(h.realtime, since) })
	if err != nil || f.salvaged != nil {
		return 0, err
	}
	if i < f.Entries() {
		if off, err = f.entryAt(i); err != nil {
			return 0, err
		}
	}
	p.gen, p.fresh = f.generation, off
	return off, nil
}

// final reports whether entries of f that were passed over can not match later,
// when the writer of the file has written its index.
func (p *plan) final(f *File) bool {
	return p.scan || p.broken || f.salvaged != nil || f.hdr.State != StateOnline
}

// seeker walks the matches of one file.
type seeker interface {
	// seek is as plan.seek.
	seek(f *File, off uint64, dir direction) (uint64, error)
}

// condition is evaluated on one entry, by the DATA objects it refers to.
type condition interface {
	holds(f *File, items []uint64) (bool, error)
}

// indexable reports whether the files' index finds the matches of m.
func (m Match) indexable() bool {
	switch m.op {
	case matchTerm:
		return true
	case matchAnd:
		return slices.ContainsFunc(m.subs, Match.indexable)
	case matchOr:
		return !slices.ContainsFunc(m.subs, func(s Match) bool { return !s.indexable() })
	case matchAll, matchNot:
	}
	return false
}

func newSeeker(m Match) seeker {
	if !m.indexable() {
		return &filterSeeker{base: &listSeeker{list: mainList{}}, cond: newCondition(m)}
	}
	switch m.op {
	case matchAnd:
		and := &andSeeker{}
		var rest []Match
		for _, s := range m.subs {
			if s.indexable() {
				and.subs = append(and.subs, newSeeker(s))
			} else {
				rest = append(rest, s)
			}
		}
		if len(rest) == 0 {
			return and
		}
		return &filterSeeker{base: and, cond: newCondition(And(rest...))}
	case matchOr:
		or := &orSeeker{}
		for _, s := range m.subs {
			or.subs = append(or.subs, newSeeker(s))
		}
		return or
	case matchAll, matchTerm, matchNot:
	}
	return &termSeeker{term: term{payload: m.field}}
}

func newCondition(m Match) condition {
	switch m.op {
	case matchTerm:
		return &term{payload: m.field}
	case matchNot:
		return &notCondition{newCondition(m.subs[0])}
	case matchAnd, matchOr:
		l := &listCondition{any: m.op == matchOr}
		for _, s := range m.subs {
			l.subs = append(l.subs, newCondition(s))
		}
		return l
	case matchAll:
	}
	return &listCondition{} // holds
}

// term is one field looked up in one file.
type term struct {
	payload []byte
	hash    uint64
	ref     dataRef
	gen     int // File.generation of ref; 0: never
}

// resolve finds the DATA object, or reads again what its writer may have
// changed.
func (t *term) resolve(f *File) error {
	if t.gen == f.generation {
		return nil
	}
	var err error
	if t.ref.off == 0 {
		t.hash = f.hash(t.payload)
		_, err = f.lookup(t.payload, &t.ref)
	} else {
		err = f.reload(&t.ref)
	}
	if err != nil {
		t.ref = dataRef{}
		return err
	}
	t.gen = f.generation
	return nil
}

func (t *term) holds(f *File, items []uint64) (bool, error) {
	if f.salvaged == nil {
		if err := t.resolve(f); err != nil {
			f.warn(err)
			t.gen = f.generation // not found in the index until the next Refresh
		}
		if t.ref.off != 0 {
			return slices.Contains(items, t.ref.off), nil
		}
	}
	// Not in the index, or not yet: the entry itself tells.
	for _, off := range items {
		b, _, err := f.objectAt(off, object.Data, object.DataPayload)
		if err != nil {
			f.warn(err)
			continue
		}
		if f.salvaged == nil && object.U64(b, object.DataHash) != t.hash {
			continue
		}
		same, err := f.samePayload(off, object.Data, t.payload)
		if err != nil {
			f.warn(err)
		} else if same {
			return true, nil
		}
	}
	return false, nil
}

type notCondition struct{ sub condition }

func (c *notCondition) holds(f *File, items []uint64) (bool, error) {
	ok, err := c.sub.holds(f, items)
	return !ok && err == nil, err
}

type listCondition struct {
	any  bool // one of subs, else all
	subs []condition
}

func (c *listCondition) holds(f *File, items []uint64) (bool, error) {
	for _, s := range c.subs {
		if ok, err := s.holds(f, items); err != nil || ok == c.any {
			return ok, err
		}
	}
	return !c.any, nil
}

// termSeeker walks the entries of one DATA object.
type termSeeker struct {
	term
	walk listSeeker
}

func (s *termSeeker) seek(f *File, off uint64, dir direction) (uint64, error) {
	if err := s.resolve(f); err != nil {
		return 0, err
	}
	if s.ref.off == 0 || s.ref.n == 0 {
		return 0, nil
	}
	// The links may be ahead of the header's count, as of when it was read.
	last, err := f.lastEntry()
	if err != nil {
		return 0, err
	}
	if dir == up {
		off = min(off, last)
	}
	s.walk.list = &s.ref
	if s.walk.limit = 0; f.hdr.State == StateArchived {
		s.walk.limit = last
	}
	got, err := s.walk.seek(f, off, dir)
	if got > last {
		got = 0
	}
	return got, err
}

// listSeeker walks a list of entries. It remembers the place, since the next
// one is mostly near.
type listSeeker struct {
	list  entryList
	pos   uint64
	used  bool
	limit uint64 // offset behind which no entry can be; 0: none
}

func (s *listSeeker) seek(f *File, off uint64, dir direction) (uint64, error) {
	n := s.list.length(f)
	if !s.used && n > 0 && dir == up {
		s.pos = n - 1
	}
	s.used = true
	// The first entry whose offset is not below off, or is above it going up.
	i, err := s.bound(f, n, off, dir)
	if err == nil && i >= n {
		err = s.list.checkEnd(f)
	}
	if err != nil {
		return 0, err
	}
	if dir == up {
		if i == 0 {
			return 0, nil
		}
		i--
	}
	if i >= n {
		return 0, nil
	}
	s.pos = i
	got, err := s.list.offset(f, i)
	if err == nil && (got == 0 || got != off && (got > off) != (dir == down)) {
		return 0, disordered(f, got)
	}
	return got, err
}

func disordered(f *File, off uint64) error {
	return f.errorf(off, ErrCorrupt, "entry array is not in order")
}

// bound returns the number of entries with an offset below off (down), or not
// above it (up), searching outwards from where it was last.
func (s *listSeeker) bound(f *File, n, off uint64, dir direction) (uint64, error) {
	var failed error
	var at uint64
	below := func(i uint64) bool {
		var err error
		if at, err = s.list.offset(f, i); err != nil {
			failed = err
		} else if at > s.limit && s.limit != 0 {
			failed = disordered(f, at)
		}
		return at < off || at == off && dir == up
	}
	lo, hi := uint64(0), n // the answer is in [lo, hi]
	if p := s.pos; p < n {
		if below(p) {
			lo = p + 1
			before := at
			for step := uint64(1); lo+step <= hi && failed == nil; step *= 2 {
				found := !below(lo + step - 1)
				if at <= before && failed == nil {
					failed = disordered(f, at) // else it would be passed over
				}
				if found {
					hi = lo + step - 1
					break
				}
				lo, before = lo+step, at
			}
		} else {
			hi = p
			behind := at
			for step := uint64(1); step <= hi-lo && failed == nil; step *= 2 {
				found := below(hi - step)
				if at >= behind && failed == nil {
					failed = disordered(f, at)
				}
				if found {
					lo = hi - step + 1
					break
				}
				hi, behind = hi-step, at
			}
		}
	}
	for lo < hi && failed == nil {
		mid := lo + (hi-lo)/2
		if below(mid) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, failed
}

type andSeeker struct{ subs []seeker }

func (s *andSeeker) seek(f *File, off uint64, dir direction) (uint64, error) {
	agreed := 0
	for i := 0; agreed < len(s.subs); i = (i + 1) % len(s.subs) {
		got, err := s.subs[i].seek(f, off, dir)
		if err != nil || got == 0 {
			return 0, err
		}
		if got == off {
			agreed++
			continue
		}
		if (got > off) != (dir == down) {
			return 0, disordered(f, got)
		}
		off, agreed = got, 1
	}
	return off, nil
}

type orSeeker struct{ subs []seeker }

func (s *orSeeker) seek(f *File, off uint64, dir direction) (uint64, error) {
	best := uint64(0)
	for _, sub := range s.subs {
		got, err := sub.seek(f, off, dir)
		if err != nil {
			return 0, err
		}
		if got != 0 && (best == 0 || (got < best) == (dir == down)) {
			best = got
		}
		if best == off {
			break
		}
	}
	return best, nil
}

// filterSeeker passes over entries for which a condition does not hold.
type filterSeeker struct {
	base  seeker
	cond  condition
	floor uint64 // offset below which it does not look
	fs    fields
}

func (s *filterSeeker) seek(f *File, off uint64, dir direction) (uint64, error) {
	for {
		got, err := s.base.seek(f, off, dir)
		if err != nil || got < s.floor {
			return 0, err
		}
		if got == 0 {
			return 0, nil
		}
		ok, err := s.accept(f, got)
		if err != nil {
			return 0, err
		}
		if ok {
			return got, nil
		}
		off = got + uint64(dir)
	}
}

func (s *filterSeeker) accept(f *File, off uint64) (bool, error) {
	var h entryHead
	err := f.readHead(off, &h)
	if err == nil {
		err = f.readItems(&h, &s.fs)
	}
	if err != nil {
		if f.salvaged == nil {
			return false, err
		}
		f.warn(err)
		return false, nil
	}
	return s.cond.holds(f, s.fs.items)
}

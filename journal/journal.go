package journal

import (
	"errors"
	"io"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
)

// Journal is several journal files in one order, without duplicates. It is
// positioned before the first entry to begin with. A Journal is not safe for
// concurrent use, and starts no goroutine.
//
// Next and Previous return what the files hold as of their opening or the last
// Refresh. The order is that of sd-journal: entries of one sequence by sequence
// number, of one boot by monotonic time, all others by realtime. Entries that
// are equal in all of these are delivered once.
//
// An entry that a growing file receives later than other files their newer ones
// is delivered nevertheless, late; sd-journal loses it.
type Journal struct {
	opts    ReadOptions
	files   []*cursor
	limbo   []*cursor // removed since the last Refresh; may come back under another name
	skipped []error

	shelves []shelf // files that are not open yet
	// shelvesBehind: what is on the shelves is before the present place.
	shelvesBehind bool
	ahead         aheadState
	aheadFrom     location // where reading forward has begun

	pool  *windowPool
	cache *dataCache
	dec   *blob.Decoder

	match   Match
	loc     location
	dir     direction
	heap    mergeHeap
	pending bool    // some cursor is fresh, or its file has grown
	current *cursor // of the entry that was delivered last, until it is advanced
	// delivered tells the last sequence numbers of files that are gone.
	delivered map[entry.ID]uint64
	caught    uint64 // realtime of the place where the end was met last; 0: never

	e    entry.Entry
	fs   fields
	want *wanted // fields to deliver; nil: all
}

// Open opens journal files, to be read by pread. Files that cannot be opened
// are collected in Skipped; it fails when there is no file at all that can.
func Open(paths []string) (*Journal, error) { return ReadOptions{}.Open(paths) }

// Open is Open with options.
func (o ReadOptions) Open(paths []string) (*Journal, error) {
	j := o.New()
	for _, p := range paths {
		if err := j.Add(p); err != nil {
			j.skipped = append(j.skipped, err)
		}
	}
	if len(j.files) == 0 && len(j.skipped) > 0 {
		return nil, errors.Join(j.skipped...)
	}
	return j, nil
}

// New returns a Journal without files.
func (o ReadOptions) New() *Journal {
	j := &Journal{
		opts:  o,
		pool:  &windowPool{max: poolWindows},
		cache: &dataCache{},
		dec:   &blob.Decoder{},
		dir:   down,
	}
	j.SeekHead()
	return j
}

// AddFile adds an open file, which the Journal closes from then on.
func (j *Journal) AddFile(f *File) {
	f.setPool(j.pool)
	f.dec = j.dec
	f.useCache(j.cache)
	c := &cursor{f: f, late: j.loc.kind == atEntry || j.caught > 0}
	c.plan = j.match.plan(j.opts.Scan)
	j.files = append(j.files, c)
	j.renumber()
	j.pending = true
}

// renumber notes the order of the files.
func (j *Journal) renumber() {
	for i, c := range j.files {
		c.index = i
	}
}

// Close closes all files.
func (j *Journal) Close() error {
	var errs []error
	for _, c := range slices.Concat(j.files, j.limbo) {
		errs = append(errs, c.f.Close())
	}
	j.files, j.limbo, j.heap.list, j.current = nil, nil, nil, nil
	return errors.Join(errs...)
}

// Files returns the files that are being read.
func (j *Journal) Files() []*File {
	out := make([]*File, 0, len(j.files))
	for _, c := range j.files {
		out = append(out, c.f)
	}
	return out
}

// Skipped returns the errors of files, and directories, that could not be
// opened.
func (j *Journal) Skipped() []error { return slices.Clone(j.skipped) }

// Warnings returns what was found damaged in the files so far.
func (j *Journal) Warnings() []error {
	var out []error
	for _, c := range j.files {
		out = append(out, c.f.Warnings()...)
	}
	return out
}

// SetMatch makes Next and Previous deliver only entries that match, from the
// present place on. The zero Match matches all.
func (j *Journal) SetMatch(m Match) {
	j.match = m
	for _, c := range slices.Concat(j.files, j.limbo) {
		c.plan = m.plan(j.opts.Scan)
	}
	j.detach()
}

// detach forgets the places in all files; they are found anew from j.loc.
func (j *Journal) detach() {
	for _, c := range slices.Concat(j.files, j.limbo) {
		c.state, c.late, c.pos = stateFresh, false, 0
		c.head, c.rest = entryHead{}, nil
	}
	clear(j.heap.list)
	j.heap.list = j.heap.list[:0]
	j.current = nil
	j.pending = true
	if j.ahead == aheadNow {
		j.ahead, j.shelvesBehind = aheadDone, false
	}
}

func (j *Journal) seek(loc location) {
	j.loc = loc
	j.caught, j.delivered, j.shelvesBehind = 0, nil, false
	j.detach()
	j.seekAhead()
	for _, c := range j.files {
		c.seq = 0
	}
}

// SeekHead goes before the first entry.
func (j *Journal) SeekHead() { j.seek(location{kind: atHead}) }

// SeekTail goes behind the last entry there is now. Next then returns io.EOF
// until a file has grown.
func (j *Journal) SeekTail() { j.seek(location{kind: atTail}) }

// SeekRealtime goes to a time in µs since 1970: Next returns the first entry at
// or after it, Previous the last at or before it.
func (j *Journal) SeekRealtime(usec uint64) {
	j.seek(location{kind: atSeek, has: entry.HasRealtime, entryHead: entryHead{realtime: usec}})
}

// SeekMonotonic goes to a time in µs since a boot began, as SeekRealtime does.
// Files that have no entry of that boot are read from their beginning (Next) or
// end (Previous), as sd-journal does.
func (j *Journal) SeekMonotonic(boot entry.ID, usec uint64) {
	j.seek(location{
		kind: atSeek, has: entry.HasBootID | entry.HasMonotonic,
		entryHead: entryHead{boot: boot, monotonic: usec},
	})
}

// SeekCursor goes to a cursor: Next returns the entry it names or, when that is
// gone, the first behind its place; Previous likewise. In each file the place is
// found by sequence number if the file is of that sequence, else by boot and
// monotonic time if it has that boot, else by realtime.
func (j *Journal) SeekCursor(c entry.Cursor) {
	j.seek(location{
		kind: atSeek, has: c.Has, seqnumID: c.SeqnumID,
		entryHead: entryHead{
			seqnum: c.Seqnum, boot: c.BootID, monotonic: c.Monotonic,
			realtime: c.Realtime, xorHash: c.XorHash,
		},
	})
}

// Next returns the next entry, or io.EOF when there is none; a later call may
// find one, after Refresh. The entry and all it refers to are valid until the
// next call of a method that moves. What is damaged, or cannot be read, is passed
// over and told by Warnings.
func (j *Journal) Next() (*entry.Entry, error) { return j.move(down) }

// Previous returns the entry before, or io.EOF when there is none; else as Next.
func (j *Journal) Previous() (*entry.Entry, error) { return j.move(up) }

// All returns an iterator over Next until the end.
func (j *Journal) All() iter.Seq2[*entry.Entry, error] { return j.each(down) }

// Backward returns an iterator over Previous until the beginning.
func (j *Journal) Backward() iter.Seq2[*entry.Entry, error] { return j.each(up) }

func (j *Journal) each(dir direction) iter.Seq2[*entry.Entry, error] {
	return func(yield func(*entry.Entry, error) bool) {
		for {
			e, err := j.move(dir)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Skip moves n entries on, backwards when n is negative, without reading their
// fields, and returns how many it has moved: fewer where the journal ends, which
// is no error. Other errors are those of Next.
func (j *Journal) Skip(n int) (int, error) {
	dir := down
	if n < 0 {
		dir, n = up, -n
	}
	for i := range n {
		if err := j.guarded((*Journal).pick, dir); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return i, err
		}
	}
	return n, nil
}

func (j *Journal) move(dir direction) (*entry.Entry, error) {
	if err := j.guarded((*Journal).moveTo, dir); err != nil {
		return nil, err
	}
	return &j.e, nil
}

func (j *Journal) moveTo(dir direction) error {
	for {
		if err := j.pick(dir); err != nil {
			return err
		}
		if j.fill() {
			return nil
		}
	}
}

// pick moves to the next entry in direction dir.
func (j *Journal) pick(dir direction) error {
	if dir != j.dir {
		j.detach()
	}
	j.dir, j.heap.dir = dir, dir
	if c := j.current; c != nil {
		j.current = nil
		j.advanceTop()
	}
	if j.pending {
		j.prepareAll()
	}
	for {
		for j.shelvesReady(dir) {
			j.prepareAll()
		}
		if len(j.heap.list) == 0 {
			break
		}
		c := j.heap.list[0]
		if j.loc.kind == atEntry && compareHeads(&c.head, &c.f.hdr.SeqnumID, &j.loc.entryHead, &j.loc.seqnumID) == 0 {
			j.advanceTop()
			continue
		}
		j.current = c
		c.seq = c.head.seqnum
		j.loc.kind = atEntry
		j.loc.has = entry.HasSeqnumID | entry.HasSeqnum | entry.HasBootID | entry.HasMonotonic | entry.HasRealtime | entry.HasXorHash
		j.loc.entryHead = c.head
		j.loc.seqnumID = c.f.hdr.SeqnumID
		return nil
	}
	if dir == down {
		j.noteEnd()
	}
	return io.EOF
}

// noteEnd remembers the place at which there was nothing newer.
func (j *Journal) noteEnd() {
	j.caught = 1
	if j.loc.kind == atEntry {
		j.caught = max(j.loc.realtime, 1)
		return
	}
	for _, c := range j.files {
		j.caught = max(j.caught, c.f.hdr.TailEntryRealtime)
	}
}

// advanceTop moves the cursor at the top of the heap on.
func (j *Journal) advanceTop() {
	c := j.heap.list[0]
	if err := c.advance(j.dir); err != nil {
		j.kill(c, err)
	}
	if c.state == stateCandidate {
		j.heap.fix()
		return
	}
	j.heap.pop()
	if rest := c.rest; len(rest) > 0 {
		c.rest = nil
		j.startChain(rest)
	}
}

// kill gives a file up. Its entries so far have been delivered.
func (j *Journal) kill(c *cursor, err error) {
	c.f.warn(err)
	c.state = stateDead
}

// prepare finds the first entry of a file beyond the present place.
func (j *Journal) prepare(c *cursor) error {
	loc := j.loc
	switch {
	case c.state == stateDeferred:
		loc = c.from
	case c.late && j.dir == down:
		loc = j.lateLocation(c)
	}
	if err := c.place(&loc, j.dir); err != nil {
		return err
	}
	if loc.kind != atEntry {
		return nil
	}
	for c.state == stateCandidate {
		k := compareHeads(&c.head, &c.f.hdr.SeqnumID, &loc.entryHead, &loc.seqnumID)
		if k > 0 && j.dir == down || k < 0 && j.dir == up {
			return nil
		}
		if err := c.advance(j.dir); err != nil {
			return err
		}
	}
	return nil
}

// lateEntries is how much older, in µs, the first entries of a file may be than
// what was read when it appeared.
const lateEntries = 10e6

// lateLocation is where a file is read from that was added while the others
// were being read: behind what was delivered of its sequence, by other files;
// else from where the end was met, and a little before, since its entries may be
// older than what was delivered then.
func (j *Journal) lateLocation(c *cursor) location {
	seq := j.delivered[c.f.hdr.SeqnumID]
	for _, o := range j.files {
		if o.f.hdr.SeqnumID == c.f.hdr.SeqnumID {
			seq = max(seq, o.seq)
		}
	}
	switch {
	case seq > 0:
		return location{
			kind: atSeek, has: entry.HasSeqnumID | entry.HasSeqnum,
			seqnumID: c.f.hdr.SeqnumID, entryHead: entryHead{seqnum: seq + 1},
		}
	case j.caught > 1:
		since := j.caught - min(j.caught, lateEntries)
		return location{kind: atSeek, has: entry.HasRealtime, entryHead: entryHead{realtime: since}}
	case j.caught == 1:
		return location{kind: atHead}
	default:
		return j.loc
	}
}

// fill reads the fields of the entry that was picked. It reports false when
// there is nothing left of it.
func (j *Journal) fill() bool {
	c := j.current
	j.fs.trim()
	if err := c.f.readFields(&c.head, &j.fs, j.want); err != nil {
		c.f.warn(err)
		c.f.unread++
		return false
	}
	if len(j.fs.list) == 0 && (j.want == nil || len(j.fs.items) == j.fs.bad) {
		c.f.unread++
		return false
	}
	c.f.badFields += uint64(j.fs.bad)
	j.setEntry(c)
	return true
}

// setEntry makes the entry of c, with the fields that were read, the one to deliver.
func (j *Journal) setEntry(c *cursor) {
	h := &c.head
	j.e = entry.Entry{
		Fields: j.fs.list, Realtime: h.realtime, Monotonic: h.monotonic, BootID: h.boot,
		Seqnum: h.seqnum, SeqnumID: c.f.hdr.SeqnumID, XorHash: h.xorHash,
	}
}

// Current returns the place of the entry delivered last, with its cursor's
// components only. It reports false before the first.
func (j *Journal) Current() (entry.Cursor, bool) {
	if j.loc.kind != atEntry {
		return entry.Cursor{}, false
	}
	l := &j.loc
	return entry.Cursor{
		SeqnumID: l.seqnumID, Seqnum: l.seqnum, BootID: l.boot, Monotonic: l.monotonic,
		Realtime: l.realtime, XorHash: l.xorHash, Has: l.has,
	}, true
}

// guarded runs fn, which reads files that may be mapped.
func (j *Journal) guarded(fn func(*Journal, direction) error, dir direction) error {
	if !j.opts.Map {
		return fn(j, dir)
	}
	for {
		err := j.caughtFault(fn, dir)
		if err != errFault || !j.afterFault() { //nolint:errorlint // never wrapped
			return err
		}
	}
}

func (j *Journal) caughtFault(fn func(*Journal, direction) error, dir direction) (err error) {
	defer endFault(debug.SetPanicOnFault(true), &err)
	return fn(j, dir)
}

// afterFault stops reading those files through mappings that have become
// shorter, else all of them, and has all places found anew. It reports false
// when there was none.
func (j *Journal) afterFault() bool {
	mapped := false
	for _, all := range []bool{false, true} {
		for _, c := range j.files {
			if c.f.m != nil && (all || c.f.size() < int64(len(c.f.m))) {
				c.f.afterFault()
				mapped = true
			}
		}
		if mapped {
			break
		}
	}
	j.detach()
	return mapped
}

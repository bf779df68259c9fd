package journal

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// Query says which entries are wanted, in which direction, and what of them. It is
// a value: it may be copied, kept and run any number of times. The zero Query is
// all entries, oldest first.
//
// An entry is delivered when it passes everything that is set, and only then.
type Query struct {
	// Match that entries must have. The zero Match is all.
	Match Match
	// Since and Until bound the realtime of entries, both included, to the µs. The
	// zero time is no bound. Reading begins at one of them, as SeekRealtime finds
	// it, and ends at the first entry beyond the other, as journalctl's does: where
	// the clock was set back, entries behind that one are not looked for.
	Since, Until time.Time
	// BootID limits entries to a boot, by the field _BOOT_ID as `journalctl -b`
	// does; BootAt and Boots know which there are. Zero: all boots.
	BootID entry.ID
	// Reverse delivers the newest first.
	Reverse bool

	// Limit is how many entries are delivered at most; 0 or less: all. They are
	// those that journalctl -n means: the newest ones, in the order asked for, and
	// the first ones from where Cursor, or without Reverse Since, says to begin.
	Limit int
	// Oldest has Limit count from the oldest entry, as -n +N does. With Reverse it
	// does nothing.
	Oldest bool

	// Cursor is where to begin, at the entry that it names or, when that is gone,
	// at the next one in the direction of reading; see SeekCursor. A cursor without
	// components (Has) is none.
	Cursor entry.Cursor
	// After begins behind the entry that Cursor names, for who has seen it.
	After bool

	// Fields are the names of the fields to deliver; see SetFields. None: all.
	Fields []string
	// Keep is called with each entry that passes all else, and reports whether it
	// is wanted; nil: each is. It sees the Fields that are delivered, borrows the
	// entry, and must not move the Journal. To count the newest it is called for
	// them twice.
	Keep func(e *entry.Entry) bool
}

// Query returns an iterator over the entries that q asks for, of those that the
// files hold as of their opening or the last Refresh. Each is valid until the next
// one, as those of Next; what is damaged is passed over and told by Warnings. It
// ends with the error of ctx, or one of Next, when there is one.
//
// Every use of the iterator begins anew. It moves the Journal and sets its match
// and fields, which stay as they are at its end: after Refresh, Next goes on where
// it was, among the entries of q.Match and q.BootID.
func (j *Journal) Query(ctx context.Context, q Query) iter.Seq2[*entry.Entry, error] {
	return func(yield func(*entry.Entry, error) bool) {
		r := newQueryRun(j, &q)
		e, err := r.first(ctx)
		for ; err == nil; e, err = r.next(ctx) {
			if !yield(e, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

// queryRun is one use of an iterator.
type queryRun struct {
	j            *Journal
	q            *Query
	dir          direction
	since, until uint64 // both included
	left         int    // entries still to deliver; less than 0: any number
	// counted: there are left entries, so reading does not end at a bound.
	counted bool
}

func newQueryRun(j *Journal, q *Query) *queryRun {
	r := &queryRun{j: j, q: q, dir: down, until: math.MaxUint64, left: -1}
	if q.Reverse {
		r.dir = up
	}
	if q.Limit > 0 {
		r.left = q.Limit
	}
	if !q.Since.IsZero() {
		r.since = ceilMicro(q.Since)
	}
	if !q.Until.IsZero() {
		r.until = floorMicro(q.Until)
	}
	m := q.Match
	if !q.BootID.IsZero() {
		m = And(Term(append([]byte("_BOOT_ID="), q.BootID.String()...)), m)
	}
	j.SetMatch(m)
	j.SetFields(q.Fields...)
	return r
}

// floorMicro is the last µs that is not after t, at least 0: no entry has that time.
func floorMicro(t time.Time) uint64 {
	switch {
	case t.Before(time.Unix(0, 0)):
		return 0
	case t.Unix() > math.MaxInt64/1_000_000:
		return math.MaxUint64
	default:
		return uint64(t.Unix())*1_000_000 + uint64(t.Nanosecond()/1000)
	}
}

// ceilMicro is the first µs that is not before t.
func ceilMicro(t time.Time) uint64 {
	if t.Before(time.Unix(0, 0)) {
		return 0
	}
	usec := floorMicro(t)
	if t.Nanosecond()%1000 > 0 && usec < math.MaxUint64 {
		usec++
	}
	return usec
}

// first goes to where the query begins and returns its first entry.
func (r *queryRun) first(ctx context.Context) (*entry.Entry, error) {
	q, j := r.q, r.j
	switch {
	case q.Cursor.Has != 0:
		j.SeekCursor(q.Cursor)
		if q.After {
			return r.behind(ctx)
		}
	case q.Reverse && !q.Until.IsZero():
		j.SeekRealtime(r.until)
	case q.Reverse:
		j.SeekTail()
	case !q.Since.IsZero():
		j.SeekRealtime(r.since)
	case q.Limit > 0 && !q.Oldest:
		return r.newest(ctx)
	default:
		j.SeekHead()
	}
	return r.next(ctx)
}

// behind passes over what the cursor names.
func (r *queryRun) behind(ctx context.Context) (*entry.Entry, error) {
	for {
		e, err := r.step(ctx, r.dir)
		if err != nil {
			return nil, err
		}
		if !r.q.Cursor.Match(e) {
			return r.from(ctx, e)
		}
	}
}

// newest goes back from the end by as many entries as are to be delivered, and
// returns the first of them.
func (r *queryRun) newest(ctx context.Context) (*entry.Entry, error) {
	if r.q.Until.IsZero() {
		r.j.SeekTail()
	} else {
		r.j.SeekRealtime(r.until)
	}
	r.counted = true
	for n := 0; n < r.q.Limit; {
		e, err := r.step(ctx, up)
		if errors.Is(err, io.EOF) {
			r.left = n
			r.j.SeekHead()
			return r.next(ctx)
		}
		if err != nil {
			return nil, err
		}
		if !r.wants(e) {
			continue
		}
		if n++; n == r.q.Limit {
			r.left--
			return e, nil
		}
	}
	return nil, io.EOF
}

// next returns the next entry that the query wants.
func (r *queryRun) next(ctx context.Context) (*entry.Entry, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	e, err := r.step(ctx, r.dir)
	if err != nil {
		return nil, err
	}
	return r.from(ctx, e)
}

// from returns e or the first behind it that the query wants.
func (r *queryRun) from(ctx context.Context, e *entry.Entry) (*entry.Entry, error) {
	for !r.wants(e) {
		if !r.counted && (r.dir == down && e.Realtime > r.until || r.dir == up && e.Realtime < r.since) {
			return nil, io.EOF
		}
		var err error
		if e, err = r.step(ctx, r.dir); err != nil {
			return nil, err
		}
	}
	r.left--
	return e, nil
}

func (r *queryRun) step(ctx context.Context, dir direction) (*entry.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.j.move(dir)
}

// wants reports whether e is to be delivered.
func (r *queryRun) wants(e *entry.Entry) bool {
	return e.Realtime >= r.since && e.Realtime <= r.until && (r.q.Keep == nil || r.q.Keep(e))
}

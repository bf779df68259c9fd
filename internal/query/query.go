// Package query finds entries in journal files as journalctl 252 does: by boot,
// unit, identifier, priority, time, cursor, field and pattern, with NOT in
// addition. It reads files only, at any time and from any process, and knows
// nothing of how entries are printed or how a change of a file is noticed: Show
// takes a Printer and a Follower for that.
//
// Values that users type are parsed here too, with journalctl's words for what
// is wrong with them.
package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// Options say which entries are wanted. Use Defaults: the zero value asks for
// none, since Lines and Priorities are numbers.
type Options struct {
	// Lines is the number of entries (-n), or LinesAll or LinesDefault.
	Lines int
	// Oldest counts Lines from the oldest entry (-n +N).
	Oldest bool
	// Reverse goes from the newest to the oldest (-r).
	Reverse bool
	// Follow waits for more at the end (-f).
	Follow bool
	// Since and Until bound the time, both included, in µs since 1970 (-S, -U).
	// They count when SinceSet and UntilSet are.
	Since, Until       uint64
	SinceSet, UntilSet bool
	// Cursor is where to begin (-c), AfterCursor where to begin behind
	// (--after-cursor); empty: neither.
	Cursor, AfterCursor string
	// CursorFile is read like AfterCursor, and Show writes the cursor of the last
	// entry to it (--cursor-file).
	CursorFile string
	// ShowCursor prints the cursor of the last entry at the end (--show-cursor).
	ShowCursor bool

	// Boot limits entries to a boot (-b).
	Boot Boot
	// ThisBoot is the boot that runs; zero when the files are not those of this
	// machine, and the last boot in them is meant instead.
	ThisBoot entry.ID
	// Kernel limits entries to those of the kernel (-k, with Boot set).
	Kernel bool
	// Units and UserUnits are names or globs (-u, --user-unit).
	Units, UserUnits []string
	// UID is the user whose units UserUnits are.
	UID int
	// Invocation limits entries to a run of the one unit in Units or UserUnits, or
	// to the one with an id (--invocation, -I).
	Invocation Invocation
	// Identifiers are values of SYSLOG_IDENTIFIER or globs (-t), NotIdentifiers
	// those that are not wanted (-T).
	Identifiers, NotIdentifiers []string
	// Priorities wanted (-p); AllPriorities does not filter.
	Priorities Priorities
	// Facilities are values of SYSLOG_FACILITY (--facility).
	Facilities []int
	// Matches are FIELD=value, FIELD!=value, + and paths, as typed.
	Matches []string
	// Pattern is looked for in MESSAGE (-g); nil: not.
	Pattern *Pattern

	// Merge shows no line between boots (-m), Quiet neither that nor
	// "-- No entries --" (-q).
	Merge, Quiet bool
}

// Defaults returns the options of a command line without any.
func Defaults() Options { return Options{Lines: LinesDefault, Priorities: AllPriorities} }

// Conflict refuses bounds and directions that do not go together. Call it when
// all are set, before Complete: journalctl looks at these first.
func (o *Options) Conflict() error {
	starts := 0
	for _, set := range []bool{o.SinceSet, o.Cursor != "", o.AfterCursor != ""} {
		if set {
			starts++
		}
	}
	switch {
	case o.SinceSet && o.UntilSet && o.Since > o.Until:
		return wordsf("--since= must be before --until=.")
	case starts > 1:
		return wordsf("Please specify only one of --since=, --cursor=, and --after-cursor=.")
	case o.Follow && o.Reverse:
		return wordsf("Please specify either --reverse= or --follow=, not both.")
	case o.Oldest && (o.Reverse || o.Follow):
		return wordsf("--lines=+N is unsupported when --reverse or --follow is specified.")
	}
	return nil
}

// Complete derives what options imply for each other and refuses what does not
// go together. Call it once, when all are set.
func (o *Options) Complete() error {
	if o.Follow && !o.SinceSet && o.Lines == LinesDefault {
		o.Lines = 10
	}
	switch {
	case o.Boot.Set && o.Merge:
		return wordsf("Using --boot or --list-boots with --merge is not supported.")
	case o.Invocation.unitless() && len(o.Units)+len(o.UserUnits) != 1:
		return wordsf("Using --invocation= with an offset wants one --unit= or --user-unit=.")
	}
	if o.Follow && !o.Merge && !o.Boot.Set {
		o.Boot = Boot{Set: true}
	}
	if o.Pattern != nil && o.Lines >= 0 && !o.Oldest && !o.Follow {
		// How many entries have to be read is not known: count backwards.
		o.Reverse = true
	}
	return nil
}

// wordsf makes an error in journalctl's words, which begin like sentences.
func wordsf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Query is one run over a journal. It is not safe for concurrent use.
type Query struct {
	j *journal.Journal
	o Options

	started bool
	// ready is the entry that start has stepped to and next has not returned.
	ready *entry.Entry
	// whole says that of entries only a few fields are read, until they are shown.
	whole bool
	// none is set when nothing can be shown (--after-cursor at the end).
	none bool
	// last is the cursor of the entry stepped to last; Has is 0 before.
	last entry.Cursor
}

// New prepares a run over j: it sets the match that o describes. j belongs to
// the Query until its end; closing it stays with the caller. Errors are in
// journalctl's words.
func New(j *journal.Journal, o Options) (*Query, error) {
	m, err := o.match(j)
	if err != nil {
		return nil, err
	}
	j.SetMatch(m)
	return &Query{j: j, o: o}, nil
}

// Entries iterates over what is there now: it ends where a follower would wait.
// Each entry is borrowed until the next one. The iteration ends early with the
// error of ctx, or of the journal.
func (q *Query) Entries(ctx context.Context) iter.Seq2[*entry.Entry, error] {
	return func(yield func(*entry.Entry, error) bool) {
		for shown := 0; q.o.Lines < 0 || shown < q.o.Lines; {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			e, err := q.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && !q.accepts(e) {
				continue
			}
			shown++
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Run is New and Entries in one.
func Run(ctx context.Context, j *journal.Journal, o Options) iter.Seq2[*entry.Entry, error] {
	return func(yield func(*entry.Entry, error) bool) {
		q, err := New(j, o)
		if err != nil {
			yield(nil, err)
			return
		}
		q.Entries(ctx)(yield)
	}
}

// Cursor returns the cursor of the entry that was reached last; ok is false when
// there was none.
func (q *Query) Cursor() (c entry.Cursor, ok bool) { return q.last, q.last.Has != 0 }

// accepts reports whether the pattern of -g is found in e.
func (q *Query) accepts(e *entry.Entry) bool {
	if q.o.Pattern == nil {
		return true
	}
	message, ok := e.Get("MESSAGE")
	return ok && q.o.Pattern.Match(message)
}

// next steps to the next entry in the direction and time range asked for;
// io.EOF when there is none, at least for now.
func (q *Query) next() (*entry.Entry, error) {
	if !q.started {
		q.started = true
		if err := q.start(); err != nil {
			return nil, err
		}
	}
	if q.none {
		return nil, io.EOF
	}
	e := q.ready
	q.ready = nil
	if e == nil {
		var err error
		if e, err = q.step(q.o.Reverse); err != nil {
			return nil, err
		}
	}
	if q.beyond(e.Realtime) {
		return nil, io.EOF
	}
	return e, nil
}

// beyond reports whether a time is behind the end of the time range.
func (q *Query) beyond(realtime uint64) bool {
	return q.o.UntilSet && !q.o.Reverse && realtime > q.o.Until ||
		q.o.SinceSet && q.o.Reverse && realtime < q.o.Since
}

// nextPlaces appends the places of the next entries to dst, at most n, without reading
// their fields. Fewer are the last.
func (q *Query) nextPlaces(dst []journal.Place, n int) ([]journal.Place, error) {
	if !q.started || q.none || q.ready != nil {
		if _, err := q.next(); errors.Is(err, io.EOF) {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
		p, _ := q.j.Place()
		dst, n = append(dst, p), n-1
	}
	if q.o.Reverse {
		n = -n
	}
	beyond := false
	begin := len(dst)
	dst, err := q.j.Places(dst, n, func(p *journal.Place) bool {
		beyond = (q.o.UntilSet || q.o.SinceSet) && q.beyond(p.Realtime())
		return beyond
	})
	if len(dst) > begin {
		e := dst[len(dst)-1].Entry()
		q.last = e.Cursor()
	}
	if beyond {
		dst = dst[:len(dst)-1]
	}
	if err != nil {
		err = wordsf("Failed to iterate through journal: %w", err)
	}
	return dst, err
}

// step reads one entry and notes its cursor.
func (q *Query) step(back bool) (e *entry.Entry, err error) {
	if back {
		e, err = q.j.Previous()
	} else {
		e, err = q.j.Next()
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = wordsf("Failed to iterate through journal: %w", err)
		}
		return nil, err
	}
	q.last = e.Cursor()
	return e, nil
}

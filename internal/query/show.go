package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
)

// Printer prints one entry; what it borrows from it ends with the call. If it has
// a method Fields() []string, it looks at the fields of these names only, unless
// there are none. If it has PrintKnown(e *entry.Entry, ids []uint64) error, that is
// called instead of Print, with the numbers of journal.Journal.FieldIDs.
type Printer interface {
	Print(e *entry.Entry) error
}

// Follower waits for more entries.
type Follower interface {
	// Wait returns when the files may have changed, having told the journal of
	// files that are new or gone, or with an error: the one of ctx when that is
	// done, io.EOF when nobody reads the output any more.
	Wait(ctx context.Context) error
}

// Output is where Show writes.
type Output struct {
	// W gets entries, by way of Printer, and the lines between them. Show
	// flushes it at its end and before it waits.
	W       *bufio.Writer
	Printer Printer
	// Bold makes the line between two boots stand out; nil: it does not.
	Bold func(line string) string
	// Fork, if it is set, returns a Formatter that formats as Printer prints, for
	// another goroutine. With it a long scan is shared by all processors.
	Fork func() (Formatter, error)
	// Follower is needed for Options.Follow only.
	Follower Follower
}

// ErrNoMatch says that -g was given and found nothing.
var ErrNoMatch = errors.New("no entry matches the pattern")

// ErrNoCursor says that a cursor was to be shown or kept and no entry was
// reached. journalctl ends with exit code 1 then and says nothing.
var ErrNoCursor = errors.New("no entry to take a cursor from")

// Show prints what q finds, with journalctl's lines between boots, for an empty
// result and for the cursor. With Follow it returns when ctx is done or the
// output is closed. It returns ErrNoMatch when a pattern was found nowhere,
// and ErrNoCursor.
func Show(ctx context.Context, q *Query, out Output) error {
	s := shower{q: q, out: out}
	s.prepare()
	err := s.run(ctx)
	if errors.Is(err, io.EOF) || q.o.Follow && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err == nil {
		err = s.finish()
	}
	if flushErr := out.W.Flush(); err == nil {
		err = flushErr
	}
	if err == nil && q.o.Pattern != nil && s.shown == 0 {
		return ErrNoMatch
	}
	return err
}

type shower struct {
	q     *Query
	out   Output
	known func(e *entry.Entry, ids []uint64) error // nil: Printer.Print

	shown    int
	waited   bool     // at least once: -n no longer counts
	anyBoot  bool     // boot is set
	boot     entry.ID // of the entry before
	line     []byte   // scratch
	examined int
}

// prepare has those fields read only that are needed.
func (s *shower) prepare() {
	if p, ok := s.out.Printer.(interface {
		PrintKnown(e *entry.Entry, ids []uint64) error
	}); ok {
		s.known = p.PrintKnown
	}
	var names []string
	if p, ok := s.out.Printer.(interface{ Fields() []string }); ok {
		names = p.Fields()
	}
	switch {
	case s.q.o.Pattern == nil, s.canShare(): // workers look at the message first
	case names == nil:
		names = []string{"MESSAGE"}
		s.q.whole = true
	case !slices.Contains(names, "MESSAGE"):
		names = append(names, "MESSAGE")
	}
	s.q.j.SetFields(names...)
}

// print prints an entry, of which perhaps only a few fields were read.
func (s *shower) print(e *entry.Entry) error {
	if s.q.whole {
		var err error
		e, err = s.q.j.Whole()
		switch {
		case errors.Is(err, io.EOF):
			return nil // its file became shorter
		case err != nil:
			return wordsf("Failed to iterate through journal: %w", err)
		}
	}
	if s.known != nil {
		return s.known(e, s.q.j.FieldIDs())
	}
	return s.out.Printer.Print(e)
}

// askEvery is the number of entries between two looks at the context.
const askEvery = 256

func (s *shower) run(ctx context.Context) error {
	for {
		pass := s.pass
		if s.canShare() {
			pass = s.passShared
		}
		if err := pass(ctx); err != nil {
			return err
		}
		if !s.q.o.Follow {
			if s.shown == 0 && !s.q.o.Quiet {
				_, err := s.out.W.WriteString("-- No entries --\n")
				return err
			}
			return nil
		}
		if err := s.out.W.Flush(); err != nil {
			return err
		}
		if err := s.out.Follower.Wait(ctx); err != nil {
			return err
		}
		s.waited = true
	}
}

// pass shows all that is there.
func (s *shower) pass(ctx context.Context) error {
	o := &s.q.o
	if o.Lines == 0 && !s.waited {
		// journalctl resolves the position all the same.
		if _, err := s.q.next(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	for o.Lines < 0 || s.shown < o.Lines || s.waited {
		if s.examined++; s.examined%askEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := s.q.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.separate(e); err != nil {
			return err
		}
		if !s.q.accepts(e) {
			continue
		}
		if err := s.print(e); err != nil {
			return err
		}
		s.shown++
	}
	return nil
}

// separate prints the line between two boots.
func (s *shower) separate(e *entry.Entry) error {
	line := s.appendSeparator(s.line[:0], e, s.anyBoot, s.boot)
	s.boot, s.anyBoot = e.BootID, true
	s.line = line
	if len(line) == 0 {
		return nil
	}
	_, err := s.out.W.Write(line)
	return err
}

// appendSeparator appends the line between two boots, if e is of another than
// boot, that of the entry before it, if there was any.
func (s *shower) appendSeparator(b []byte, e *entry.Entry, anyBoot bool, boot entry.ID) []byte {
	if !anyBoot || e.BootID == boot || s.q.o.Merge || s.q.o.Quiet {
		return b
	}
	line := "-- Boot " + e.BootID.String() + " --"
	if s.out.Bold != nil {
		line = s.out.Bold(line)
	}
	return append(append(b, line...), '\n')
}

// finish prints and keeps the cursor.
func (s *shower) finish() error {
	if !s.q.o.ShowCursor && s.q.o.CursorFile == "" {
		return nil
	}
	c, ok := s.q.Cursor()
	if !ok {
		return ErrNoCursor
	}
	if s.q.o.ShowCursor {
		if _, err := fmt.Fprintf(s.out.W, "-- cursor: %s\n", c); err != nil {
			return err
		}
	}
	if s.q.o.CursorFile == "" {
		return nil
	}
	if err := s.out.W.Flush(); err != nil {
		return err
	}
	return writeCursor(s.q.o.CursorFile, c)
}

// writeCursor replaces the file by one that holds c. A crash leaves the old
// file, the new one, or the old one and a temporary one beside it.
func writeCursor(path string, c entry.Cursor) (err error) {
	defer func() {
		if err != nil {
			err = wordsf("Failed to write new cursor to %s: %w", path, Reason(err))
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), ".#"+filepath.Base(path))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone once renamed
	_, err = f.WriteString(c.String() + "\n")
	if chmodErr := f.Chmod(0o644); err == nil {
		err = chmodErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

package query

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/tidemark-log/tidemark/entry"
)

// start finds the first entry and leaves it in ready.
func (q *Query) start() error {
	cursor, after, err := q.o.startCursor()
	if err != nil {
		return err
	}
	if cursor != "" {
		return q.startAtCursor(cursor, after)
	}
	back := q.o.Reverse
	switch {
	case q.o.SinceSet && !back:
		q.j.SeekRealtime(q.o.Since)
	case q.o.UntilSet && back:
		q.j.SeekRealtime(q.o.Until)
	case back:
		q.j.SeekTail()
	case q.o.Lines >= 0 && !q.o.Oldest:
		return q.startAtTail(q.o.Lines)
	default:
		q.j.SeekHead()
	}
	return q.skip(1, back, nil)
}

// startCursor returns the cursor to begin at, or behind.
func (o *Options) startCursor() (cursor string, after bool, err error) {
	cursor, after = o.Cursor, false
	if cursor == "" {
		cursor, after = o.AfterCursor, o.AfterCursor != ""
	}
	if o.CursorFile == "" {
		return cursor, after, nil
	}
	text, err := os.ReadFile(o.CursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, wordsf("Failed to read cursor file %s: %w", o.CursorFile, Reason(err))
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line != "" {
		return line, true, nil
	}
	return o.Cursor, false, nil
}

// startAtCursor begins at the cursor, or at the next entry but one: when the
// entry of an --after-cursor is gone, journalctl skips its neighbour.
func (q *Query) startAtCursor(text string, after bool) error {
	c, err := entry.ParseCursor(text)
	if err != nil && q.o.CursorFile != "" {
		return wordsf("Failed to seek to cursor: Invalid argument")
	}
	if err != nil {
		return &ArgumentError{"Failed to seek to cursor: Invalid argument", "want a cursor as --show-cursor prints it: s=…;i=…"}
	}
	q.j.SeekCursor(c)
	if !after {
		return q.skip(1, q.o.Reverse, nil)
	}
	var n int
	err = q.skip(2, q.o.Reverse, &n)
	if n < 2 {
		// The entry in hand is the one of the cursor itself. A follower goes on
		// behind it, everybody else is done.
		q.ready = nil
		q.none = !q.o.Follow
	}
	return err
}

// startAtTail goes back n entries from the end.
func (q *Query) startAtTail(n int) error {
	q.j.SeekTail()
	if n == 0 {
		// Nothing is shown, but --show-cursor tells where the end is.
		err := q.skip(1, true, nil)
		q.ready = nil
		return err
	}
	var got int
	if err := q.skip(n, true, &got); err != nil || got == 0 || got == n {
		return err
	}
	// There are fewer: the journal stands before its first entry now.
	q.j.SeekHead()
	return q.skip(1, false, nil)
}

// skip steps n times, or to the end, and leaves the last entry reached in
// ready. count, when given, says how many steps there were.
func (q *Query) skip(n int, back bool, count *int) error {
	for i := range n {
		e, err := q.step(back)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		q.ready = e
		if count != nil {
			*count = i + 1
		}
	}
	return nil
}

// strerror is a system call's error in the words of the C library.
type strerror struct{ err syscall.Errno }

func (e strerror) Error() string {
	text := e.err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

func (e strerror) Unwrap() error { return e.err }

// Reason strips the operation and path off an error of package os: journalctl
// names them itself, and says why in the C library's words. Other errors stay.
func Reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return strerror{errno}
	}
	return err
}

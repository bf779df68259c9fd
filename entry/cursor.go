package entry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// CursorParts says which components of a Cursor are present.
type CursorParts uint8

// The components of a cursor, by the letter that names them in its text.
const (
	HasSeqnumID  CursorParts = 1 << iota // s
	HasSeqnum                            // i
	HasBootID                            // b
	HasMonotonic                         // m
	HasRealtime                          // t
	HasXorHash                           // x

	hasAll = HasSeqnumID | HasSeqnum | HasBootID | HasMonotonic | HasRealtime | HasXorHash
)

// Cursor names a place in a journal. Components that are not in Has are
// ignored.
type Cursor struct {
	// SeqnumID and Seqnum are the exact place, in files of that sequence.
	SeqnumID ID
	Seqnum   uint64
	// BootID and Monotonic (µs) are the second choice.
	BootID    ID
	Monotonic uint64
	// Realtime (µs since 1970) is the last choice.
	Realtime uint64
	// XorHash tells entries with the same time apart.
	XorHash uint64
	// Has says which components are present.
	Has CursorParts
}

// ErrCursor is what every error of ParseCursor wraps.
var ErrCursor = errors.New("invalid cursor")

// Cursor returns the cursor of an entry that a reader has filled.
func (e *Entry) Cursor() Cursor {
	return Cursor{
		SeqnumID: e.SeqnumID, Seqnum: e.Seqnum,
		BootID: e.BootID, Monotonic: e.Monotonic,
		Realtime: e.Realtime, XorHash: e.XorHash,
		Has: hasAll,
	}
}

// String returns the text that journalctl prints for c.
func (c Cursor) String() string { return string(c.AppendTo(make([]byte, 0, 144))) }

// AppendTo appends the text of c to b: the present components in the order s,
// i, b, m, t, x, in lower-case hexadecimal without padding.
func (c Cursor) AppendTo(b []byte) []byte {
	start := len(b)
	id := func(has CursorParts, letter byte, v ID) {
		if c.Has&has == 0 {
			return
		}
		if len(b) > start {
			b = append(b, ';')
		}
		b = append(b, letter, '=')
		b = hex.AppendEncode(b, v[:])
	}
	number := func(has CursorParts, letter byte, v uint64) {
		if c.Has&has == 0 {
			return
		}
		if len(b) > start {
			b = append(b, ';')
		}
		b = append(b, letter, '=')
		b = strconv.AppendUint(b, v, 16)
	}
	id(HasSeqnumID, 's', c.SeqnumID)
	number(HasSeqnum, 'i', c.Seqnum)
	id(HasBootID, 'b', c.BootID)
	number(HasMonotonic, 'm', c.Monotonic)
	number(HasRealtime, 't', c.Realtime)
	number(HasXorHash, 'x', c.XorHash)
	return b
}

// ParseCursor reads the text of a cursor as sd_journal_seek_cursor does:
// unknown letters are ignored, and it must hold s and i, or b and m, or t.
// Errors wrap ErrCursor.
func ParseCursor(s string) (Cursor, error) {
	var c Cursor
	for word := range strings.SplitSeq(s, ";") {
		if len(word) < 2 || word[1] != '=' {
			return Cursor{}, fmt.Errorf("%w %q: want parts like s=…;i=…", ErrCursor, s)
		}
		if err := c.setPart(word[0], word[2:]); err != nil {
			return Cursor{}, fmt.Errorf("%w %q: %w", ErrCursor, s, err)
		}
	}
	has := func(parts CursorParts) bool { return c.Has&parts == parts }
	if !has(HasSeqnumID|HasSeqnum) && !has(HasBootID|HasMonotonic) && !has(HasRealtime) {
		return Cursor{}, fmt.Errorf("%w %q: want s and i, or b and m, or t", ErrCursor, s)
	}
	return c, nil
}

// setPart reads one component.
func (c *Cursor) setPart(letter byte, text string) (err error) {
	switch letter {
	case 's':
		c.SeqnumID, err = ParseID(text)
		c.Has |= HasSeqnumID
	case 'i':
		c.Seqnum, err = parseHex(text)
		c.Has |= HasSeqnum
	case 'b':
		c.BootID, err = ParseID(text)
		c.Has |= HasBootID
	case 'm':
		c.Monotonic, err = parseHex(text)
		c.Has |= HasMonotonic
	case 't':
		c.Realtime, err = parseHex(text)
		c.Has |= HasRealtime
	case 'x':
		c.XorHash, err = parseHex(text)
		c.Has |= HasXorHash
	}
	return err
}

// parseHex reads the hexadecimal digits text begins with, as scanf's %llx does:
// what follows them is ignored, and too large a number saturates.
func parseHex(text string) (uint64, error) {
	text = strings.TrimLeft(text, " \t\n")
	if len(text) > 2 && (text[:2] == "0x" || text[:2] == "0X") {
		text = text[2:]
	}
	n := 0
	for n < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[n]) >= 0 {
		n++
	}
	v, err := strconv.ParseUint(text[:n], 16, 64)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, strconv.ErrRange):
		return math.MaxUint64, nil
	default:
		return 0, fmt.Errorf("%q is not a hexadecimal number", text)
	}
}

// Match reports whether c names e. Only the present components are compared.
func (c Cursor) Match(e *Entry) bool {
	return (c.Has&HasSeqnumID == 0 || c.SeqnumID == e.SeqnumID) &&
		(c.Has&HasSeqnum == 0 || c.Seqnum == e.Seqnum) &&
		(c.Has&HasBootID == 0 || c.BootID == e.BootID) &&
		(c.Has&HasMonotonic == 0 || c.Monotonic == e.Monotonic) &&
		(c.Has&HasRealtime == 0 || c.Realtime == e.Realtime) &&
		(c.Has&HasXorHash == 0 || c.XorHash == e.XorHash)
}

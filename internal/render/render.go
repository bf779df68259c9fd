// Package render prints entries in every output mode of journalctl 252.
//
// The short family, verbose, cat and export are byte-equal to journalctl's;
// the json modes hold the same values with their keys in a fixed order, the
// one of entry.AppendJSON. A Printer appends into a buffer that it keeps, and
// allocates nothing per entry once the buffer has grown.
package render

import (
	"bufio"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// Mode is an output mode, a value of -o.
type Mode uint8

// The output modes.
const (
	Short Mode = iota
	ShortFull
	ShortISO
	ShortISOPrecise
	ShortPrecise
	ShortMonotonic
	ShortDelta
	ShortUnix
	Verbose
	Export
	JSON
	JSONPretty
	JSONSSE
	JSONSeq
	Cat
	WithUnit
)

var modeNames = [...]string{
	Short:           "short",
	ShortFull:       "short-full",
	ShortISO:        "short-iso",
	ShortISOPrecise: "short-iso-precise",
	ShortPrecise:    "short-precise",
	ShortMonotonic:  "short-monotonic",
	ShortDelta:      "short-delta",
	ShortUnix:       "short-unix",
	Verbose:         "verbose",
	Export:          "export",
	JSON:            "json",
	JSONPretty:      "json-pretty",
	JSONSSE:         "json-sse",
	JSONSeq:         "json-seq",
	Cat:             "cat",
	WithUnit:        "with-unit",
}

// Modes returns the names of all modes.
func Modes() []string { return slices.Clone(modeNames[:]) }

// ParseMode reads the name of a mode. Its error is the one of journalctl.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("Unknown output format '%s'.", name) //nolint:revive,staticcheck // journalctl's words
}

// String returns the name that ParseMode reads.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// IsJSON reports whether m is one of the json modes.
func (m Mode) IsJSON() bool { return m >= JSON && m <= JSONSeq }

// Quiet reports whether m is for other programs, so that nothing but entries
// may be printed: journalctl turns -q on for these.
func (m Mode) Quiet() bool { return m >= Export && m <= Cat }

// Options of a Printer. The zero value prints as journalctl does into a pipe.
type Options struct {
	// All prints every field whole, also long and unprintable ones (-a).
	All bool
	// NoFull cuts messages at three lines and at the width of the screen
	// (--no-full).
	NoFull bool
	// FirstLine prints of a message only what stands before its first newline, in
	// the short family (--truncate-newline).
	FirstLine bool
	// NoHostname leaves the host name out (--no-hostname).
	NoHostname bool
	// UTC prints times in UTC (--utc), else in Location.
	UTC bool
	// Location of the times printed; nil means time.Local.
	Location *time.Location
	// OutputFields limits verbose, export and the json modes to these fields,
	// and makes cat print them instead of MESSAGE (--output-fields). Empty: all.
	OutputFields []string
	// Columns is the width that NoFull cuts at; 0 means 80.
	Columns int
	// ASCII cuts with "..." instead of "…": the locale is not UTF-8.
	ASCII bool
	// Explain returns the text that explains an entry, without a last newline, for
	// the short family and verbose (-x); nil: nothing does. It may be called
	// concurrently.
	Explain func(e *entry.Entry) string
	// Colors is what the terminal can show; the zero value is none.
	Colors Colors
	// Highlight returns the part of a message to be highlighted, such as the
	// match of -g; it is only asked when Colors is not None. nil: nothing.
	Highlight func(message []byte) (from, to int, ok bool)
}

// Printer prints entries. It is not safe for concurrent use.
type Printer interface {
	// Print writes e to the writer of New. What e borrows is not kept.
	Print(e *entry.Entry) error
}

// keepBuffer bounds, in bytes, what a printer keeps between entries.
const keepBuffer = 1 << 20

// format appends an entry in one mode.
type format interface {
	append(b []byte, e *entry.Entry) ([]byte, error)
}

// Formatter formats entries in one mode. It is not safe for concurrent use.
type Formatter struct {
	w   *bufio.Writer
	f   format
	buf []byte
}

// Print implements Printer.
func (p *Formatter) Print(e *entry.Entry) error {
	b, err := p.f.append(p.buf[:0], e)
	return p.put(b, err)
}

// put writes b, which is p.buf or took its place, unless there was an error.
func (p *Formatter) put(b []byte, err error) error {
	if cap(b) <= keepBuffer {
		p.buf = b[:0]
	} else {
		p.buf = nil
	}
	if err != nil {
		return err
	}
	_, err = p.w.Write(b)
	return err
}

// New returns a Printer for the mode called mode that writes to w. It never
// flushes w. An unknown mode is an error in journalctl's words.
func New(mode string, w *bufio.Writer, o Options) (Printer, error) {
	p, err := NewFormatter(mode, o)
	if err != nil {
		return nil, err
	}
	p.w = w
	return p, nil
}

// NewFormatter returns what formats as the Printer of New prints, but has no
// writer: AppendKnown is all it can.
func NewFormatter(mode string, o Options) (*Formatter, error) {
	m, err := ParseMode(mode)
	if err != nil {
		return nil, err
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.UTC {
		o.Location = time.UTC
	}
	if o.Columns == 0 {
		o.Columns = 80
	}
	p := &Formatter{}
	switch {
	case m == Verbose:
		p.f = newVerbose(o)
	case m == Export:
		p.f = &export{filter: newFilter(o.OutputFields)}
	case m.IsJSON():
		p.f = newJSON(m, o)
	case m == Cat:
		p.f = &cat{o: o, palette: o.Colors.palette()}
	default:
		p.f = newShort(m, o)
	}
	return p, nil
}

package render

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
)

// appendPlain appends m without what only a terminal understands: TAB becomes
// eight spaces; CSI sequences that end in m and OSC sequences that end in BEL
// are left out, and so are carriage returns before a newline or the end.
// Sequences that are broken off stay.
func appendPlain(b, m []byte) []byte {
	from := 0 // what is not copied yet
	for i := 0; i < len(m); {
		n := 1 // bytes that m[i] is dealt with
		switch m[i] {
		case '\t':
			b = append(append(b, m[from:i]...), "        "...)
			from = i + 1
		case '\r':
			for i+n < len(m) && m[i+n] == '\r' {
				n++
			}
			if i+n == len(m) || m[i+n] == '\n' {
				b = append(b, m[from:i]...)
				from = i + n
			}
		case '\x1b':
			if k := sequence(m[i:]); k > 0 {
				b = append(b, m[from:i]...)
				n, from = k, i+k
			} else {
				n = 2 // broken off: the two bytes that introduce it are no others
			}
		}
		i += n
	}
	return append(b, m[min(from, len(m)):]...)
}

// sequence returns the length of the escape sequence that m begins with; 0 when
// it is none that a terminal would take out.
func sequence(m []byte) int {
	if len(m) < 2 {
		return 0
	}
	switch m[1] {
	case '[':
		for i := 2; i < len(m); i++ {
			switch c := m[i]; {
			case c == 'm':
				return i + 1
			case c != ';' && c != 0 && (c < '0' || c > '9'):
				return 0
			}
		}
	case ']':
		for i := 2; i < len(m); i++ {
			switch c := m[i]; {
			case c == '\a':
				return i + 1
			case c < ' ' || c > '~':
				return 0
			}
		}
	}
	return 0
}

// appendBlob stands for n bytes that cannot be printed.
func appendBlob(b []byte, n int, end string) []byte {
	b = append(b, '[')
	b = config.AppendBytes(b, uint64(n)) //nolint:gosec // a length
	b = append(b, " blob data]"...)
	return append(b, end...)
}

// appendExplained appends what explains e, each line with a mark.
func (o *Options) appendExplained(b []byte, e *entry.Entry) []byte {
	if o.Explain == nil {
		return b
	}
	text := strings.Trim(o.Explain(e), " \t\n\r")
	if text == "" {
		return b
	}
	mark := "░░"
	if o.ASCII {
		mark = "--"
	}
	first, next, off := mark+" ", mark+" ", ""
	if o.Colors != None {
		grey := o.Colors.palette().grey
		first, next, off = grey+mark+" "+ansiNormal+ansiGreen, grey+mark+ansiNormal+" "+ansiGreen, ansiNormal
	}
	b = append(b, first...)
	for n, line := 0, ""; text != ""; n++ {
		if n > 0 {
			b = append(b, next...)
		}
		line, text, _ = strings.Cut(text, "\n")
		b = append(append(append(b, line...), off...), '\n')
	}
	return b
}

// text prints a value that may have several lines.
type text struct {
	indent   int  // columns before continuation lines
	columns  int  // width of the screen; 0 when full
	full     bool // never cut
	cstrings bool // a line ends at its first NUL
	ascii    bool // cut with dots

	on, highlight, off string // colours
	from, to           int    // what to highlight, when marked
	marked             bool
}

// append appends m and its last newline.
func (t *text) append(b, m []byte) []byte {
	if len(m) == 0 {
		return append(b, '\n')
	}
	for pos, line := 0, 0; pos < len(m); line++ {
		end := len(m)
		if i := bytes.IndexByte(m[pos:], '\n'); i >= 0 {
			end = pos + i
		}
		l := m[pos:end]
		last := line+1 == printLines || end+1 >= printChars
		whole := t.full || t.indent+len(l)+1 < t.columns && !last
		if line > 0 && (whole || t.fits()) {
			b = appendSpaces(b, t.indent)
		}
		switch {
		case whole:
			b = t.appendLine(b, l, pos)
		case t.fits():
			b = append(b, t.on...)
			b = t.appendCut(b, l, last)
			b = append(b, t.off...)
		default:
			b = append(b, "..."...)
		}
		b = append(b, '\n')
		if !whole && last {
			break
		}
		pos = end + 1
	}
	return b
}

// fits reports whether there is room for a cut line behind the indentation.
func (t *text) fits() bool { return t.columns-t.indent >= 3 }

// appendLine appends a line that begins at byte pos of the message.
func (t *text) appendLine(b, l []byte, pos int) []byte {
	b = append(b, t.on...)
	if t.marked && pos <= t.from && t.from < len(l) {
		to := min(len(l), t.to)
		b = append(t.appendPart(b, l[:t.from]), t.highlight...)
		b = t.appendPart(b, l[t.from:to])
		if to < len(l) {
			b = t.appendPart(append(b, t.on...), l[to:])
		}
	} else {
		b = t.appendPart(b, l)
	}
	return append(b, t.off...)
}

func (t *text) appendPart(b, l []byte) []byte {
	if t.cstrings {
		l = cstring(l)
	}
	return append(b, l...)
}

// appendCut appends a line that is too long, or the last one shown.
func (t *text) appendCut(b, l []byte, last bool) []byte {
	width := t.columns - t.indent
	if width > len(l)+3 {
		return append(append(b, l...), "..."...)
	}
	percent := 90
	if last {
		percent = 100
	}
	return appendEllipsized(b, l, width, percent, t.ascii)
}

func appendSpaces(b []byte, n int) []byte {
	const spaces = "                                "
	for ; n > len(spaces); n -= len(spaces) {
		b = append(b, spaces...)
	}
	return append(b, spaces[:max(n, 0)]...)
}

// appendEllipsized cuts l to width columns, of which percent stand before the
// dots.
func appendEllipsized(b, l []byte, width, percent int, ascii bool) []byte {
	dots, need := "…", 1
	if ascii {
		dots, need = "...", 3
	}
	if isASCII(l) {
		if len(l) <= width {
			return append(b, l...)
		}
		head := ((width-need)*percent + 50) / 100
		tail := width - head - need
		b = append(b, l[:head]...)
		b = append(b, dots...)
		return append(b, l[len(l)-tail:]...)
	}
	if !utf8.Valid(l) {
		return append(b, l...)
	}
	head, tail := cutColumns(l, width, percent)
	if head >= tail {
		return append(b, l...)
	}
	b = append(b, l[:head]...)
	b = append(b, "…"...)
	return append(b, l[tail:]...)
}

// cutColumns returns the end of what stands before the dots and the beginning
// of what stands behind them, in bytes of l.
func cutColumns(l []byte, width, percent int) (head, tail int) {
	limit, used := (width-1)*percent/100, 0
	for head < len(l) {
		r, n := utf8.DecodeRune(l[head:])
		if used+columns(r) > limit {
			break
		}
		used += columns(r)
		head += n
	}
	tail = len(l)
	for tail > head {
		r, n := utf8.DecodeLastRune(l[:tail])
		if used+columns(r) > width {
			break
		}
		used += columns(r)
		tail -= n
	}
	if head >= tail {
		return head, tail
	}
	// The dots need a column themselves.
	if tail < len(l) {
		_, n := utf8.DecodeRune(l[tail:])
		tail += n
	} else if head > 0 {
		_, n := utf8.DecodeLastRune(l[:head])
		head -= n
	}
	return head, tail
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

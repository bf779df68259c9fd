package ingest

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// mustEscape are the bytes that keep a meaning inside double quotes.
	mustEscape = "\"\\`$"
	// mustQuote are the bytes that make an argument be quoted.
	mustQuote = whiteSpace + mustEscape + "*?['()<>|&;!"
)

// quoteCommandLine joins the NUL-terminated arguments in /proc/PID/cmdline by
// blanks, quoted for a shell where needed. Empty arguments at the end are left
// out, others are "".
func quoteCommandLine(nulls []byte) []byte {
	nulls = bytes.TrimRight(nulls, "\x00")
	if len(nulls) == 0 {
		return nil
	}
	out := make([]byte, 0, len(nulls)+16)
	for i, arg := range bytes.Split(nulls, []byte{0}) {
		if i > 0 {
			out = append(out, ' ')
		}
		out = appendQuoted(out, arg)
	}
	return out
}

// appendQuoted appends arg as a word of a shell.
func appendQuoted(out, arg []byte) []byte {
	if len(arg) == 0 {
		return append(out, `""`...)
	}
	if !needsQuotes(arg) {
		return append(out, arg...)
	}
	out = append(out, '"')
	for len(arg) > 0 {
		n := validRune(arg)
		switch {
		case n == 0 || isControl(arg[0]):
			out = appendEscape(out, arg[0])
			n = 1
		case n == 1 && strings.IndexByte(mustEscape, arg[0]) >= 0:
			out = append(out, '\\', arg[0])
		default:
			out = append(out, arg[:n]...)
		}
		arg = arg[n:]
	}
	return append(out, '"')
}

func needsQuotes(arg []byte) bool {
	for len(arg) > 0 {
		n := validRune(arg)
		if n == 0 || isControl(arg[0]) || strings.IndexByte(mustQuote, arg[0]) >= 0 {
			return true
		}
		arg = arg[n:]
	}
	return false
}

// validRune returns the length of the character that b begins with; 0 if it is
// none that systemd accepts.
func validRune(b []byte) int {
	if b[0] < utf8.RuneSelf {
		return 1
	}
	r, n := utf8.DecodeRune(b)
	// Besides what is no UTF-8: noncharacters.
	if r == utf8.RuneError && n == 1 || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
		return 0
	}
	return n
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// appendEscape appends c as C writes it in a string.
func appendEscape(out []byte, c byte) []byte {
	if i := strings.IndexByte("\a\b\f\n\r\t\v\\\"'", c); i >= 0 {
		return append(out, '\\', "abfnrtv\\\"'"[i])
	}
	if isControl(c) || c >= 0x80 {
		return append(out, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
	}
	return append(out, c)
}

// escapeComm makes a process name printable; what grows over limit bytes is
// ended by three dots.
func escapeComm(comm []byte, limit int) []byte {
	out := make([]byte, 0, limit)
	ends := make([]int, 0, len(comm)) // where escapes end
	for _, c := range comm {
		ends = append(ends, len(out))
		out = appendEscape(out, c)
		if len(out) <= limit {
			continue
		}
		for i := len(ends) - 1; i >= 0; i-- {
			if ends[i]+3 <= limit {
				return append(out[:ends[i]], "..."...)
			}
		}
	}
	return out
}

// unescape undoes C escapes in a kernel message, as systemd's
// cunescape(UNESCAPE_RELAX) does: what is no valid escape stays. The result is
// appended to dst.
func unescape(dst, s []byte) []byte {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i+1:]
		if r, n, one := escaped(s); n == 0 {
			dst = append(dst, '\\')
		} else {
			if one {
				dst = append(dst, byte(r))
			} else {
				dst = utf8.AppendRune(dst, r)
			}
			s = s[n:]
		}
	}
	return dst
}

// escaped reads what follows a backslash. n is its length, 0 if it is no escape
// or stands for NUL; one tells that r is a byte, not a character.
func escaped(s []byte) (r rune, n int, one bool) {
	if len(s) == 0 {
		return 0, 0, false
	}
	if i := strings.IndexByte("abfnrtvs\\\"'", s[0]); i >= 0 {
		return rune("\a\b\f\n\r\t\v \\\"'"[i]), 1, false
	}
	switch c := s[0]; {
	case c == 'x':
		return number(s[1:], 2, 16, 1, true)
	case c == 'u':
		return number(s[1:], 4, 16, 1, false)
	case c == 'U':
		return number(s[1:], 8, 16, 1, false)
	case c >= '0' && c <= '7':
		return number(s, 3, 8, 0, true)
	}
	return 0, 0, false
}

// number reads digits of a base; extra is what stands before them.
func number(s []byte, digits int, base rune, extra int, one bool) (r rune, n int, isByte bool) {
	if len(s) < digits {
		return 0, 0, false
	}
	for _, c := range s[:digits] {
		var d rune
		switch {
		case c >= '0' && c <= '9':
			d = rune(c - '0')
		case c >= 'a' && c <= 'f':
			d = rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			d = rune(c-'A') + 10
		default:
			return 0, 0, false
		}
		if d >= base || r > utf8.MaxRune {
			return 0, 0, false
		}
		r = r*base + d
	}
	if r == 0 || one && r > 255 || !one && !utf8.ValidRune(r) {
		return 0, 0, false
	}
	return r, digits + extra, one
}

package entry

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSONError says why a line is not a JSON object.
type JSONError struct {
	// Offset in the line, in bytes, of the fault.
	Offset int
	// Detail says what is wrong there.
	Detail string
}

// Error names the place and the fault.
func (e *JSONError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Detail)
}

// jsonScanner walks over the bytes of one JSON text. Its methods return false
// after a fault, which is in err then.
type jsonScanner struct {
	data []byte
	pos  int
	err  *JSONError
}

func (s *jsonScanner) fail(format string, args ...any) bool {
	if s.err == nil {
		s.err = &JSONError{Offset: s.pos, Detail: fmt.Sprintf(format, args...)}
	}
	return false
}

// peek skips blanks and returns the byte that follows, 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// want fails with what was expected and what is there.
func (s *jsonScanner) want(what string) bool {
	if s.pos >= len(s.data) {
		return s.fail("want %s, the text ends", what)
	}
	return s.fail("want %s, not %q", what, s.data[s.pos])
}

// accept skips blanks and the byte c.
func (s *jsonScanner) accept(c byte, what string) bool {
	if s.peek() != c || s.pos >= len(s.data) {
		return s.want(what)
	}
	s.pos++
	return true
}

// literal skips the word w.
func (s *jsonScanner) literal(w string) bool {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.want("a value")
	}
	s.pos += len(w)
	return true
}

// number skips a number and returns its text.
func (s *jsonScanner) number() (text []byte, ok bool) {
	start := s.pos
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
			s.pos++
		}
		return s.pos > from || s.want("a digit")
	}
	at := func(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }
	if at('-') {
		s.pos++
	}
	if at('0') {
		s.pos++
	} else if !digits() {
		return nil, false
	}
	if at('.') {
		if s.pos++; !digits() {
			return nil, false
		}
	}
	if at('e') || at('E') {
		if s.pos++; at('+') || at('-') {
			s.pos++
		}
		if !digits() {
			return nil, false
		}
	}
	return s.data[start:s.pos], true
}

// text appends the contents of the string at pos to dst.
func (s *jsonScanner) text(dst []byte) (_ []byte, ok bool) {
	if !s.accept('"', "a string") {
		return dst, false
	}
	from := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			dst = append(dst, s.data[from:s.pos]...)
			s.pos++
			return dst, true
		case c < ' ':
			return dst, s.fail("control character %q in a string", c)
		case c == '\\':
			dst = append(dst, s.data[from:s.pos]...)
			if dst, ok = s.escape(dst); !ok {
				return dst, false
			}
			from = s.pos
		default:
			s.pos++
		}
	}
	return dst, s.want("the end of the string")
}

// escape appends the character that the escape sequence at pos stands for.
func (s *jsonScanner) escape(dst []byte) (_ []byte, ok bool) {
	s.pos++
	if s.pos >= len(s.data) {
		return dst, s.want("the end of the string")
	}
	c := s.data[s.pos]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := s.unicode()
		return utf8.AppendRune(dst, r), ok
	default:
		return dst, s.fail("unknown escape sequence \\%c", c)
	}
	s.pos++
	return append(dst, c), true
}

// unicode reads uXXXX, and a second \uXXXX if the two are a surrogate pair. A
// surrogate without its partner becomes U+FFFD.
func (s *jsonScanner) unicode() (r rune, ok bool) {
	if r, ok = s.hex4(); !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if rest := s.data[s.pos:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		back := s.pos
		s.pos++
		low, ok := s.hex4()
		if !ok {
			return 0, false
		}
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return both, true
		}
		s.pos = back
	}
	return utf8.RuneError, true
}

// hex4 reads the 'u' at pos and four hexadecimal digits.
func (s *jsonScanner) hex4() (r rune, ok bool) {
	s.pos++
	for range 4 {
		if s.pos >= len(s.data) {
			return 0, s.want("four hexadecimal digits")
		}
		c := s.data[s.pos]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.want("four hexadecimal digits")
		}
		r = r<<4 | rune(c)
		s.pos++
	}
	return r, true
}

package entry

import (
	"encoding/binary"
	"unicode/utf8"
)

// Printable reports whether b is text that journald shows and serializes as
// such: valid UTF-8 without control characters, where TAB, and if allowNewline
// is set newline, are not counted as control characters. Surrogates and the
// Unicode noncharacters are not text, as in systemd's unichar_is_valid.
func Printable(b []byte, allowNewline bool) bool {
	for {
		n := asciiPrefix(b)
		b = b[n:]
		if len(b) == 0 {
			return true
		}
		// The next eight bytes, or the rest, hold something else.
		end := min(len(b), 8)
		i := 0
		for i < end {
			c := b[i]
			switch {
			case c >= utf8.RuneSelf:
				size := printableRune(b[i:])
				if size == 0 {
					return false
				}
				i += size
				continue
			case c < ' ':
				if c != '\t' && (c != '\n' || !allowNewline) {
					return false
				}
			case c == 0x7f:
				return false
			}
			i++
		}
		b = b[i:]
	}
}

// Eight bytes are looked at as one word.
const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// asciiPrefix returns a multiple of 8: that many bytes at the start of b are
// printable ASCII for sure.
func asciiPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		del := x ^ 0x7f*ones
		// A set high bit marks a byte >= 0x80, one < 0x20, or one equal to 0x7f.
		if (x|(x-0x20*ones)&^x|(del-ones)&^del)&high != 0 {
			break
		}
	}
	return i
}

// printableRune returns the length of the non-ASCII character b begins with, 0
// when it is malformed or not printable.
func printableRune(b []byte) int {
	r, size := utf8.DecodeRune(b)
	switch {
	case r == utf8.RuneError && size <= 1,
		r <= 0x9f,
		r >= 0xfdd0 && r <= 0xfdef,
		r&0xfffe == 0xfffe:
		return 0
	}
	return size
}

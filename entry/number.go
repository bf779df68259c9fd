package entry

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// cutNUL returns b up to its first NUL: systemd reads numbers as C strings.
func cutNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// parseUint reads a number as systemd's safe_atou64 does: decimal, or with one
// of C's prefixes, leading blanks and '+' allowed.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 19 || b[0] == '0' {
		return parseUintC(string(b))
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return parseUintC(string(b))
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}

// parseUintC is parseUint for the unusual forms.
func parseUintC(s string) (uint64, bool) {
	s = strings.TrimLeft(s, " \t\n\r")
	if strings.Trim(s, "0") == "" {
		return 0, s != ""
	}
	s = strings.TrimPrefix(s, "+")
	if strings.HasPrefix(s, "+") || strings.Contains(s, "_") {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 0, 64)
	return v, err == nil
}

// parseID reads an identifier of 32 hexadecimal digits, or of 36 bytes with
// dashes where the UUID form has them. It allocates nothing.
func parseID(b []byte) (id ID, ok bool) {
	if len(b) == 36 {
		var digits [32]byte
		if b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
			return ID{}, false
		}
		n := copy(digits[:], b[:8])
		n += copy(digits[n:], b[9:13])
		n += copy(digits[n:], b[14:18])
		n += copy(digits[n:], b[19:23])
		copy(digits[n:], b[24:])
		b = digits[:]
	}
	if len(b) != 32 {
		return ID{}, false
	}
	if _, err := hex.Decode(id[:], b); err != nil {
		return ID{}, false
	}
	return id, true
}

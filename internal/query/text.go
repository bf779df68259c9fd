package query

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// text is what is looked for. When case is ignored K and S have relatives outside
// ASCII (U+212A, U+017F), and letters outside ASCII have some of another length.
type text struct {
	plain []byte // as it is; nil: case is ignored
	whole folded // nothing: there are letters outside ASCII
	part  folded // the longest part that has no relatives outside ASCII
	kin   bool   // whole is more than part
}

func newText(runes []rune, fold bool) (t text) {
	if !fold {
		return text{plain: []byte(string(runes))}
	}
	var all, part, longest []byte
	ascii := true
	for _, r := range runes {
		if r >= utf8.RuneSelf {
			ascii, part = false, nil
			continue
		}
		if 'A' <= r && r <= 'Z' {
			r |= 0x20
		}
		all = append(all, byte(r))
		if r == 'k' || r == 's' {
			part = nil
		} else if part = append(part, byte(r)); len(part) > len(longest) {
			longest = part
		}
	}
	t.part = newFolded(longest)
	if ascii {
		t.whole = newFolded(all)
		t.kin = len(longest) < len(all)
	}
	return t
}

// none reports whether every text holds t, or nothing is known of it.
func (t *text) none() bool { return len(t.plain) == 0 && t.whole.none() && t.part.none() }

// size is the length of what is surely there.
func (t *text) size() int { return max(len(t.plain), len(t.part.lower)) }

func (t *text) look(b []byte) answer {
	switch {
	case t.plain != nil:
		if bytes.Contains(b, t.plain) {
			return yes
		}
		return no
	case t.whole.none():
		if t.part.in(b) {
			return maybe
		}
		return no
	case t.whole.in(b):
		return yes
	case t.kin && hasKin(b) && (t.part.none() || t.part.in(b)):
		return maybe
	}
	return no
}

// hasKin reports whether b may hold one of the relatives of K and S, by the first
// bytes of these.
func hasKin(b []byte) bool {
	return bytes.IndexByte(b, 0xc5) >= 0 || bytes.IndexByte(b, 0xe2) >= 0
}

// folded is an ASCII text in any case of its letters. It is found by its rarest
// byte.
type folded struct {
	lower []byte
	at    int     // of the rarest
	forms [2]byte // of that; equal if it is no letter
}

// frequent are the bytes of messages, the most frequent first, as they are in
// English and in numbers.
const frequent = " etaoinsrldcumpfgh.0123456789-:/=_bvwyk,"

func newFolded(lower []byte) folded {
	f := folded{lower: lower}
	best := -1
	for i, c := range lower {
		rank := strings.IndexByte(frequent, c)
		if rank < 0 {
			rank = len(frequent)
		}
		if rank > best {
			best, f.at = rank, i
			f.forms = [2]byte{c, c}
			if 'a' <= c && c <= 'z' {
				f.forms[1] = c &^ 0x20
			}
		}
	}
	return f
}

func (f *folded) none() bool { return len(f.lower) == 0 }

// in reports whether b holds f.
func (f *folded) in(b []byte) bool {
	n := len(f.lower)
	if len(b) < n {
		return false
	}
	rare := b[f.at : len(b)-n+f.at+1]
	for k, c := range f.forms {
		if k > 0 && c == f.forms[0] {
			break
		}
		for i := 0; ; i++ {
			next := bytes.IndexByte(rare[i:], c)
			if next < 0 {
				break
			}
			i += next
			if equalFold(b[i:i+n], f.lower) {
				return true
			}
		}
	}
	return false
}

// equalFold reports whether b is lower, which is in lower case, but for the case
// of ASCII letters.
func equalFold(b, lower []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

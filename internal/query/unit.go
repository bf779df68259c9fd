package query

import (
	"errors"
	"path"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

const (
	coredumpMessage = "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1"
	maxUnitName     = 255
	unitChars       = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-_.\\"
)

// unitTypes are the endings of unit names.
var unitTypes = [...]string{
	".service", ".socket", ".target", ".device", ".mount", ".automount", ".swap", ".timer", ".path", ".slice", ".scope",
}

// The fields that a glob of -u or --user-unit is compared with.
var (
	systemUnitFields = [...]string{"_SYSTEMD_UNIT", "COREDUMP_UNIT", "UNIT", "OBJECT_SYSTEMD_UNIT", "_SYSTEMD_SLICE"}
	userUnitFields   = [...]string{"_SYSTEMD_USER_UNIT", "USER_UNIT", "COREDUMP_USER_UNIT", "OBJECT_SYSTEMD_USER_UNIT", "_SYSTEMD_USER_SLICE"}
)

// isGlob reports whether s is a pattern.
func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// onlyOf reports whether s consists of bytes of sets.
func onlyOf(s, set, more string) bool {
	for i := range len(s) {
		if strings.IndexByte(set, s[i]) < 0 && strings.IndexByte(more, s[i]) < 0 {
			return false
		}
	}
	return true
}

func hasUnitType(s string) bool {
	for _, t := range unitTypes {
		if strings.HasSuffix(s, t) {
			return true
		}
	}
	return false
}

func isUnitName(s string) bool {
	dot := strings.LastIndexByte(s, '.')
	return dot > 0 && len(s) <= maxUnitName && hasUnitType(s[dot:]) && s[0] != '@' && onlyOf(s, unitChars, "@")
}

// MangleUnit makes a unit name of what a user types, as systemd does: a path
// becomes a mount or device, bytes that a name cannot have are escaped, and a
// name without a type is a service. A glob stays as it is. Nothing is no name.
func MangleUnit(s string) (string, error) {
	if s == "" {
		return "", errNoUnit
	}
	return mangle(s), nil
}

// errNoUnit is what journalctl says of the unit "".
var errNoUnit = errors.New("Invalid argument") //nolint:staticcheck // as the C library says it

func mangle(s string) string {
	const globChars = "@[]!*?"
	clean := path.Clean(s)
	switch {
	case isUnitName(s), isGlob(s) && onlyOf(s, unitChars, globChars):
		return s
	case !strings.HasPrefix(s, "/") || hasParent(s):
	case strings.HasPrefix(clean, "/dev/") || strings.HasPrefix(clean, "/sys/"):
		return escapePath(clean) + ".device"
	default:
		return escapePath(clean) + ".mount"
	}
	var b strings.Builder
	for i := range len(s) {
		switch {
		case s[i] == '/':
			b.WriteByte('-')
		case onlyOf(s[i:i+1], unitChars, globChars):
			b.WriteByte(s[i])
		default:
			escapeByte(&b, s[i])
		}
	}
	if m := b.String(); isGlob(m) || isUnitName(m) {
		return m
	}
	return b.String() + ".service"
}

// hasParent reports whether a path has a component that is "..".
func hasParent(s string) bool {
	return strings.Contains(s+"/", "/../")
}

// escapePath escapes a clean path.
func escapePath(s string) string {
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return "-"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '/':
			b.WriteByte('-')
		case c == '-' || c == '\\' || c == '.' && i == 0 || !onlyOf(s[i:i+1], unitChars, ""):
			escapeByte(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escapeByte(b *strings.Builder, c byte) {
	const digits = "0123456789abcdef"
	b.WriteString(`\x`)
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

// fnmatch reports whether s matches pattern as fnmatch(3) decides with
// FNM_NOESCAPE: * and ? match any byte, [a-z] and [!a-z] one of a set.
func fnmatch(pattern, s string) bool {
	star, mark := -1, 0 // where the last * stands, and what it has eaten up to
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], s[i]); ok {
			p += n
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne compares c with the first element of pattern, which is n bytes long.
func matchOne(pattern string, c byte) (n int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if n, ok, valid := matchSet(pattern, c); valid {
			return n, ok
		}
	}
	return 1, pattern[0] == c
}

// matchSet compares c with the set that pattern begins with; it is not valid
// when it is not closed.
func matchSet(pattern string, c byte) (n int, ok, valid bool) {
	i, not := 1, false
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		not = true
		i++
	}
	for first := true; i < len(pattern); first = false {
		if pattern[i] == ']' && !first {
			return i + 1, ok != not, true
		}
		lo, hi := pattern[i], pattern[i]
		if i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
			hi = pattern[i+2]
			i += 2
		}
		ok = ok || lo <= c && c <= hi
		i++
	}
	return 0, false, false
}

// unitMatch matches what belongs to a system unit: its own entries, its core
// dumps, what PID 1 says of it and what privileged daemons say of it.
func unitMatch(unit string) journal.Match {
	m := []journal.Match{
		term("_SYSTEMD_UNIT=" + unit),
		journal.And(term(coredumpMessage), term("_UID=0"), term("COREDUMP_UNIT="+unit)),
		journal.And(term("_PID=1"), term("UNIT="+unit)),
		journal.And(term("_UID=0"), term("OBJECT_SYSTEMD_UNIT="+unit)),
	}
	if strings.HasSuffix(unit, ".slice") {
		m = append(m, term("_SYSTEMD_SLICE="+unit))
	}
	return journal.Or(m...)
}

// userUnitMatch matches what belongs to a unit of the user manager of uid.
func userUnitMatch(unit, uid string) journal.Match {
	own, any := term("_UID="+uid), journal.Or(term("_UID="+uid), term("_UID=0"))
	m := []journal.Match{
		journal.And(term("_SYSTEMD_USER_UNIT="+unit), own),
		journal.And(term("USER_UNIT="+unit), own),
		journal.And(term("COREDUMP_USER_UNIT="+unit), any),
		journal.And(term("OBJECT_SYSTEMD_USER_UNIT="+unit), any),
	}
	if strings.HasSuffix(unit, ".slice") {
		m = append(m, journal.And(term("_SYSTEMD_USER_SLICE="+unit), own))
	}
	return journal.Or(m...)
}

func term(s string) journal.Match { return journal.Term(entry.Field(s)) }

package query

import (
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// Lines values that are no number.
const (
	// LinesDefault says that -n was not given.
	LinesDefault = -2
	// LinesAll is -n all.
	LinesAll = -1
)

// ParseLines reads the value of -n. With a + before the number, as journalctl
// 254 and later read it, the oldest entries are meant, not the newest.
func ParseLines(s string) (n int, oldest bool, err error) {
	if s == "all" {
		return LinesAll, false, nil
	}
	s, oldest = strings.CutPrefix(s, "+")
	if n, ok := atoi(s); ok && n >= 0 {
		return n, oldest, nil
	}
	return 0, false, wordsf("Failed to parse lines '%s'", s)
}

// atoi reads a number as the C library does with any base.
func atoi(s string) (int, bool) {
	n, err := strconv.ParseInt(strings.TrimLeft(s, " \t\n\r"), 0, 32)
	return int(n), err == nil
}

// Boot says which boot is asked for.
type Boot struct {
	// Set is false when entries of all boots are wanted.
	Set bool
	// ID is the boot that Offset counts from; zero: before the first or, for an
	// Offset of 0 and below, the last one.
	ID     entry.ID
	Offset int
}

// ParseBoot reads a boot as -b takes it: all, an offset, a boot id, or both.
func ParseBoot(s string) (Boot, error) {
	b, ok := parseBoot(s)
	if !ok {
		return Boot{}, wordsf("Failed to parse boot descriptor '%s'", s)
	}
	return b, nil
}

func parseBoot(s string) (b Boot, ok bool) {
	if s == "all" {
		return Boot{}, true
	}
	b.Set = true
	if len(s) >= 32 {
		if id, err := entry.ParseID(s[:32]); err == nil {
			b.ID, s = id, s[32:]
		}
		if s == "" {
			return b, true
		}
		if s[0] != '-' && s[0] != '+' {
			return Boot{}, false
		}
	}
	b.Offset, ok = atoi(s)
	return b, ok
}

// Priorities is a set of syslog levels: bit n is level n.
type Priorities uint8

// AllPriorities filters nothing, and lets entries without a priority pass too.
const AllPriorities Priorities = 0xff

// parseLevel reads a level by name, or as a number of any base.
func parseLevel(s string) (int, bool) {
	if n, ok := entry.ParseLevel(s); ok {
		return n, true
	}
	n, ok := atoi(s)
	return n, ok && n >= 0 && n < entry.Levels
}

// ParsePriorities reads a level, which means all levels up to it, or a range
// A..B in either order.
func ParsePriorities(s string) (Priorities, error) {
	a, b, isRange := strings.Cut(s, "..")
	if !isRange {
		n, ok := parseLevel(s)
		if !ok {
			return 0, wordsf("Unknown log level %s", s)
		}
		return levels(0, n), nil
	}
	from, ok1 := parseLevel(a)
	to, ok2 := parseLevel(b)
	if !ok1 || !ok2 {
		return 0, wordsf("Failed to parse log level range %s", s)
	}
	return levels(min(from, to), max(from, to)), nil
}

func levels(from, to int) (p Priorities) {
	for i := from; i <= to; i++ {
		p |= 1 << i
	}
	return p
}

// facilityNames are the syslog facilities in order; an empty name has a number
// only.
var facilityNames = [...]string{
	"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
	"", "", "", "", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

// Facilities returns what --facility=help lists.
func Facilities() []string {
	names := make([]string, len(facilityNames))
	for i, n := range facilityNames {
		if names[i] = n; n == "" {
			names[i] = strconv.Itoa(i)
		}
	}
	return names
}

// ParseFacilities reads a list of facilities, by name or number, with commas.
func ParseFacilities(s string) ([]int, error) {
	var list []int
	for word := range strings.SplitSeq(s, ",") {
		if word == "" {
			continue
		}
		n, ok := parseFacility(word)
		if !ok {
			return nil, wordsf("Bad --facility= argument \"%s\".", word)
		}
		list = append(list, n)
	}
	return list, nil
}

func parseFacility(s string) (int, bool) {
	for i, n := range facilityNames {
		if n != "" && n == s {
			return i, true
		}
	}
	n, ok := atoi(s)
	return n, ok && n >= 0 && n < 128
}

package query

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Times are in µs since 1970.
const (
	usecPerSec   = 1_000_000
	usecPerMin   = 60 * usecPerSec
	usecPerHour  = 60 * usecPerMin
	usecPerDay   = 24 * usecPerHour
	usecPerMonth = 2629800 * usecPerSec
	usecPerYear  = 31557600 * usecPerSec
)

// spanUnits are systemd's units of time.
var spanUnits = map[string]uint64{
	"seconds": usecPerSec, "second": usecPerSec, "sec": usecPerSec, "s": usecPerSec, "": usecPerSec,
	"minutes": usecPerMin, "minute": usecPerMin, "min": usecPerMin, "m": usecPerMin,
	"hours": usecPerHour, "hour": usecPerHour, "hr": usecPerHour, "h": usecPerHour,
	"days": usecPerDay, "day": usecPerDay, "d": usecPerDay,
	"weeks": 7 * usecPerDay, "week": 7 * usecPerDay, "w": 7 * usecPerDay,
	"months": usecPerMonth, "month": usecPerMonth, "M": usecPerMonth,
	"years": usecPerYear, "year": usecPerYear, "y": usecPerYear,
	"msec": 1000, "ms": 1000, "usec": 1, "us": 1, "µs": 1, "μs": 1,
}

// ParseTime reads a time as journalctl's --since does: 2012-10-30 18:17:16 with
// an optional fraction, seconds, date or time left out, a weekday before and a
// time zone behind; the words now, today, yesterday and tomorrow; a span with
// + or - before or " ago" or " left" behind; and @ with seconds since 1970. now
// is what words and spans refer to, and its location the zone of times without
// one. It returns µs since 1970.
func ParseTime(s string, now time.Time) (uint64, error) {
	if t, ok := parseTime(s, now); ok {
		return t, nil
	}
	return 0, wordsf("Failed to parse timestamp: %s", s)
}

func parseTime(s string, now time.Time) (uint64, bool) {
	usec := uint64(max(now.UnixMicro(), 0)) //nolint:gosec // not negative
	switch {
	case s == "":
		return 0, false
	case s == "now":
		return usec, true
	case strings.HasPrefix(s, "+"):
		d, ok := parseSpan(s[1:])
		return usec + d, ok && usec+d >= usec
	case strings.HasPrefix(s, "-"):
		d, ok := parseSpan(s[1:])
		return usec - min(d, usec), ok && d <= usec
	case strings.HasPrefix(s, "@"):
		return parseSpan(s[1:])
	case strings.HasSuffix(s, " ago"):
		d, ok := parseSpan(strings.TrimSuffix(s, " ago"))
		return usec - min(d, usec), ok && d <= usec
	case strings.HasSuffix(s, " left"):
		d, ok := parseSpan(strings.TrimSuffix(s, " left"))
		return usec + d, ok && usec+d >= usec
	}
	return parseCalendar(s, now)
}

// parseCalendar reads a time that names a day or a time of day.
func parseCalendar(s string, now time.Time) (uint64, bool) {
	s, loc, ok := cutZone(s, now.Location())
	if !ok {
		return 0, false
	}
	now = now.In(loc)
	year, month, day := now.Date()
	midnight := func(days int) (uint64, bool) {
		return micros(time.Date(year, month, day+days, 0, 0, 0, 0, loc))
	}
	switch s {
	case "now":
		return micros(now)
	case "today":
		return midnight(0)
	case "yesterday":
		return midnight(-1)
	case "tomorrow":
		return midnight(1)
	}
	s, weekday := cutWeekday(s)
	date, clock, both := strings.Cut(s, " ")
	if !both {
		date, clock, both = strings.Cut(s, "T")
	}
	if !both {
		clock = ""
		if !strings.Contains(s, "-") {
			date, clock = "", s
		}
	}
	if date != "" {
		if year, month, day, ok = parseDate(date); !ok {
			return 0, false
		}
	}
	var c clockTime
	if clock != "" || both {
		if c, ok = parseClock(strings.TrimLeft(clock, " ")); !ok {
			return 0, false
		}
	}
	t := time.Date(year, month, day, c.hour, c.minute, c.second, 0, loc)
	if weekday >= 0 && t.Weekday() != time.Weekday(weekday) {
		return 0, false
	}
	u, ok := micros(t)
	return u + c.usec, ok
}

func micros(t time.Time) (uint64, bool) {
	u := t.UnixMicro()
	return uint64(max(u, 0)), u >= 0 //nolint:gosec // not negative
}

// cutZone takes the time zone off the end of s: UTC, a name of the zone
// database, or an abbreviation that loc uses.
func cutZone(s string, loc *time.Location) (rest string, zone *time.Location, ok bool) {
	if r, found := strings.CutSuffix(s, " UTC"); found {
		return r, time.UTC, true
	}
	if r, found := strings.CutSuffix(s, "Z"); found && strings.Contains(r, "T") {
		return r, time.UTC, true
	}
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, loc, true
	}
	name := s[i+1:]
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return s, loc, true
	}
	if z, found := abbreviated(name, loc); found {
		return s[:i], z, true
	}
	l, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return s, loc, false
	}
	if z, found := abbreviated(name, l); found {
		l = z
	}
	return s[:i], l, true
}

// abbreviated returns the zone that name means among those of loc: CET means
// winter time in summer too.
func abbreviated(name string, loc *time.Location) (*time.Location, bool) {
	for _, month := range []time.Month{time.January, time.July} {
		if abbreviation, offset := time.Date(2024, month, 1, 0, 0, 0, 0, loc).Zone(); name == abbreviation {
			return time.FixedZone(name, offset), true
		}
	}
	return nil, false
}

// cutWeekday takes the name of a day and the space behind it off the start of
// s; -1 when there is none.
func cutWeekday(s string) (rest string, weekday int) {
	word, rest, found := strings.Cut(s, " ")
	if !found {
		return s, -1
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := d.String()
		if strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return rest, int(d)
		}
	}
	return s, -1
}

func parseDate(s string) (year int, month time.Month, day int, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return 0, 0, 0, false
	}
	year, ok1 := parseInt(parts[0], 4)
	m, ok2 := parseInt(parts[1], 2)
	day, ok3 := parseInt(parts[2], 2)
	if !ok1 || !ok2 || !ok3 || m < 1 || m > 12 || day < 1 || day > 31 {
		return 0, 0, 0, false
	}
	if len(parts[0]) <= 2 {
		// strptime's %y.
		if year += 1900; year < 1969 {
			year += 100
		}
	}
	return year, time.Month(m), day, true
}

type clockTime struct {
	hour, minute, second int
	usec                 uint64
}

// parseClock reads 18:17, 18:17:16 or 18:17:16.123456.
func parseClock(s string) (c clockTime, ok bool) {
	s, fraction, hasFraction := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || hasFraction && len(parts) != 3 {
		return c, false
	}
	var n [3]int
	limits := [3]int{23, 59, 60}
	for i, p := range parts {
		if n[i], ok = parseInt(p, 2); !ok || n[i] > limits[i] {
			return c, false
		}
	}
	c = clockTime{hour: n[0], minute: n[1], second: n[2]}
	if hasFraction {
		c.usec, ok = parseFraction(fraction, usecPerSec)
	}
	return c, ok
}

// parseInt reads 1 to width digits.
func parseInt(s string, width int) (int, bool) {
	if len(s) == 0 || len(s) > width {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

// parseFraction returns the digits behind a point, as a part of unit.
func parseFraction(s string, unit uint64) (uint64, bool) {
	if s == "" {
		return 0, false
	}
	var sum uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		unit /= 10
		sum += uint64(s[i]-'0') * unit
	}
	return sum, true
}

// ParseSpan reads a span of time as systemd does: numbers with units, added up;
// a number without one counts seconds.
func parseSpan(s string) (usec uint64, ok bool) {
	s = strings.Trim(s, " \t")
	if s == "infinity" {
		return math.MaxUint64, true
	}
	for s != "" {
		digits := prefix(s, "0123456789")
		whole, fraction := digits, ""
		rest := s[len(digits):]
		if strings.HasPrefix(rest, ".") {
			fraction = prefix(rest[1:], "0123456789")
			rest = rest[1+len(fraction):]
			if fraction == "" {
				return 0, false
			}
		}
		if whole == "" && fraction == "" {
			return 0, false
		}
		rest = strings.TrimLeft(rest, " \t")
		i := strings.IndexAny(rest, " \t.-+0123456789")
		if i < 0 {
			i = len(rest)
		}
		unit, known := spanUnits[rest[:i]]
		if !known {
			return 0, false
		}
		if usec, ok = addSpan(usec, whole, fraction, unit); !ok {
			return 0, false
		}
		s = strings.TrimLeft(rest[i:], " \t")
		ok = true
	}
	return usec, ok
}

func addSpan(sum uint64, whole, fraction string, unit uint64) (uint64, bool) {
	var n uint64
	if whole != "" {
		var err error
		if n, err = strconv.ParseUint(whole, 10, 64); err != nil || n > math.MaxUint64/unit {
			return 0, false
		}
	}
	n *= unit
	if fraction != "" {
		f, ok := parseFraction(fraction, unit)
		if !ok {
			return 0, false
		}
		n += f
	}
	return sum + n, sum+n >= sum
}

// prefix returns the longest start of s made of bytes of set.
func prefix(s, set string) string {
	i := 0
	for i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
		i++
	}
	return s[:i]
}

package config

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// Infinity is the time span that never ends, and what stands for longer ones
// than time.Duration holds (292 years).
const Infinity time.Duration = math.MaxInt64

// blanks are what systemd's parsers skip.
const blanks = " \t\n\r"

// spanUnits is in the order in which the names are tried: longer ones before
// their beginnings.
var spanUnits = []struct {
	name string
	unit time.Duration
}{
	{"seconds", time.Second},
	{"second", time.Second},
	{"sec", time.Second},
	{"s", time.Second},
	{"minutes", time.Minute},
	{"minute", time.Minute},
	{"min", time.Minute},
	{"months", month},
	{"month", month},
	{"M", month},
	{"msec", time.Millisecond},
	{"ms", time.Millisecond},
	{"m", time.Minute},
	{"hours", time.Hour},
	{"hour", time.Hour},
	{"hr", time.Hour},
	{"h", time.Hour},
	{"days", 24 * time.Hour},
	{"day", 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"weeks", 7 * 24 * time.Hour},
	{"week", 7 * 24 * time.Hour},
	{"w", 7 * 24 * time.Hour},
	{"years", year},
	{"year", year},
	{"y", year},
	{"usec", time.Microsecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond},
	{"μs", time.Microsecond},
}

// systemd's USEC_PER_MONTH and USEC_PER_YEAR: 30.4375 and 365.25 days.
const (
	month = 2629800 * time.Second
	year  = 31557600 * time.Second
)

// ParseSpan reads a time span as systemd does: "5min", "1h 30min", "1.5h",
// "infinity", or a bare number of seconds.
func ParseSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("invalid time span %q: want for example 30s, 5min, 1month, infinity, or a number of seconds", s)
	p := strings.Trim(s, blanks)
	if p == "infinity" {
		return Infinity, nil
	}
	if p == "" {
		return 0, bad
	}
	var sum time.Duration
	for p != "" {
		whole, fraction, rest, ok := number(p)
		if !ok {
			return 0, bad
		}
		after := strings.TrimLeft(rest, blanks)
		unit := time.Second
		named := false
		for _, u := range spanUnits {
			if tail, found := strings.CutPrefix(after, u.name); found {
				unit, after, named = u.unit, tail, true
				break
			}
		}
		if !named && after == rest && rest != "" {
			return 0, bad // 12.34.56 or 5x
		}
		part := scale(whole, fraction, uint64(unit))
		if part >= uint64(Infinity-sum) {
			sum = Infinity
		} else {
			sum += time.Duration(part)
		}
		p = strings.TrimLeft(after, blanks)
	}
	return sum, nil
}

// number splits p behind the number it begins with: digits, and a fraction in
// digits. Too many digits saturate.
func number(p string) (whole uint64, fraction, rest string, ok bool) {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	n := digits(p)
	rest = p[n:]
	if tail, found := strings.CutPrefix(rest, "."); found {
		f := digits(tail)
		fraction, rest = tail[:f], tail[f:]
		if f == 0 {
			return 0, "", "", false
		}
	}
	if n == 0 && fraction == "" {
		return 0, "", "", false
	}
	if n > 0 {
		var err error
		if whole, err = strconv.ParseUint(p[:n], 10, 64); err != nil {
			whole = math.MaxUint64
		}
	}
	return whole, fraction, rest, true
}

// scale returns whole.fraction units, at most math.MaxUint64. Digits of the
// fraction beyond the 18th do not count.
func scale(whole uint64, fraction string, unit uint64) uint64 {
	high, v := bits.Mul64(whole, unit)
	if high > 0 {
		return math.MaxUint64
	}
	part, power := uint64(0), uint64(1)
	for i := range min(len(fraction), 18) {
		part = part*10 + uint64(fraction[i]-'0')
		power *= 10
	}
	high, low := bits.Mul64(part, unit)
	more, _ := bits.Div64(high, low, power) // part < power, so it fits
	if v > math.MaxUint64-more {
		return math.MaxUint64
	}
	return v + more
}

// Size is a number of bytes, or a share of a file system. The zero Size means
// the built-in default.
type Size struct {
	// Bytes is the size when Percent is 0.
	Bytes uint64
	// Percent of the file system's size, from 1 to 100.
	Percent int
}

// IsZero reports whether s means the default.
func (s Size) IsZero() bool { return s == Size{} }

// Of returns the size in bytes on a file system of total bytes.
func (s Size) Of(total uint64) uint64 {
	if s.Percent == 0 {
		return s.Bytes
	}
	return total/100*uint64(s.Percent) + total%100*uint64(s.Percent)/100
}

// String returns the text that ParseSize reads.
func (s Size) String() string {
	if s.Percent > 0 {
		return strconv.Itoa(s.Percent) + "%"
	}
	for i := len(sizeUnits) - 1; i > 0; i-- {
		if unit := uint64(1) << (10 * i); s.Bytes >= unit && s.Bytes%unit == 0 {
			return strconv.FormatUint(s.Bytes/unit, 10) + sizeUnits[i:i+1]
		}
	}
	return strconv.FormatUint(s.Bytes, 10)
}

// sizeUnits are the suffixes, each 1024 times the one before.
const sizeUnits = "BKMGTPE"

// ParseSize reads a size: 512, 64K, 1.5G, "1G 500M" with units of 1024, or 10%.
func ParseSize(s string) (Size, error) {
	if text, ok := strings.CutSuffix(strings.Trim(s, blanks), "%"); ok {
		p, err := strconv.Atoi(text)
		if err != nil || p < 1 || p > 100 {
			return Size{}, fmt.Errorf("invalid share %q: want 1%% to 100%%", s)
		}
		return Size{Percent: p}, nil
	}
	n, err := ParseBytes(s)
	return Size{Bytes: n}, err
}

// parseKeepFree is ParseSize, where 0 is nothing and not the default: one byte.
func parseKeepFree(s string) (Size, error) {
	size, err := ParseSize(s)
	if err == nil && size.IsZero() {
		size.Bytes = 1
	}
	return size, err
}

// ParseBytes is ParseSize without percentages.
func ParseBytes(s string) (uint64, error) {
	bad := fmt.Errorf("invalid size %q: want for example 512, 64K, 8M or 2G", s)
	p := strings.Trim(s, blanks)
	if p == "" {
		return 0, bad
	}
	var sum uint64
	smallest := len(sizeUnits) // units get smaller from part to part
	for p != "" {
		whole, fraction, rest, ok := number(p)
		if !ok {
			return 0, bad
		}
		rest = strings.TrimLeft(rest, blanks)
		unit := 0
		if rest != "" {
			if unit = strings.IndexByte(sizeUnits, rest[0]); unit < 0 {
				return 0, bad
			}
			rest = rest[1:]
		}
		part := scale(whole, fraction, 1<<(10*unit))
		if unit >= smallest || part > math.MaxInt64-min(sum, math.MaxInt64) {
			return 0, bad
		}
		sum += part
		smallest = unit
		p = strings.TrimLeft(rest, blanks)
	}
	return sum, nil
}

// AppendBytes appends a number of bytes as systemd shows it: 11B, 3.5M. It cuts
// what follows the first decimal.
func AppendBytes(b []byte, n uint64) []byte {
	for i := len(sizeUnits) - 1; i > 0; i-- {
		factor := uint64(1) << (10 * i)
		if n < factor {
			continue
		}
		b = strconv.AppendUint(b, n/factor, 10)
		return append(b, '.', byte('0'+n/(factor/1024)*10/1024%10), sizeUnits[i])
	}
	return append(strconv.AppendUint(b, n, 10), 'B')
}

// ParseBool reads a boolean as systemd does.
func ParseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true, nil
	case "0", "no", "n", "false", "f", "off":
		return false, nil
	}
	return false, fmt.Errorf("invalid boolean %q: want yes or no", s)
}

// ParseLevel reads a syslog level: its name or its number from 0 to 7.
func ParseLevel(s string) (int, error) {
	if level, ok := entry.ParseLevel(s); ok {
		return level, nil
	}
	return 0, fmt.Errorf("invalid level %q: want emerg, alert, crit, err, warning, notice, info, debug or 0 to 7", s)
}

// ParseNotify reads a notify window: 0 (with every append), a duration in Go's
// form from 1ms to 1h, or a bare number of milliseconds.
func ParseNotify(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	p, err := settle.ParsePolicy(s)
	if err != nil || p.Window() == 0 || s == "everysec" {
		return 0, fmt.Errorf("invalid notify window %q: want 0 or a duration from 1ms to 1h such as 250ms", s)
	}
	return p.Window(), nil
}

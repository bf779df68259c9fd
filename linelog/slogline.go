package linelog

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// style is what a Handler knows of its lines: they are byte for byte those of
// slog.JSONHandler and slog.TextHandler, but made without their lock, and strings are
// looked at eight bytes at a time. Records with an attribute that is not of an ordinary
// kind are left to them.
type style struct {
	json   bool
	pre    []byte   // what WithAttrs has added, formatted
	prefix string   // logfmt: the groups of pre's last key, each with its dot
	groups []string // all that WithGroup has opened
	opened int      // of them, those that stand in pre
	odd    bool     // pre misses attributes that are not of an ordinary kind
}

// line is a record in the making.
type line struct {
	*style
	buf    []byte
	prefix []byte // logfmt: groups, each with its dot
	first  bool   // no separator before the next key
	clock  clock  // kept from record to record
}

// record formats r. It returns false if that is better left to package slog.
func (l *line) record(r *slog.Record) bool {
	if l.odd {
		return false
	}
	l.first = true
	if l.json {
		l.buf = append(l.buf, '{')
	}
	if !r.Time.IsZero() {
		l.plainKey(slog.TimeKey)
		if !l.time(r.Time) {
			return false
		}
	}
	l.plainKey(slog.LevelKey)
	l.text(r.Level.String())
	l.plainKey(slog.MessageKey)
	l.text(r.Message)
	if len(l.pre) > 0 {
		l.separate()
		l.buf = append(l.buf, l.pre...)
		l.first = l.json && l.pre[len(l.pre)-1] == '{'
	}
	open, ok := l.opened, true
	if r.NumAttrs() > 0 {
		l.prefix = append(l.prefix, l.style.prefix...)
		before := len(l.buf)
		l.open()
		some := false
		r.Attrs(func(a slog.Attr) bool {
			var added bool
			added, ok = l.attr(a)
			some = some || added
			return ok
		})
		if some {
			open = len(l.groups)
		} else {
			l.buf = l.buf[:before]
		}
	}
	if l.json {
		for range open + 1 {
			l.buf = append(l.buf, '}')
		}
	}
	l.buf = append(l.buf, '\n')
	return ok
}

// withAttrs adds attributes to what every line has.
func (s style) withAttrs(attrs []slog.Attr) style {
	if !slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Value.Kind() != slog.KindGroup || len(a.Value.Group()) > 0 }) {
		return s
	}
	l := line{style: &s, buf: slices.Clip(s.pre), prefix: []byte(s.prefix)}
	l.first = len(s.pre) == 0 || s.json && s.pre[len(s.pre)-1] == '{'
	l.open()
	some := false
	for _, a := range attrs {
		added, ok := l.attr(a)
		if !ok {
			s.odd = true
			return s
		}
		some = some || added
	}
	if some {
		s.pre, s.prefix, s.opened = l.buf, string(l.prefix), len(s.groups)
	}
	return s
}

// withGroup has the attributes that follow be in a group.
func (s style) withGroup(name string) style {
	s.groups = append(slices.Clip(s.groups), name)
	return s
}

// open begins the groups that pre has not.
func (l *line) open() {
	for _, name := range l.groups[l.opened:] {
		l.group(name)
	}
}

// group begins one.
func (l *line) group(name string) {
	if l.json {
		l.key(name)
		l.buf = append(l.buf, '{')
		l.first = true
		return
	}
	l.prefix = append(append(l.prefix, name...), '.')
}

// attr appends an attribute, if there is anything in it. ok is false if it is not of
// an ordinary kind.
func (l *line) attr(a slog.Attr) (added, ok bool) {
	kind := a.Value.Kind()
	switch kind {
	case slog.KindAny:
		// The zero Attr is left out.
		return false, a.Key == "" && a.Value.Any() == nil
	case slog.KindLogValuer:
		return false, false
	case slog.KindFloat64:
		if l.json {
			return false, false
		}
	case slog.KindGroup:
		return l.members(a)
	default:
	}
	l.key(a.Key)
	switch kind {
	case slog.KindString:
		l.text(a.Value.String())
	case slog.KindInt64:
		l.buf = strconv.AppendInt(l.buf, a.Value.Int64(), 10)
	case slog.KindUint64:
		l.buf = strconv.AppendUint(l.buf, a.Value.Uint64(), 10)
	case slog.KindBool:
		l.buf = strconv.AppendBool(l.buf, a.Value.Bool())
	case slog.KindFloat64:
		l.buf = strconv.AppendFloat(l.buf, a.Value.Float64(), 'g', -1, 64)
	case slog.KindDuration:
		if l.json {
			l.buf = strconv.AppendInt(l.buf, int64(a.Value.Duration()), 10)
		} else {
			l.buf = append(l.buf, a.Value.Duration().String()...)
		}
	case slog.KindTime:
		return true, l.time(a.Value.Time())
	default:
		return false, false
	}
	return true, true
}

// members appends a group.
func (l *line) members(a slog.Attr) (added, ok bool) {
	attrs := a.Value.Group()
	if len(attrs) == 0 {
		// slog drops the name and takes note of an attribute.
		return true, true
	}
	prefix := len(l.prefix)
	if a.Key != "" {
		l.group(a.Key)
	}
	for _, member := range attrs {
		some, ok := l.attr(member)
		if !ok {
			return false, false
		}
		added = added || some
	}
	l.prefix = l.prefix[:prefix]
	if a.Key != "" && l.json {
		l.buf = append(l.buf, '}')
		l.first = false
	}
	return added, added // slog has its own way with a group of nothing
}

// separate begins a key.
func (l *line) separate() {
	switch {
	case l.first:
		l.first = false
	case l.json:
		l.buf = append(l.buf, ',')
	default:
		l.buf = append(l.buf, ' ')
	}
}

// plainKey is key for a name that needs no quotes and is in no group.
func (l *line) plainKey(name string) {
	l.separate()
	if l.json {
		l.buf = append(append(append(l.buf, '"'), name...), `":`...)
		return
	}
	l.buf = append(append(l.buf, name...), '=')
}

// key appends a name and what is between it and its value.
func (l *line) key(name string) {
	l.separate()
	if l.json {
		l.quoted(name)
		l.buf = append(l.buf, ':')
		return
	}
	switch {
	case len(l.prefix) == 0:
		l.text(name)
	case bare(string(l.prefix)) && bare(name):
		l.buf = append(append(l.buf, l.prefix...), name...)
	default:
		l.buf = strconv.AppendQuote(l.buf, string(l.prefix)+name)
	}
	l.buf = append(l.buf, '=')
}

// text appends a string as the format has it.
func (l *line) text(s string) {
	switch {
	case l.json:
		l.quoted(s)
	case bare(s):
		l.buf = append(l.buf, s...)
	default:
		from := len(l.buf)
		l.buf = append(append(l.buf, '"'), s...)
		if in := l.buf[from+1:]; asIs(in) && bytes.IndexByte(in, del) < 0 {
			l.buf = append(l.buf, '"')
		} else {
			l.buf = strconv.AppendQuote(l.buf[:from], s)
		}
	}
}

// del is escaped by strconv.AppendQuote, and not in JSON.
const del = 0x7f

// time appends a time: with milliseconds in logfmt, with what there is in JSON. A
// year that has not four digits is not ordinary.
func (l *line) time(t time.Time) bool {
	if s := t.Unix(); s < firstYear || s > lastYear {
		return false
	}
	if l.clock.second != t.Unix() || l.clock.place != t.Location() {
		l.clock.set(t)
	}
	if l.json {
		l.buf = append(l.buf, '"')
	}
	l.buf = append(l.buf, l.clock.text[:clockLen]...)
	from := len(l.buf)
	l.buf = append(l.buf, '.', '0', '0', '0', '0', '0', '0', '0', '0', '0')
	for i, n := len(l.buf)-1, t.Nanosecond(); n > 0; i, n = i-1, n/10 {
		l.buf[i] = byte('0' + n%10)
	}
	if l.json {
		l.buf = bytes.TrimRight(l.buf, "0")
		if len(l.buf) == from+1 {
			l.buf = l.buf[:from] // no fraction, no point
		}
	} else {
		l.buf = l.buf[:from+len(".000")]
	}
	l.buf = append(l.buf, l.clock.text[clockLen:]...)
	if l.json {
		l.buf = append(l.buf, '"')
	}
	return true
}

// Years with four digits, in seconds since 1970; a day is left out at either end, as
// the zone may be any.
const (
	firstYear = -62167219200 + 24*3600
	lastYear  = 253402300800 - 24*3600
)

// clockLen is what of a time goes before its fraction.
const clockLen = len("2006-01-02T15:04:05")

// clock remembers how a second is written in some time zone: the next record is
// mostly of the same.
type clock struct {
	second int64
	place  *time.Location
	text   []byte // without the fraction
}

func (c *clock) set(t time.Time) {
	c.second, c.place = t.Unix(), t.Location()
	c.text = t.AppendFormat(c.text[:0], "2006-01-02T15:04:05Z07:00")
}

// bare tells whether a string stands in logfmt without quotes.
func bare(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c <= ' ' || c == '=' || c == '"' {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return false
		}
		i += size
	}
	return true
}

// quoted appends a JSON string. What is no UTF-8 becomes U+FFFD, and U+2028 and
// U+2029 are escaped, as encoding/json does.
func (l *line) quoted(s string) {
	b := append(l.buf, '"')
	if all := append(b, s...); asIs(all[len(b):]) {
		l.buf = append(all, '"')
		return
	}
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		escaped := ""
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				escaped = `\ufffd`
			case r == '\u2028':
				escaped = `\u2028`
			case r == '\u2029':
				escaped = `\u2029`
			default:
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch {
		case escaped != "":
			b = append(b, escaped...)
		case c >= ' ':
			b = append(b, '\\', c)
		default:
			b = control(b, c)
		}
		i += size
		from = i
	}
	l.buf = append(append(b, s[from:]...), '"')
}

// asIs tells whether text stands in JSON as it is: printable ASCII without a quote or a
// backslash. It looks at eight bytes at a time: of those below 0x20, x-0x20 borrows
// into the high bit, and a byte that is y is zero after x^y.
func asIs(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		if (x|(x-ones*' ')|(quote-ones)|(slash-ones))&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// control appends the escape of a control byte in JSON.
func control(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

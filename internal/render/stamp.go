package render

import (
	"strconv"
	"time"
)

// maxTime bounds a valid time in the journal, in µs: 2^55.
const maxTime = 1 << 55

const (
	usecPerSec = 1000000
	weekdays   = "SunMonTueWedThuFriSat"
	months     = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

// stampStyle says how a second is written.
type stampStyle uint8

const (
	stampSyslog stampStyle = iota // Nov 30 09:51:51
	stampISO                      // 2026-11-30T09:51:51, +0000 behind
	stampFull                     // Mon 2026-11-30 09:51:51, zone behind
)

// stamper writes times of the calendar. It keeps the text of the last second,
// since neighbouring entries mostly share it.
type stamper struct {
	style stampStyle
	usec  bool // microseconds behind the second
	loc   *time.Location

	sec  int64 // the second that head and tail are of; -1 none
	head []byte
	tail []byte
}

func newStamper(style stampStyle, usec bool, loc *time.Location) *stamper {
	return &stamper{style: style, usec: usec, loc: loc, sec: -1}
}

// append writes the time t, in µs since 1970.
func (s *stamper) append(b []byte, t uint64) []byte {
	if sec := int64(t / usecPerSec); sec != s.sec { //nolint:gosec // below 2^45
		s.renew(sec)
	}
	b = append(b, s.head...)
	if s.usec {
		b = append(b, '.')
		b = appendPadded(b, t%usecPerSec, 6, '0')
	}
	return append(b, s.tail...)
}

func (s *stamper) renew(sec int64) {
	t := time.Unix(sec, 0).In(s.loc)
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	h := s.head[:0]
	switch s.style {
	case stampSyslog:
		h = append(h, months[3*(month-1):3*month]...)
		h = append(h, ' ')
		h = append2(h, day)
		h = append(h, ' ')
	case stampISO, stampFull:
		if s.style == stampFull {
			day := t.Weekday()
			h = append(h, weekdays[3*day:3*day+3]...)
			h = append(h, ' ')
		}
		h = appendPadded(h, uint64(max(year, 0)), 4, '0') //nolint:gosec // not negative
		h = append(h, '-')
		h = append2(h, int(month))
		h = append(h, '-')
		h = append2(h, day)
		if s.style == stampISO {
			h = append(h, 'T')
		} else {
			h = append(h, ' ')
		}
	}
	h = append2(h, hour)
	h = append(h, ':')
	h = append2(h, minute)
	h = append(h, ':')
	h = append2(h, second)
	s.head, s.tail, s.sec = h, s.appendZone(s.tail[:0], t), sec
}

func (s *stamper) appendZone(b []byte, t time.Time) []byte {
	name, offset := t.Zone()
	switch s.style {
	case stampISO:
		sign := byte('+')
		if offset < 0 {
			sign, offset = '-', -offset
		}
		b = append(b, sign)
		b = append2(b, offset/3600)
		return append2(b, offset/60%60)
	case stampFull:
		b = append(b, ' ')
		return append(b, name...)
	default:
		return b
	}
}

// append2 writes n, 0 to 99, in two digits.
func append2(b []byte, n int) []byte {
	return append(b, byte('0'+n/10%10), byte('0'+n%10))
}

// appendPadded writes n in at least width columns, filled with pad.
func appendPadded(b []byte, n uint64, width int, pad byte) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], n, 10)
	for i := len(d); i < width; i++ {
		b = append(b, pad)
	}
	return append(b, d...)
}

// appendSeconds writes t µs as seconds in at least five columns and six
// decimals, as the monotonic modes do.
func appendSeconds(b []byte, t uint64, width int) []byte {
	b = appendPadded(b, t/usecPerSec, width, ' ')
	b = append(b, '.')
	return appendPadded(b, t%usecPerSec, 6, '0')
}

// parseTime reads a number as the C library's strtoull does with any base, for
// fields such as _SOURCE_REALTIME_TIMESTAMP. Times are below 2^55.
func parseTime(v []byte) (uint64, bool) {
	v = cstring(v)
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t' || v[0] == '\n' || v[0] == '\r') {
		v = v[1:]
	}
	if len(v) > 0 && v[0] == '+' {
		v = v[1:]
	}
	base := uint64(10)
	if len(v) > 1 && v[0] == '0' {
		if base, v = 8, v[1:]; v[0]|0x20 == 'x' {
			base, v = 16, v[1:]
		}
	}
	if len(v) == 0 || len(v) > 40 {
		return 0, false
	}
	var n uint64
	for _, c := range v {
		d := uint64(99)
		switch {
		case c >= '0' && c <= '9':
			d = uint64(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = uint64(c|0x20-'a') + 10
		}
		if d >= base || n > 1<<59 {
			return 0, false
		}
		n = n*base + d
	}
	return n, true
}

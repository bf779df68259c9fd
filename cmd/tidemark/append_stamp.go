package main

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// stampForm appends a time as a line begins with it, a blank included.
type stampForm func(b []byte, t time.Time) []byte

// stampForms are the values of --timestamp.
func stampForms() []cobra.Completion { return []cobra.Completion{"iso", "tai64n", "unix"} }

// parseStampForm reads the value of --timestamp; nil: no time.
func parseStampForm(text string) (stampForm, error) {
	switch text {
	case "":
		return nil, nil
	case "iso":
		return stampISO, nil
	case "tai64n":
		return stampTAI64N, nil
	case "unix":
		return stampUnix, nil
	}
	return nil, usagef("--timestamp %q: want iso, tai64n or unix", text)
}

// stampISO is RFC 3339 in UTC, to the microsecond.
func stampISO(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z ")
}

// stampTAI64N is the external TAI64N format (https://cr.yp.to/libtai/tai64.html) as
// multilog and s6-log write it: 10 s ahead of UTC, leap seconds since 1972 not counted.
func stampTAI64N(b []byte, t time.Time) []byte {
	b = append(b, '@')
	b = appendHex(b, uint64(t.Unix())+1<<62+10, 16)
	return append(appendHex(b, uint64(t.Nanosecond()), 8), ' ')
}

// appendHex appends v in so many digits.
func appendHex(b []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		b = append(b, "0123456789abcdef"[v>>(4*i)&15])
	}
	return b
}

// stampUnix is seconds since 1970, to the microsecond.
func stampUnix(b []byte, t time.Time) []byte {
	us := t.UnixMicro()
	b = strconv.AppendInt(b, us/1e6, 10)
	b = append(b, '.')
	for digit := int64(1e5); digit > 0; digit /= 10 {
		b = append(b, '0'+byte(us/digit%10))
	}
	return append(b, ' ')
}

// prefixer reads lines, each behind the time at which its beginning was read, and a
// text.
type prefixer struct {
	in     io.Reader
	stamp  stampForm // nil: no time
	text   string
	buf    []byte
	rest   []byte // of buf, not yet given out
	prefix []byte // of lines that begin in rest, or what is left to be given out of one
	left   int    // of prefix, to be given out now
	inside bool   // rest begins inside a line
	err    error  // of in, told when rest is empty
}

func newPrefixer(in io.Reader, stamp stampForm, text string) *prefixer {
	return &prefixer{in: in, stamp: stamp, text: text, buf: make([]byte, appendBuffer)}
}

// Read gives out lines with what they begin with.
func (r *prefixer) Read(p []byte) (n int, err error) {
	if len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var m int
		m, r.err = r.in.Read(r.buf)
		r.rest = r.buf[:m]
		r.prefix = r.prefix[:0]
		if r.stamp != nil {
			r.prefix = r.stamp(r.prefix, time.Now())
		}
		r.prefix = append(r.prefix, r.text...)
	}
	for n < len(p) && len(r.rest) > 0 {
		if !r.inside {
			r.inside, r.left = true, len(r.prefix)
		}
		if r.left > 0 {
			m := copy(p[n:], r.prefix[len(r.prefix)-r.left:])
			r.left, n = r.left-m, n+m
			continue
		}
		line := r.rest
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		m := copy(p[n:], line)
		r.inside = m < len(line) || line[m-1] != '\n'
		r.rest, n = r.rest[m:], n+m
	}
	return n, nil
}

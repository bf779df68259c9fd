package render

import (
	"bytes"

	"github.com/tidemark-log/tidemark/entry"
)

const (
	// printChars is where header fields are left out, and messages cut by
	// NoFull, in bytes (PRINT_CHAR_THRESHOLD of logs-show.c).
	printChars = 300
	// printLines is the number of lines NoFull leaves of a message.
	printLines = 3
)

// short is the family of line modes: time, host, identifier, message.
type short struct {
	mode    Mode
	o       Options
	full    bool // no cutting
	palette palette
	stamp   *stamper

	// prevReal, prevMono and prevBoot belong to the entry printed before.
	prevReal, prevMono uint64
	prevBoot           entry.ID

	h    header // of the entry in hand
	text []byte // scratch: the message without tabs and colours
}

// header holds the fields a line is made of, borrowed from the entry; nil
// means absent. Of a repeated field the last one counts.
type header struct {
	host, ident, comm, pid, syslogPID, message, priority []byte
	unit, userUnit, transport, realtime, monotonic       []byte
}

// headerFields are the names of the fields that header.take keeps.
var headerFields = [...]string{
	"MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_PID", "_PID", "_COMM", "_TRANSPORT", "_HOSTNAME",
	"_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT", "_SOURCE_REALTIME_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP",
}

func newShort(m Mode, o Options) *short {
	s := &short{mode: m, o: o, full: o.All || !o.NoFull, palette: o.Colors.palette()}
	switch m {
	case ShortFull, WithUnit:
		s.stamp = newStamper(stampFull, false, o.Location)
	case ShortISO, ShortISOPrecise:
		s.stamp = newStamper(stampISO, m == ShortISOPrecise, o.Location)
	default:
		s.stamp = newStamper(stampSyslog, m == ShortPrecise, o.Location)
	}
	return s
}

func (s *short) append(b []byte, e *entry.Entry) ([]byte, error) {
	s.h = header{}
	for _, f := range e.Fields {
		s.h.take(f)
	}
	realtime, monotonic := s.h.times(e)
	if s.h.message != nil {
		width := len(b)
		b = s.appendTime(b, realtime, monotonic, e.BootID)
		b, width = s.appendHeader(b, len(b)-width)
		b = s.appendMessage(b, width+2)
		b = s.o.appendExplained(b, e)
	}
	s.prevReal, s.prevMono, s.prevBoot = realtime, monotonic, e.BootID
	return b, nil
}

// take keeps f when the line needs it.
func (h *header) take(f []byte) {
	if len(f) < 5 {
		return
	}
	switch f[0] {
	case 'M':
		cut(f, "MESSAGE=", &h.message)
	case 'P':
		cut(f, "PRIORITY=", &h.priority)
	case 'S':
		if !cut(f, "SYSLOG_IDENTIFIER=", &h.ident) {
			cut(f, "SYSLOG_PID=", &h.syslogPID)
		}
	case '_':
		h.takeTrusted(f)
	}
}

func (h *header) takeTrusted(f []byte) {
	switch f[1] {
	case 'P':
		cut(f, "_PID=", &h.pid)
	case 'C':
		cut(f, "_COMM=", &h.comm)
	case 'T':
		cut(f, "_TRANSPORT=", &h.transport)
	case 'H':
		cut(f, "_HOSTNAME=", &h.host)
	case 'S':
		switch {
		case cut(f, "_SYSTEMD_UNIT=", &h.unit):
		case cut(f, "_SYSTEMD_USER_UNIT=", &h.userUnit):
		default:
			h.takeTime(f)
		}
	}
}

// takeTime keeps the times of the source: of each the last, but none behind the
// first pair.
func (h *header) takeTime(f []byte) {
	if h.realtime == nil || h.monotonic == nil {
		if !cut(f, "_SOURCE_REALTIME_TIMESTAMP=", &h.realtime) {
			cut(f, "_SOURCE_MONOTONIC_TIMESTAMP=", &h.monotonic)
		}
	}
}

// cut sets *value to what follows prefix in f.
func cut(f []byte, prefix string, value *[]byte) bool {
	if len(f) < len(prefix) || string(f[:len(prefix)]) != prefix {
		return false
	}
	*value = f[len(prefix):]
	return true
}

// times returns the times to show, those of the source where it gave valid
// ones.
func (h *header) times(e *entry.Entry) (realtime, monotonic uint64) {
	realtime, monotonic = e.Realtime, e.Monotonic
	if h.realtime != nil {
		if t, ok := parseTime(h.realtime); ok && t > 0 && t < maxTime {
			realtime = t
		}
	}
	if h.monotonic != nil {
		if t, ok := parseTime(h.monotonic); ok && t < maxTime {
			monotonic = t
		}
	}
	return realtime, monotonic
}

func (s *short) appendTime(b []byte, realtime, monotonic uint64, boot entry.ID) []byte {
	switch s.mode {
	case ShortUnix:
		return appendSeconds(b, realtime, 10)
	case ShortMonotonic:
		b = appendSeconds(append(b, '['), monotonic, 5)
		return append(b, ']')
	case ShortDelta:
		b = appendSeconds(append(b, '['), monotonic, 5)
		b = s.appendDelta(b, realtime, monotonic, boot)
		return append(b, ']')
	default:
		return s.stamp.append(b, realtime)
	}
}

// appendDelta writes the time since the entry before: by the monotonic clock
// within a boot, else, marked, by the realtime clock.
func (s *short) appendDelta(b []byte, realtime, monotonic uint64, boot entry.ID) []byte {
	mark := byte(' ')
	var delta uint64
	switch {
	case boot == s.prevBoot:
		delta = sub(monotonic, s.prevMono)
	case s.prevReal > 0:
		delta, mark = sub(realtime, s.prevReal), '*'
	default:
		return append(b, "                "...)
	}
	b = append(b, " <"...)
	b = appendSeconds(b, delta, 5)
	return append(b, mark, '>')
}

// sub returns a-b, 0 when b is larger.
func sub(a, b uint64) uint64 { return a - min(a, b) }

// shown reports whether a header field may be printed.
func (s *short) shown(v []byte) bool {
	return v != nil && (s.o.All || len(v) < printChars && entry.Printable(v, true))
}

// appendHeader writes host, identifier and pid, and returns the column that the
// message begins at, less two. It counts like journalctl, whose continuation
// lines are one column off where it miscounts.
func (s *short) appendHeader(b []byte, width int) ([]byte, int) {
	h := &s.h
	if !s.o.NoHostname && s.shown(h.host) {
		b = append(append(b, ' '), s.cstring(h.host)...)
		width += len(h.host) + 1
	}
	switch {
	case s.mode == WithUnit && (s.shown(h.unit) || s.shown(h.userUnit)):
		mark := byte(' ')
		if h.unit != nil {
			b = append(append(b, mark), s.cstring(h.unit)...)
			width += len(h.unit) + 1
			mark = '/'
		}
		if h.userUnit != nil {
			b = append(append(b, mark), s.cstring(h.userUnit)...)
			width += len(h.unit) + 1
		}
	case s.shown(h.ident):
		b = append(append(b, ' '), s.cstring(h.ident)...)
		width += len(h.ident) + 1
	case s.shown(h.comm):
		b = append(append(b, ' '), s.cstring(h.comm)...)
		width += len(h.comm) + 1
	default:
		b = append(b, " unknown"...)
	}
	pid := h.pid
	if !s.shown(pid) {
		pid = h.syslogPID
	}
	if s.shown(pid) {
		b = append(append(append(b, '['), s.cstring(pid)...), ']')
		width += len(pid) + 2
	}
	return append(b, ": "...), width
}

// cstring cuts v at its first NUL, which only All lets through: journalctl
// prints C strings.
func (s *short) cstring(v []byte) []byte {
	if s.o.All {
		return cstring(v)
	}
	return v
}

func cstring(v []byte) []byte {
	if i := bytes.IndexByte(v, 0); i >= 0 {
		return v[:i]
	}
	return v
}

func (s *short) appendMessage(b []byte, width int) []byte {
	m := s.h.message
	if !s.o.All {
		if bytes.IndexByte(m, '\t') >= 0 || bytes.IndexByte(m, '\x1b') >= 0 || bytes.IndexByte(m, '\r') >= 0 {
			s.text = appendPlain(s.text[:0], m)
			m = s.text
		}
	}
	if s.o.FirstLine {
		if i := bytes.IndexByte(m, '\n'); i >= 0 {
			m = m[:i]
		}
	}
	if !s.o.All {
		if !entry.Printable(m, true) {
			return appendBlob(b, len(m), "\n")
		}
	}
	t := text{indent: width, columns: s.o.Columns, full: s.full, cstrings: s.o.All, ascii: s.o.ASCII}
	if s.o.Colors != None {
		t.on, t.highlight, t.off = s.palette.priority(s.h.priority, string(s.h.transport) == "audit")
		// Without a match journalctl highlights the empty string at the start.
		t.marked = true
		if s.o.Highlight != nil {
			t.from, t.to, _ = s.o.Highlight(m)
		}
	}
	return t.append(b, m)
}

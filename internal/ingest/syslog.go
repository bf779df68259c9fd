package ingest

import (
	"bytes"
	"context"
)

// Syslog priorities: facility<<3 | level.
const (
	levelMask         = 7
	levelCount        = 8
	facilityMask      = 0x3f8
	syslogDefault     = 1<<3 | 6 // LOG_USER | LOG_INFO
	syslogStampLength = len("Mmm dd hh:mm:ss ")
)

func syslogReasons() reasons {
	return reasons{syslogEntries, syslogTruncated, syslogControl, syslogLimited, syslogLevel, syslogRefused}
}

// takeSyslog decodes a datagram of /dev/log. Descriptors are refused.
func (d *datagrams) takeSyslog(_ context.Context, m *message) {
	if len(m.fds) > 0 {
		d.in.counts.add(syslogFDs, 1)
		return
	}
	if len(m.data) == 0 {
		return
	}
	s := parseSyslog(m.data)
	p := d.peers.get(m)
	b := d.batch
	b.add(d.in.words.syslog)
	b.add(d.in.words.priority[s.priority&levelMask])
	if f := s.priority & facilityMask; f != 0 {
		b.addUint("SYSLOG_FACILITY=", uint64(f>>3))
	}
	if s.hasIdentifier {
		b.addBytes("SYSLOG_IDENTIFIER=", s.identifier)
	}
	if s.hasPID {
		b.addBytes("SYSLOG_PID=", s.pid)
	}
	if len(s.stamp) > 0 {
		b.addBytes("SYSLOG_TIMESTAMP=", s.stamp)
	}
	b.addBytes("MESSAGE=", s.text)
	if s.raw {
		b.addBytes("SYSLOG_RAW=", m.data)
	}
	level := uint8(s.priority & levelMask)
	d.finish(m, p, level, level <= 2, nil)
}

// syslogMessage is a datagram of /dev/log, taken to pieces.
type syslogMessage struct {
	priority              int
	stamp                 []byte // 16 bytes with the blank behind; empty: none
	identifier, pid, text []byte
	hasIdentifier, hasPID bool
	raw                   bool // the pieces do not tell all of the datagram
}

// parseSyslog reads what programs of old send to /dev/log, as journald does:
//
//	<PRI>Mmm dd hh:mm:ss identifier[pid]: text
//
// Everything but the text may be missing. White space around it and what
// follows a NUL are cut off. No host name is looked for.
func parseSyslog(datagram []byte) syslogMessage {
	s := syslogMessage{priority: syslogDefault}
	// A NUL at the end counts as white space, one before ends the text.
	rest := bytes.TrimLeft(bytes.TrimRight(datagram, whiteSpace+"\x00"), whiteSpace)
	if i := bytes.IndexByte(rest, 0); i >= 0 {
		rest = rest[:i]
	}
	s.raw = len(rest) < len(datagram)
	rest = parsePriority(rest, &s.priority, true)
	if n := syslogStamp(rest); n > 0 {
		s.stamp, rest = rest[:n], rest[n:]
	} else {
		s.raw = true
	}
	s.identify(rest)
	return s
}

// parsePriority reads <N> with one to three digits. Without facility only a
// level counts, and the facility stays what it was.
func parsePriority(p []byte, priority *int, facility bool) (rest []byte) {
	if len(p) < 3 || p[0] != '<' {
		return p
	}
	n := 0
	for i := 1; i < len(p) && i <= 4; i++ {
		c := p[i]
		if c == '>' && i > 1 {
			if !facility {
				if n > levelMask {
					return p
				}
				n |= *priority & facilityMask
			}
			*priority = n
			return p[i+1:]
		}
		if c < '0' || c > '9' {
			return p
		}
		n = n*10 + int(c-'0')
	}
	return p
}

// syslogStamp returns the length of the time stamp that p begins with, 0 for
// none.
func syslogStamp(p []byte) int {
	// A letter, 0 a digit, 9 a blank or a digit.
	const form = "AAA 90 90:90:90 "
	if len(p) < syslogStampLength {
		return 0
	}
	for i := range syslogStampLength {
		c := p[i]
		ok := c == form[i]
		switch form[i] {
		case 'A':
			ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		case '0':
			ok = c >= '0' && c <= '9'
		case '9':
			ok = c >= '0' && c <= '9' || c == ' '
		}
		if !ok {
			return 0
		}
	}
	return syslogStampLength
}

// identify splits off the first word if it ends in a colon: an identifier,
// perhaps with a pid in brackets. One white space behind it belongs to it.
func (s *syslogMessage) identify(p []byte) {
	s.identifier, s.pid, s.text, s.hasIdentifier, s.hasPID = splitIdentifier(p)
}

func splitIdentifier(p []byte) (identifier, pid, text []byte, hasIdentifier, hasPID bool) {
	word := bytes.TrimLeft(p, whiteSpace)
	end := bytes.IndexAny(word, whiteSpace)
	if end < 0 {
		end = len(word)
	}
	if end == 0 || word[end-1] != ':' {
		return nil, nil, p, false, false
	}
	text = word[end:]
	if len(text) > 0 {
		text = text[1:]
	}
	identifier = word[:end-1]
	if n := len(identifier); n > 0 && identifier[n-1] == ']' {
		if open := bytes.LastIndexByte(identifier[:n-1], '['); open >= 0 {
			pid, identifier, hasPID = identifier[open+1:n-1], identifier[:open], true
		}
	}
	return identifier, pid, text, true, hasPID
}

package ingest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
)

const (
	// streamRead is how much one turn of a stream reads: what bounds it against
	// the others.
	streamRead = 64 << 10
	// maxHeaderLine is the longest line of a stream's header, as journald's.
	maxHeaderLine = 255
	// headerLines is how many lines come before the text.
	headerLines = 7
	// noTurn stands for the bytes read when all turns are taken.
	noTurn = -2
)

// streamBuffer is what a stream needs while it has something to read. Sleeping
// streams have none.
type streamBuffer struct {
	data  []byte // the unfinished line, then what is read
	batch batch
	msg   message
	ctrl  control
	hdr   unix.Msghdr
	iov   unix.Iovec
	proc  *procReader
}

func newStreamBuffer(in *Ingest) *streamBuffer {
	b := &streamBuffer{
		data: make([]byte, max(in.cfg.LineMax, maxHeaderLine)+streamRead),
		proc: in.proc(),
	}
	b.msg.clear()
	return b
}

// stream is one connection to the stdout socket.
type stream struct {
	l    *listener
	file *os.File
	raw  syscall.RawConn
	bell *watch // wakes us when there is something to read
	gate gate
	try  func() bool      // s.attempt, bound once
	recv func(fd uintptr) // s.recvmsg, bound once

	header   streamHeader
	id       entry.Field // _STREAM_ID
	ident    entry.Field // SYSLOG_IDENTIFIER; nil: none
	facility entry.Field // SYSLOG_FACILITY; nil: kernel's
	rest     []byte      // the unfinished line

	sender *peer
	creds  credentials // of the sender
	peer   credentials // who has connected

	buf   *streamBuffer // while there is something to read
	turn  bool          // holds one of the listener's turns
	park  bool
	n     int
	errno error
	now   time.Duration // of the last read

	before time.Duration // of the one before, or of the end of a pause behind it
}

// newStream takes over fd if it returns no error.
func newStream(l *listener, fd int) (*stream, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("accept stream: %w", err)
	}
	unix.Shutdown(fd, unix.SHUT_WR)                               //nolint:errcheck // a courtesy to the client
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)  //nolint:errcheck // else SO_PEERCRED has to do
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1) //nolint:errcheck // since 6.5
	id := make([]byte, 16)
	rand.Read(id)
	s := &stream{l: l, id: entry.Field("_STREAM_ID=" + hex.EncodeToString(id))}
	s.peer = credentials{cred.Pid, cred.Uid, cred.Gid}
	s.creds = s.peer
	if s.bell, err = newWatch(fd, streamName); err != nil {
		return nil, fmt.Errorf("accept stream: %w", err)
	}
	s.file = os.NewFile(uintptr(fd), streamName)
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.bell.close()
		return nil, fmt.Errorf("accept stream: %w", err)
	}
	s.gate.deadline = s.bell.deadline
	s.try, s.recv = s.attempt, s.recvmsg
	return s, nil
}

const streamName = "stdout stream"

// streamHeader is what a client says about its lines before it sends them.
type streamHeader struct {
	lines       int // read so far
	identifier  string
	unit        string // taken from root only
	priority    int
	levelPrefix bool
}

// errHeader is a malformed header: the connection is closed.
var errHeader = errors.New("malformed stream header")

// line reads the next line of the header.
func (h *streamHeader) line(line []byte, uid uint32) error {
	text := string(trimSpace(line))
	switch h.lines {
	case 0:
		h.identifier = text
	case 1:
		if uid == 0 && validUnit(text, true) {
			h.unit = text
		}
	case 2:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 999 {
			return errHeader
		}
		h.priority = n
	default:
		on, err := config.ParseBool(text)
		if err != nil {
			return errHeader
		}
		if h.lines == 3 {
			h.levelPrefix = on
		} // the rest is about forwarding, which is not done here
	}
	h.lines++
	return nil
}

// run reads until the client has closed the stream, or the gate's end: then what
// is queued is read and an unfinished line is taken as it is.
func (s *stream) run(ctx context.Context) {
	var waiting []*barrier
	defer func() {
		s.closeFiles()
		s.returnBuffer()
		s.gate.close(waiting, ctx.Err() != nil)
	}()
	goal := -1 // bytes to read before the barriers are passed; -1: there are none
	refused := false
	for {
		before := len(waiting)
		var ending bool
		waiting, ending = s.gate.look(waiting)
		if ending && !refused {
			refused, goal = true, -1
			control1(s.raw, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }) //nolint:errcheck // a closed socket refuses too
		}
		if len(waiting) > before || ending && goal < 0 {
			goal = s.queued()
		}
		due := goal >= 0
		passed := false
		err := s.receive(!due)
		switch {
		case err == nil && s.n == noTurn:
			if !s.l.waitTurn(ctx) {
				return
			}
			s.turn = true
			continue
		case isTimeout(err):
			s.gate.woken()
			continue
		case err != nil:
			s.l.in.counts.add(stdoutRead, 1)
			return
		case s.n < 0:
			passed = due // nothing is queued
		case s.n == 0:
			s.finish(ctx)
			return
		default:
			if err := s.take(ctx); err != nil {
				return
			}
			s.returnBuffer() // others may be waiting for it
			if !due {
				s.gather()
			}
			// The end of the stream may stand behind the last byte: read once more.
			passed = goal == 0
			goal = max(goal-s.n, min(goal, 0))
		}
		if passed {
			for _, b := range waiting {
				b.arrive()
			}
			waiting = waiting[:0]
			goal = -1
			if ending {
				s.finish(ctx)
				return
			}
		}
	}
}

// take splits what was read into lines and hands them over. An error ends the
// stream.
func (s *stream) take(ctx context.Context) error {
	b := s.buf
	s.now, _ = s.l.in.now()
	s.l.in.host.refresh(s.now)
	data := b.data[:len(s.rest)+s.n]
	changed := b.msg.known && b.msg.pid > 0 && b.msg.pid != s.creds.pid
	if changed && len(s.rest) > 0 && s.header.lines == headerLines {
		// Somebody else goes on: what the former has begun is a line of its own.
		s.identify(nil)
		s.record(data[:len(s.rest)], "_LINE_BREAK=pid-change")
		data = data[len(s.rest):]
	}
	if b.msg.known && b.msg.pid > 0 {
		s.creds = b.msg.credentials
	}
	rest, err := s.split(ctx, data, &b.msg)
	if err != nil {
		if errors.Is(err, errHeader) {
			s.l.in.counts.add(stdoutHeader, 1)
		}
		return err
	}
	err = s.send(ctx)
	s.l.in.took(&s.l.in.turns.stdout, s.now)
	s.keep(rest)
	return err
}

// keep remembers an unfinished line. Its memory is let go when a long one has
// ended.
func (s *stream) keep(rest []byte) {
	if len(rest) == 0 && cap(s.rest) > 4096 {
		s.rest = nil
		return
	}
	s.rest = append(s.rest[:0], rest...)
}

// send hands over the batch; only the end of ctx is an error.
func (s *stream) send(ctx context.Context) error {
	b := &s.buf.batch
	_, err := s.l.in.hand(ctx, b, stdoutEntries, stdoutRefused)
	b.reset()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// finish takes an unfinished line when no more will come.
func (s *stream) finish(ctx context.Context) {
	if len(s.rest) == 0 {
		return
	}
	if s.header.lines < headerLines {
		s.l.in.counts.add(stdoutHeader, 1)
		return
	}
	if s.buf == nil && !s.takeBuffer() {
		if !s.l.waitTurn(ctx) {
			return
		}
		s.turn = true
		s.takeBuffer()
	}
	s.now, _ = s.l.in.now()
	s.identify(nil)
	s.record(s.rest, "_LINE_BREAK=eof")
	s.send(ctx) //nolint:errcheck // the stream ends either way
}

// split records the lines of data and returns the unfinished one.
func (s *stream) split(ctx context.Context, data []byte, m *message) (rest []byte, err error) {
	known := false
	for {
		limit := s.l.in.cfg.LineMax
		if s.header.lines < headerLines {
			limit = maxHeaderLine
		}
		line, skip, lineBreak := nextLine(data, limit)
		if skip == 0 {
			return data, nil
		}
		data = data[skip:]
		if s.header.lines < headerLines {
			if lineBreak != "" {
				return nil, errHeader
			}
			if err := s.header.line(line, s.peer.uid); err != nil {
				return nil, err
			}
			s.begin()
			continue
		}
		if !known {
			s.identify(m)
			known = true
		}
		if len(s.buf.batch.entries) >= maxBatch {
			if err := s.send(ctx); err != nil {
				return nil, err
			}
		}
		s.record(line, lineBreak)
	}
}

// begin prepares the fields of all lines once the header is complete.
func (s *stream) begin() {
	if s.header.lines < headerLines {
		return
	}
	if s.header.identifier != "" {
		s.ident = entry.Field("SYSLOG_IDENTIFIER=" + s.header.identifier)
	}
	if f := s.header.priority & facilityMask; f != 0 {
		s.facility = entry.Field("SYSLOG_FACILITY=" + strconv.Itoa(f>>3))
	}
}

// nextLine finds the first line in data: up to a newline, a NUL or limit bytes.
// skip is its length with what ends it, 0 if it has not ended. lineBreak tells
// of another end than a newline.
func nextLine(data []byte, limit int) (line []byte, skip int, lineBreak string) {
	window := data[:min(len(data), limit)]
	end := bytes.IndexByte(window, '\n')
	if end >= 0 {
		window = window[:end]
	}
	if zero := bytes.IndexByte(window, 0); zero >= 0 {
		return window[:zero], zero + 1, "_LINE_BREAK=nul"
	}
	switch {
	case end >= 0:
		return window, end + 1, ""
	case len(data) >= limit:
		return window, limit, "_LINE_BREAK=line-max"
	}
	return nil, 0, ""
}

// stripLine cuts white space off the end of a line that has more than that.
func stripLine(line []byte) []byte {
	if stripped := bytes.TrimRight(line, whiteSpace); len(stripped) > 0 {
		return stripped
	}
	return line
}

// record adds a line to the batch.
func (s *stream) record(line []byte, lineBreak string) {
	line = stripLine(line)
	priority := s.header.priority
	if s.header.levelPrefix {
		line = parsePriority(line, &priority, false)
	}
	if len(line) == 0 {
		return
	}
	b := &s.buf.batch
	b.add(s.l.in.words.stdout)
	b.add(s.id)
	b.add(s.l.in.words.priority[priority&levelMask])
	if s.facility != nil {
		b.add(s.facility)
	}
	if s.ident != nil {
		b.add(s.ident)
	}
	if lineBreak != "" {
		b.add(entry.Field(lineBreak))
	}
	b.addBytes("MESSAGE=", line)
	level := uint8(priority & levelMask)
	owner := uint32(0)
	if !s.l.in.passes(b, s.sender, level, s.now, stdoutReasons()) {
		return
	}
	if p := s.sender; p != nil {
		b.addAll(p.fields)
		owner = p.uid
	}
	b.addAll(s.l.in.host.fields())
	b.end(owner, level <= 2)
}

func stdoutReasons() reasons {
	return reasons{entries: stdoutEntries, limited: stdoutLimited, level: stdoutLevel, refused: stdoutRefused}
}

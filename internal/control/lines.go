package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// Errors of AppendLines.
const (
	// ErrorNoFile tells that no call of this connection has brought descriptors.
	ErrorNoFile = "dev.tidemark.Log.NoFile"
	// ErrorRefused tells why descriptors are not taken; its parameters are a
	// Refused.
	ErrorRefused = "dev.tidemark.Log.Refused"
)

// Lines is the file of one client. Its methods are called by one goroutine.
type Lines interface {
	// Append takes whole lines, which end in a newline, all of them or none. It
	// waits while the buffer of the file is full. Nothing of lines is kept. Without
	// lines Wait is for all that was taken for the file until now, from anyone.
	Append(ctx context.Context, lines []byte) error
	// Wait returns nil when all lines taken so far have reached the level. After an
	// error they may reach it all the same; another Wait tells.
	Wait(ctx context.Context, level settle.Level) error
	// Close says that the client has gone. What was taken is written.
	Close()
}

// RefusedError is returned by OpenLines for descriptors that are not what a client
// has to pass.
type RefusedError interface {
	error
	// Refused tells in words what is wrong.
	Refused() string
}

// Refused are the parameters of ErrorRefused.
type Refused struct {
	Reason string `json:"reason"`
}

// AppendLinesCall are the parameters of dev.tidemark.Log.AppendLines. The lines of
// Lines come before those of Data.
type AppendLinesCall struct {
	// Lines in UTF-8, without their newlines.
	Lines []string `json:"lines,omitempty"`
	// Data are whole lines of any bytes, in base64 on the wire; a newline is added
	// at the end if there is none.
	Data []byte `json:"data,omitempty"`
	// Ack is the level to wait for; empty: appended.
	Ack string `json:"ack,omitempty"`
}

// LinesAppended is what an AppendLines has come to.
type LinesAppended struct {
	// Accepted counts the lines of the call: all of them, or none.
	Accepted int `json:"accepted"`
	// Ack is the level that all lines have reached that this connection has sent to
	// its file.
	Ack string `json:"ack"`
}

// clientLines is the file of a connection.
type clientLines struct {
	file   Lines // nil: there is none
	failed error // of a call without an answer; what comes behind it is refused
}

// appendLines takes lines for the file whose descriptors have come with this call,
// or with an earlier one of the connection. A call that wants no answer waits for
// nothing but room; its failure is told by the calls that follow.
func (s *Server) appendLines(ctx context.Context, in call) reply {
	level, ok := ackLevel(in.Parameters["ack"])
	if !ok {
		return in.missed(invalid("ack"), errors.New("invalid parameter ack"))
	}
	lines, bad := readLines(in.Parameters)
	if bad != "" {
		return in.missed(invalid(bad), errors.New("invalid parameter "+bad))
	}
	c := in.conn
	if c != nil && c.lines.failed != nil {
		return linesNotReached(0, settle.Accepted, fmt.Errorf("an earlier call failed: %w", c.lines.failed))
	}
	if out, err := s.takeFile(ctx, in); err != nil {
		return in.missed(out, err)
	}
	if c == nil || c.lines.file == nil {
		return in.missed(failure(ErrorNoFile, none{}), errors.New("no call has brought descriptors"))
	}
	return c.appendTo(ctx, in, lines, level)
}

// appendTo hands lines to the file of the connection, which has one.
func (c *conn) appendTo(ctx context.Context, in call, lines []byte, level settle.Level) reply {
	defer c.unbind()()
	if len(lines) > 0 || !in.Oneway {
		if err := c.patiently(ctx, func(ctx context.Context) error { return c.lines.file.Append(ctx, lines) }); err != nil {
			return in.missed(linesNotReached(0, settle.Accepted, err), err)
		}
	}
	n := bytes.Count(lines, []byte{'\n'})
	if in.Oneway {
		return reply{}
	}
	reached := settle.Accepted
	for l := settle.Appended; l <= max(level, settle.Appended); l++ {
		if err := c.patiently(ctx, func(ctx context.Context) error { return c.lines.file.Wait(ctx, l) }); err != nil {
			return linesNotReached(n, reached, err)
		}
		reached = l
	}
	return reply{Parameters: LinesAppended{Accepted: n, Ack: reached.String()}}
}

// quickHead and quickTail are around the data of a call as linelog.Dial writes it.
var quickHead, quickTail = []byte(`{"method":"` + MethodAppendLines + `","parameters":{"data":"`), []byte(`"}}`)

// quickLines returns the lines of a call in that very form, valid until the next. The
// way for all calls would look at each byte of it five times.
func (c *conn) quickLines(message []byte) (lines []byte, ok bool) {
	data, ok := bytes.CutPrefix(message, quickHead)
	if !ok {
		return nil, false
	}
	if data, ok = bytes.CutSuffix(data, quickTail); !ok || len(data) == 0 || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		return nil, false // the decoder would skip line breaks, which no JSON string has
	}
	if cap(c.decoded) > longReply && len(data) < firstBuffer {
		c.decoded = nil
	}
	lines, err := base64.StdEncoding.AppendDecode(c.decoded[:0], data)
	if err != nil || len(lines) == 0 || lines[len(lines)-1] != '\n' {
		return nil, false
	}
	c.decoded = lines
	return lines, true
}

// missed remembers the failure of a call that gets no answer.
func (in *call) missed(out reply, err error) reply {
	if c := in.conn; c != nil && in.Oneway && c.lines.failed == nil {
		c.lines.failed = err
	}
	return out
}

func linesNotReached(accepted int, reached settle.Level, err error) reply {
	number := syscall.EIO
	errors.As(err, &number)
	done := Appended{Accepted: accepted, Ack: reached.String()}
	return failure(ErrorNotReached, NotReached{Appended: done, Errno: int(number), Message: err.Error()})
}

// readLines reads the lines of a call. bad is the parameter that is wrong; empty:
// none.
func readLines(parameters map[string]json.RawMessage) (lines []byte, bad string) {
	if raw := parameters["lines"]; raw != nil {
		var list []string
		if json.Unmarshal(raw, &list) != nil {
			return nil, "lines"
		}
		for n, line := range list {
			if strings.IndexByte(line, '\n') >= 0 {
				return nil, fmt.Sprintf("lines[%d]", n)
			}
			lines = append(append(lines, line...), '\n')
		}
	}
	if raw := parameters["data"]; raw != nil {
		var data []byte
		if json.Unmarshal(raw, &data) != nil {
			return nil, "data"
		}
		if lines == nil {
			lines = data
		} else {
			lines = append(lines, data...)
		}
	}
	if n := len(lines); n > 0 && lines[n-1] != '\n' {
		lines = append(lines, '\n')
	}
	return lines, ""
}

// takeFile has the descriptors that came with a call become the file of its
// connection.
func (s *Server) takeFile(ctx context.Context, in call) (out reply, err error) {
	refuse := func(reason string) (reply, error) {
		return failure(ErrorRefused, Refused{Reason: reason}), errors.New(reason)
	}
	switch {
	case in.conn == nil || in.passed == nil || len(in.passed.fds) == 0 && !in.passed.many:
		return reply{}, nil
	case in.passed.many:
		return refuse("want two descriptors: there were more, or the daemon is out of them")
	}
	c := in.conn
	if !c.beginFile() {
		err := fmt.Errorf("too many clients with files: %w", syscall.EBUSY)
		return outcome(err), err
	}
	fds := in.passed.take()
	repairing := -1
	if len(fds) > 1 {
		repairing = fds[1]
	}
	file, err := s.daemon.OpenLines(ctx, in.from, fds[0], repairing)
	var refused RefusedError
	switch {
	case err == nil:
		if c.lines.file != nil {
			c.lines.file.Close()
		}
		c.lines.file = file
		return reply{}, nil
	case c.lines.file == nil:
		c.endFile()
	}
	if errors.As(err, &refused) {
		return refuse(refused.Refused())
	}
	return outcome(err), err
}

// patience is how long a call may wait before it is watched whether the client is
// still there, which costs more than most waits.
const patience = time.Second

// patiently calls f, which may be called again when its context has ended, until it
// returns or the client hangs up.
func (c *conn) patiently(ctx context.Context, f func(context.Context) error) error {
	quick, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f(quick)
	if err == nil || quick.Err() == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	watched, done := c.watch(ctx)
	defer done()
	return f(watched)
}

// beginFile reports whether the user may have one more connection with a file:
// others are kept for commands.
func (c *conn) beginFile() bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.filed {
		return true
	}
	if !s.roomForSlow(c.uid) {
		return false
	}
	c.filed = true
	s.filed[c.uid]++
	return true
}

// endFile takes beginFile back.
func (c *conn) endFile() {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.filed {
		c.filed = false
		lessOf(s.filed, c.uid)
	}
}

// roomForSlow reports whether one more of the user's connections may wait for a
// disk. The caller has s.mu.
func (s *Server) roomForSlow(uid uint32) bool {
	return s.filed[uid]+s.slow[uid] < max(1, s.limits.ConnsPerUID*3/4)
}

// dropLines ends the file of the connection.
func (c *conn) dropLines() {
	if c.lines.file != nil {
		c.lines.file.Close()
	}
	c.lines = clientLines{}
	c.endFile()
}

// tooLong is what is said to a message over the limit, before its connection is
// closed.
func (s *Server) tooLong() reply {
	return outcome(fmt.Errorf("a message may have %d bytes: send less with each: %w", s.limits.Message, syscall.EMSGSIZE))
}

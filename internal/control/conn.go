package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tidemark-log/tidemark/settle"
)

// errTooMuch ends a connection whose user, or all, have too many bytes of
// messages here that have not ended.
var errTooMuch = errors.New("too many bytes of unfinished messages")

// errTooLong ends a connection whose message exceeds the limit.
var errTooLong = errors.New("message too long")

// firstBuffer is the size of a connection's buffer until a longer message
// comes.
const firstBuffer = 4 << 10

// longReply is the size of a reply from which on its buffer is let go.
const longReply = 64 << 10

// conn is one client. Only its own goroutine uses it, but for the deadline.
type conn struct {
	server *Server
	wire   wire
	uid    uint32
	from   Peer
	own    bool // it has a thread of its own
	last   bool // it has the reserved descriptor

	buf   []byte // read and not yet consumed bytes: buf[start:]
	start int
	out   bytes.Buffer // of the last reply
	held  int          // guarded by server.mu; size of a large buf, counted there
	half  bool         // a message has begun and not ended

	oob     []byte   // for the control messages of a read
	got     int64    // bytes read so far
	waiting []passed // descriptors of messages that have not ended
	lines   clientLines
	decoded []byte // for quickLines
	filed   bool   // guarded by server.mu; it counts among the connections with a file
}

// call is one message of a client.
type call struct {
	Method     string
	Parameters map[string]json.RawMessage
	Oneway     bool
	More       bool

	// Not in the message:
	from   Peer
	conn   *conn   // nil in tests
	passed *passed // descriptors that came with it
}

// reply is one message to a client.
type reply struct {
	Error      string `json:"error,omitempty"`
	Parameters any    `json:"parameters"`
}

// serve answers calls until the client closes, breaks the protocol or the
// server ends. What breaks the protocol gets no reply, as with systemd.
func (c *conn) serve(ctx context.Context) {
	defer c.dropPassed()
	defer c.dropLines()
	if c.last {
		c.wire.limitReads(time.Now().Add(c.server.short))
		c.half = true // so that nothing else limits the message
	}
	for {
		message, err := c.next()
		if errors.Is(err, errTooLong) {
			c.send(c.server.tooLong()) //nolint:errcheck // the connection ends
			return
		}
		if err != nil {
			return
		}
		fds := c.takePassed()
		if c.lines.file != nil && c.lines.failed == nil && len(fds.fds) == 0 && !fds.many {
			if lines, ok := c.quickLines(message); ok {
				if c.send(c.appendTo(ctx, call{}, lines, settle.Appended)) != nil || c.last {
					return
				}
				continue
			}
		}
		in, err := parseCall(message)
		if err != nil {
			fds.close()
			return
		}
		in.conn, in.passed = c, &fds
		out := c.server.answer(ctx, c, c.uid, in)
		fds.close() // those that the method has not taken
		if !in.Oneway && c.send(out) != nil || c.last {
			return
		}
	}
}

// next returns the bytes before the next NUL, valid until the following call.
func (c *conn) next() ([]byte, error) {
	return nextMessage(c, &c.buf, &c.start, c.server.limits.Message, c)
}

// nextMessage reads one NUL-terminated message of at most limit bytes from r.
// buf[start:] holds what was read beyond the previous message. c, if there is
// one, accounts for buf.
func nextMessage(r io.Reader, buf *[]byte, start *int, limit int, c *conn) ([]byte, error) {
	scanned := *start
	for {
		if i := bytes.IndexByte((*buf)[scanned:], 0); i >= 0 {
			if scanned+i-*start > limit {
				return nil, errTooLong
			}
			c.whole()
			message := (*buf)[*start : scanned+i]
			*start = scanned + i + 1
			return message, nil
		}
		scanned = len(*buf)
		if scanned-*start > limit {
			return nil, errTooLong
		}
		if *start > 0 {
			// Keep the rest in the old buffer when it is small, in a new one when a
			// long message had made it big.
			rest := (*buf)[*start:]
			if cap(*buf) > firstBuffer && len(rest) < firstBuffer {
				*buf = append(make([]byte, 0, firstBuffer), rest...)
				c.hold(firstBuffer) //nolint:errcheck // less than before
			} else {
				*buf = append((*buf)[:0], rest...)
			}
			scanned, *start = len(*buf), 0
		}
		if len(*buf) == cap(*buf) {
			size := max(firstBuffer, min(2*cap(*buf), limit+firstBuffer))
			if err := c.hold(size); err != nil {
				return nil, err
			}
			grown := make([]byte, len(*buf), size)
			copy(grown, *buf)
			*buf = grown
		}
		c.begun(len(*buf) > *start)
		n, err := r.Read((*buf)[len(*buf):cap(*buf)])
		*buf = (*buf)[:len(*buf)+n]
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// parseCall reads one call strictly: an unknown or repeated member, or one of
// the wrong type, is an error.
func parseCall(message []byte) (call, error) {
	if method, ok := plainCall(message); ok {
		return call{Method: method}, nil
	}
	var in call
	dec := json.NewDecoder(bytes.NewReader(message))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return call{}, errors.New("not a JSON object")
	}
	seen := make(map[string]bool, 4)
	upgrade := false
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return call{}, err
		}
		name, _ := tok.(string)
		if seen[name] {
			return call{}, errors.New("member " + name + " twice")
		}
		seen[name] = true
		var target any
		switch name {
		case "method":
			target = &in.Method
		case "parameters":
			target = &in.Parameters
		case "oneway":
			target = &in.Oneway
		case "more":
			target = &in.More
		case "upgrade":
			target = &upgrade
		default:
			return call{}, errors.New("unknown member " + name)
		}
		if err := dec.Decode(target); err != nil {
			return call{}, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return call{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return call{}, errors.New("bytes behind the object")
	}
	if in.Method == "" || (in.Oneway && in.More) || upgrade {
		return call{}, errors.New("no method, or members that exclude each other")
	}
	return in, nil
}

// plainCall is the method of a call that consists of nothing else, as most programs
// write it.
func plainCall(message []byte) (method string, ok bool) {
	name, ok := bytes.CutPrefix(message, []byte(`{"method":"`))
	if !ok {
		return "", false
	}
	n := 0
	for n < len(name) && (name[n] == '.' || name[n] >= 'A' && name[n] <= 'Z' || name[n] >= 'a' && name[n] <= 'z') {
		n++
	}
	switch string(name[n:]) {
	case `"}`, `","parameters":{}}`:
		return string(name[:n]), n > 0
	}
	return "", false
}

// send writes a reply, from a buffer that is kept for the next one unless it is long.
func (c *conn) send(out reply) error {
	if c.out.Cap() > longReply {
		c.out = bytes.Buffer{}
	}
	c.out.Reset()
	if st, ok := out.Parameters.(*keptStatus); ok && out.Error == "" {
		b := st.appendJSON(append(c.out.AvailableBuffer(), `{"parameters":`...))
		c.out.Write(append(b, "}\n"...))
		c.server.statuses.Put(st)
	} else if err := json.NewEncoder(&c.out).Encode(out); err != nil {
		return err
	}
	message := c.out.Bytes()
	if len(message)-1 > c.server.limits.Message {
		return errTooLong
	}
	message[len(message)-1] = 0 // where Encode ends the line
	if err := c.wire.limitWrite(c.server.unread); err != nil {
		return err
	}
	_, err := c.wire.Write(message)
	return err
}

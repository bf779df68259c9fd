package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// ErrorNotReached tells that not all entries of an Append have reached the level
// that was asked for; its parameters are a NotReached.
const ErrorNotReached = "dev.tidemark.Log.NotReached"

// MaxEntries is how many entries a call may have.
const MaxEntries = 4096

// Peer is the process that has connected, as the kernel tells it.
type Peer struct {
	PID      int32
	UID, GID uint32
	// Since is when it has connected, or a moment later.
	Since time.Time
}

// Entry is an entry of an Append.
type Entry struct {
	// Fields are NAME=value in UTF-8.
	Fields []string `json:"fields,omitempty"`
	// Binary are NAME=value of any bytes, in base64 on the wire. They stand behind
	// Fields.
	Binary [][]byte `json:"binary,omitempty"`
}

// AppendCall are the parameters of dev.tidemark.Log.Append.
type AppendCall struct {
	Entries []Entry `json:"entries"`
	// Ack is the level to wait for; empty: that of the sync policy.
	Ack string `json:"ack,omitempty"`
}

// Appended is what an Append has come to.
type Appended struct {
	// Accepted counts the first entries of the call that were taken, Dropped those
	// of them that the configuration keeps out.
	Accepted int `json:"accepted"`
	Dropped  int `json:"dropped"`
	// Ack is the level that all entries taken and not dropped have reached.
	Ack string `json:"ack"`
}

// NotReached are the parameters of ErrorNotReached: how far the call came, and
// why no further.
type NotReached struct {
	Appended
	Errno   int    `json:"errno"`
	Message string `json:"message"`
}

// append takes entries and answers when they are as safe as was asked for.
// Nothing is taken of a call that is wrong.
func (s *Server) append(ctx context.Context, in call) reply {
	level, ok := ackLevel(in.Parameters["ack"])
	if !ok {
		return invalid("ack")
	}
	entries, bad := readEntries(in.Parameters["entries"])
	if bad != "" {
		return invalid(bad)
	}
	done, err := s.daemon.Append(ctx, in.from, entries, level)
	if err == nil {
		return reply{Parameters: done}
	}
	number := syscall.EIO
	errors.As(err, &number)
	return failure(ErrorNotReached, NotReached{Appended: done, Errno: int(number), Message: err.Error()})
}

// readEntries reads the entries of a call one after the other, so that a message
// full of the shortest ones costs no multiple of its size. bad is the parameter
// that is wrong; empty: none.
func readEntries(raw json.RawMessage) (entries []entry.Entry, bad string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return nil, "entries"
	}
	for dec.More() {
		var e Entry
		if len(entries) == MaxEntries || dec.Decode(&e) != nil {
			return nil, "entries"
		}
		out, ok := e.entry()
		if !ok {
			return nil, fmt.Sprintf("entries[%d]", len(entries))
		}
		entries = append(entries, out)
	}
	return entries, ""
}

// ackLevel reads the level that a call asks for; Accepted when it names none.
// There is nowhere to replicate to.
func ackLevel(raw json.RawMessage) (settle.Level, bool) {
	var name *string
	if raw != nil && json.Unmarshal(raw, &name) != nil {
		return 0, false
	}
	if name == nil {
		return settle.Accepted, true
	}
	l, err := settle.ParseLevel(*name)
	return l, err == nil && l < settle.Replicated
}

// entry returns e with its level looked at; false when it has no fields, too
// many, or one that clients may not set.
func (e *Entry) entry() (entry.Entry, bool) {
	n := len(e.Fields) + len(e.Binary)
	if n == 0 || n > entry.DefaultMaxFields {
		return entry.Entry{}, false
	}
	out := entry.Entry{Fields: make([]entry.Field, 0, n)}
	for _, f := range e.Fields {
		out.Fields = append(out.Fields, entry.Field(f))
	}
	for _, f := range e.Binary {
		out.Fields = append(out.Fields, f)
	}
	for _, f := range out.Fields {
		if len(f.Name()) == len(f) || !entry.ValidName(f.Name(), false) {
			return entry.Entry{}, false
		}
	}
	p, _ := out.Get("PRIORITY")
	out.Urgent = len(p) == 1 && p[0] >= '0' && p[0] <= '2'
	return out, true
}

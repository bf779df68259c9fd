package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Error is a call that the daemon has answered with an error.
type Error struct {
	// Name is the qualified name, such as ErrorPermissionDenied.
	Name string
	// Parameters of the error, a JSON object.
	Parameters json.RawMessage
}

// Error returns the message of an ErrorSystem, the name of any other error.
func (e *Error) Error() string {
	var p struct {
		Message string `json:"message"`
	}
	switch {
	case e.Name == ErrorRefused:
		var r Refused
		if json.Unmarshal(e.Parameters, &r) == nil && r.Reason != "" {
			return r.Reason
		}
		return e.Name
	case e.Name == ErrorPermissionDenied:
		return "permission denied: only root and the daemon's own user may command it"
	case (e.Name == ErrorSystem || e.Name == ErrorNotReached) && json.Unmarshal(e.Parameters, &p) == nil && p.Message != "":
		return p.Message
	default:
		return e.Name + " " + string(e.Parameters)
	}
}

// Client is a connection for one call after the other. It is for one goroutine
// at a time; only Close may be called beside.
type Client struct {
	path  string
	nc    net.Conn
	buf   []byte
	start int
}

// Dial connects to the socket at path.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{path: path, nc: nc}, nil
}

// Close ends the connection, and a call in progress.
func (c *Client) Close() error { return c.nc.Close() }

// Call calls method and returns the parameters of its reply, valid until the
// next call. params nil means none. A refusal is an *Error. It waits for the reply
// as long as ctx allows; after any other error than an *Error the connection is
// of no more use.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	stop := context.AfterFunc(ctx, func() {
		c.nc.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // fails only when closed
	})
	defer stop()
	if params == nil {
		params = none{}
	}
	message, err := json.Marshal(struct {
		Method     string `json:"method"`
		Parameters any    `json:"parameters"`
	}{method, params})
	if err != nil {
		return nil, err
	}
	if len(message) > DefaultMessage {
		return nil, fmt.Errorf("a call of %d bytes: the daemon takes %d at most", len(message), DefaultMessage)
	}
	if _, err := c.nc.Write(append(message, 0)); err != nil {
		return nil, because(ctx, err)
	}
	answer, err := nextMessage(c.nc, &c.buf, &c.start, DefaultMessage, nil)
	if err != nil {
		return nil, because(ctx, fmt.Errorf("no reply: %w", err))
	}
	var out struct {
		Error      string          `json:"error"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("reply of %s: %w", c.path, err)
	}
	if out.Error != "" {
		return nil, &Error{Name: out.Error, Parameters: out.Parameters}
	}
	return out.Parameters, nil
}

// Append sends entries and waits until they have reached the level ack, a name
// as AppendCall has it. With an error, too, it returns how far they came, as far
// as that is known.
func (c *Client) Append(ctx context.Context, entries []Entry, ack string) (Appended, error) {
	raw, err := c.Call(ctx, MethodAppend, AppendCall{Entries: entries, Ack: ack})
	var refused *Error
	if errors.As(err, &refused) && refused.Name == ErrorNotReached {
		var short NotReached
		if json.Unmarshal(refused.Parameters, &short) == nil {
			return short.Appended, err
		}
	}
	if err != nil {
		return Appended{}, err
	}
	var done Appended
	if err := json.Unmarshal(raw, &done); err != nil {
		return Appended{}, fmt.Errorf("reply of %s: %w", c.path, err)
	}
	return done, nil
}

// Call connects to the socket at path, calls method and returns the parameters
// of its reply: see Client.Call.
func Call(ctx context.Context, path, method string, params any) (json.RawMessage, error) {
	c, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Call(ctx, method, params)
}

// because prefers the reason why ctx ended to the time-out it caused.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

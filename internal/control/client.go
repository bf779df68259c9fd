package control

import (
	"context"
	"encoding/json"
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
	case e.Name == ErrorPermissionDenied:
		return "permission denied: only root and the daemon's own user may command it"
	case e.Name == ErrorSystem && json.Unmarshal(e.Parameters, &p) == nil && p.Message != "":
		return p.Message
	default:
		return e.Name + " " + string(e.Parameters)
	}
}

// Call connects to the socket at path, calls method and returns the parameters
// of its reply. params nil means none. A refusal is an *Error. It waits for the
// reply as long as ctx allows.
func Call(ctx context.Context, path, method string, params any) (json.RawMessage, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() {
		nc.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // fails only when closed
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
	if _, err := nc.Write(append(message, 0)); err != nil {
		return nil, because(ctx, err)
	}
	var buf []byte
	var start int
	answer, err := nextMessage(nc, &buf, &start, DefaultMessage, nil)
	if err != nil {
		return nil, because(ctx, fmt.Errorf("no reply: %w", err))
	}
	var out struct {
		Error      string          `json:"error"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("reply of %s: %w", path, err)
	}
	if out.Error != "" {
		return nil, &Error{Name: out.Error, Parameters: out.Parameters}
	}
	return out.Parameters, nil
}

// because prefers the reason why ctx ended to the time-out it caused.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

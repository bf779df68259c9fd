package linelog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// lineCall begins a call; what follows is the rest of its parameters.
const lineCall = `{"method":"dev.tidemark.Log.AppendLines","parameters":{`

// errUnasked says that what is at the other end does not know the protocol.
var errUnasked = errors.New("it answers what was not asked")

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 10

// varlink is the conduit to a tidemark daemon: one connection, one call after the
// other.
type varlink struct {
	socket string
	files  []int  // O_APPEND first; not owned
	brief  *brief // gives the second when the daemon asks for it; nil: there are two

	mu   sync.Mutex // held during a call
	nc   *net.UnixConn
	in   []byte // what was read behind the last answer
	out  []byte // the last message
	owed bool   // the daemon has the lines of the last append, and they are not in the file yet
}

// newConduit returns the way to the daemon at socket for f, which is open.
func newConduit(socket string, f *file) (conduit, error) {
	v := &varlink{socket: socket}
	v.brief, _ = f.fix.(*brief)
	err := v.pass(f.app)
	if err == nil && v.brief == nil {
		err = v.pass(f.fix)
	}
	return v, err
}

// pass adds file to what is passed.
func (v *varlink) pass(file any) error {
	fd, ok := file.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("only a file of the machine can be handed to a daemon")
	}
	v.files = append(v.files, int(fd.Fd()))
	return nil
}

// both has the second descriptor passed, too.
func (v *varlink) both() error {
	fix, err := v.brief.second()
	if err == nil {
		v.brief, err = nil, v.pass(fix)
	}
	return err
}

// greet connects and passes the file.
func (v *varlink) greet(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.connect(ctx)
}

// connect is greet. The lines come with later calls, so that none is at stake when the
// daemon has no place for another connection. Called with mu held.
func (v *varlink) connect(ctx context.Context) error {
	if v.nc != nil {
		return nil
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", v.socket)
	if err != nil {
		return err
	}
	var ok bool
	if v.nc, ok = nc.(*net.UnixConn); !ok {
		return errors.Join(errors.ErrUnsupported, nc.Close())
	}
	stop := context.AfterFunc(ctx, func() {
		nc.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // fails only when closed
	})
	defer stop()
	err = v.introduce()
	var said *DaemonError
	if errors.As(err, &said) && said.Errno == syscall.EINVAL && v.brief != nil { // it has not the file yet
		if err = v.both(); err == nil {
			err = v.introduce()
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said):
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = fmt.Errorf("the daemon takes no connection, or is ending: %w", err)
	}
	v.drop()
	return err
}

// introduce passes the file. Called with mu held.
func (v *varlink) introduce() error {
	v.out = append(append(v.out[:0], lineCall...), "}}\x00"...)
	n, _, err := v.nc.WriteMsgUnix(v.out, syscall.UnixRights(v.files...), nil)
	if err == nil && n < len(v.out) {
		_, err = v.nc.Write(v.out[n:])
	}
	if err == nil {
		if _, err = v.answer(); err == nil && len(v.in) > 0 {
			err = errUnasked
		}
	}
	return err
}

// drop closes the connection. Called with mu held.
func (v *varlink) drop() {
	if v.nc != nil {
		v.nc.Close() //nolint:errcheck // the error at hand says more
	}
	v.nc, v.in = nil, v.in[:0]
}

// append implements conduit.
func (v *varlink) append(p []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.owed {
		p = nil // the daemon has them: this waits for them
	}
	v.out = append(v.out[:0], lineCall...)
	if len(p) > 0 {
		v.out = append(v.out, `"data":"`...)
		v.out = base64.StdEncoding.AppendEncode(v.out, p)
		v.out = append(v.out, '"')
	}
	v.out = append(v.out, "}}\x00"...)
	accepted, err := v.call(v.owed)
	var said *DaemonError
	switch {
	case err == nil && accepted != bytes.Count(p, newline): // nobody knows what has become of them
		v.drop()
		err = fmt.Errorf("%w (it speaks of %d lines)", ErrUnanswered, accepted)
		v.owed = false
	case err == nil, errors.Is(err, ErrUnanswered):
		v.owed = false
	case errors.As(err, &said) && accepted > 0:
		v.owed = true
	}
	return err
}

// sync implements conduit.
func (v *varlink) sync() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out = append(append(v.out[:0], lineCall...), `"ack":"synced"}}`+"\x00"...)
	_, err := v.call(false)
	if errors.Is(err, ErrUnanswered) {
		err = errors.New("the daemon has gone during a sync")
	}
	return err
}

// close implements conduit.
func (v *varlink) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop()
	return nil
}

// call sends v.out and reads the answer. A call that was not sent whole is none: it is
// sent once more over a new connection, unless sameOne is set, when only this
// daemon knows about the lines. Called with mu held.
func (v *varlink) call(sameOne bool) (accepted int, err error) {
	message := v.out
	for fresh := false; ; fresh = true {
		if v.nc == nil {
			if sameOne {
				return 0, ErrUnanswered
			}
			v.out = nil // connect has its own
			err := v.connect(context.Background())
			v.out = message
			if err != nil {
				return 0, err
			}
			fresh = true
		}
		if _, err = v.nc.Write(message); err == nil {
			break
		}
		v.drop()
		switch {
		case sameOne:
			return 0, fmt.Errorf("%w (%w)", ErrUnanswered, err)
		case fresh:
			return 0, err
		}
	}
	accepted, err = v.answer()
	if len(v.in) > 0 {
		v.drop() // the rest would be taken for the answer of the next call
	}
	var said *DaemonError
	if err != nil && !errors.As(err, &said) {
		v.drop()
		return 0, fmt.Errorf("%w (%w)", ErrUnanswered, err)
	}
	return accepted, err
}

// answer reads one. Called with mu held.
func (v *varlink) answer() (accepted int, err error) {
	for {
		if i := bytes.IndexByte(v.in, 0); i >= 0 {
			accepted, err = parseAnswer(v.in[:i])
			v.in = append(v.in[:0], v.in[i+1:]...)
			return accepted, err
		}
		if len(v.in) > maxAnswer {
			return 0, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
		v.in = slices.Grow(v.in, 1<<10)
		n, err := v.nc.Read(v.in[len(v.in):cap(v.in)])
		v.in = v.in[:len(v.in)+n]
		if n == 0 && err != nil {
			return 0, err
		}
	}
}

// parseAnswer returns how many lines were taken, and a *DaemonError if they have not
// come as far as was asked.
func parseAnswer(b []byte) (accepted int, err error) {
	var a struct {
		Error      string
		Parameters struct {
			Accepted  int
			Errno     int
			Message   string
			Reason    string
			Parameter string
		}
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return 0, fmt.Errorf("the daemon's answer: %w", err)
	}
	p := &a.Parameters
	if a.Error == "" {
		return p.Accepted, nil
	}
	text := a.Error
	for _, more := range []string{p.Message, p.Reason, p.Parameter} {
		if more != "" {
			text = more
		}
	}
	if a.Error == "org.varlink.service.MethodNotFound" {
		text = "it has no AppendLines: not a tidemark daemon, or an older one"
	}
	number := syscall.Errno(p.Errno)
	if number == 0 {
		number = syscall.EINVAL
	}
	return p.Accepted, &DaemonError{Errno: number, Message: text}
}

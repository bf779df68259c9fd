package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// place is where a daemon of a test works.
type place struct {
	bin             string
	data, run, conf string
	log             string // a file with what daemons printed for the operator
	notify          string // a service manager's socket
	flags           []string
}

// newPlace is a place with its files in data, and lines of configuration.
func newPlace(t testing.TB, data string, lines ...string) place {
	t.Helper()
	bin, err := binary()
	noError(t, err)
	dir := t.TempDir()
	p := place{bin: bin, data: data, run: sockdir.New(t), conf: filepath.Join(dir, "conf"), log: filepath.Join(dir, "log")}
	p.configure(t, lines...)
	t.Cleanup(func() {
		if b, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("the daemon printed:\n%.8000s", b)
		}
	})
	return p
}

// configure replaces the configuration. Nothing of what others share counts.
func (p place) configure(t testing.TB, lines ...string) {
	t.Helper()
	noError(t, os.WriteFile(p.conf, []byte("[Journal]\nReadKMsg=no\nNice=0\n"+strings.Join(lines, "\n")+"\n"), 0o600))
}

// daemon is a running `tidemark serve`.
type daemon struct {
	place
	cmd    *exec.Cmd
	http   string        // URL
	exited chan struct{} // closed when the process has ended
	status error         // of its end; read after exited
}

// start starts a daemon and waits until it is ready. It ends with the test, at the
// latest.
func start(t testing.TB, p place, wrapper ...string) *daemon {
	t.Helper()
	d, err := p.start(wrapper...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.kill(); _ = d.cmd.Wait() })
	return d
}

// start starts a daemon, in the hands of a wrapper such as strace, if any, and
// waits until it is ready.
func (p place) start(wrapper ...string) (*daemon, error) {
	d, out, err := p.launch(wrapper...)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "http://"); ok {
			d.http = "http://" + url
		}
		if lines.Text() == "ready" {
			return d, nil
		}
	}
	<-d.exited
	b, _ := os.ReadFile(p.log)
	return d, fmt.Errorf("the daemon ended before it was ready: %w: %s", d.status, b)
}

// launch starts a daemon and returns what it prints.
func (p place) launch(wrapper ...string) (d *daemon, out *os.File, err error) {
	args := append(wrapper, p.bin, "serve", "--data", p.data, "--run", p.run, "--http", "127.0.0.1:0")
	args = append(append(args, p.flags...), "--config", p.conf)
	d = &daemon{place: p, cmd: exec.Command(args[0], args[1:]...), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	state := filepath.Dir(p.conf)
	d.cmd.Env = append(os.Environ(), "HOME="+state, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state, "NOTIFY_SOCKET="+p.notify)
	if p.notify != "" {
		d.cmd.Env = append(d.cmd.Env, "WATCHDOG_USEC=20000")
	}
	d.cmd.Stderr = log
	out, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	d.cmd.Stdout = w
	err = d.begin()
	w.Close()
	if err != nil {
		return nil, nil, errors.Join(err, out.Close())
	}
	return d, out, nil
}

// begin starts the process, which ends with ours, however that ends: it would keep
// a file system busy. The kernel counts the end of the thread that has started it.
func (d *daemon) begin() error {
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.status = d.cmd.Wait()
			close(d.exited)
		}
	}()
	return <-started
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.exited
}

// stop ends the daemon, which must exit well.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-d.exited
	if d.status != nil {
		return fmt.Errorf("the daemon ended badly: %w", d.status)
	}
	return nil
}

// call calls a method of the command socket, on a connection of its own.
func (d *daemon) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return control.Call(ctx, filepath.Join(d.run, config.ControlSocket), method, params)
}

// state is the daemon's status.
func (d *daemon) state(t testing.TB) (st control.Status) {
	t.Helper()
	raw, err := d.call(guarded(t), control.MethodStatus, nil)
	noError(t, err)
	noError(t, json.Unmarshal(raw, &st))
	return st
}

// append has varlink append a message.
func (d *daemon) append(ctx context.Context, message, ack string) error {
	c, err := control.Dial(ctx, filepath.Join(d.run, config.ControlSocket))
	if err != nil {
		return err
	}
	defer c.Close()
	done, err := c.Append(ctx, []control.Entry{{Fields: []string{"MESSAGE=" + message}}}, ack)
	if err == nil && (done.Accepted != 1 || done.Dropped != 0 || done.Ack != ack && done.Ack != "synced") {
		err = fmt.Errorf("answer %+v", done)
	}
	return err
}

// answerError is an answer of HTTP that is no success.
type answerError struct {
	status int
	header http.Header
	body   string
}

func (e *answerError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.body) }

// request makes a request on a connection of its own and returns what it is
// answered.
func (d *daemon) request(ctx context.Context, method, path, kind, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.http+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", kind)
	return answerTo(req)
}

// answerTo makes a request on a connection of its own.
func answerTo(req *http.Request) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = &answerError{resp.StatusCode, resp.Header, string(b)}
	}
	return string(b), err
}

// post sends a message to /ingest. Its answer has to name the level, or a higher
// one.
func (d *daemon) post(ctx context.Context, message, ack string) error {
	answer, err := d.request(ctx, http.MethodPost, "ingest?ack="+ack, "application/x-ndjson", `{"message":"`+message+`"}`)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, `"ack":"`+ack+`"`) && !strings.Contains(answer, `"ack":"synced"`) || !strings.Contains(answer, `"accepted":1`) {
		return errors.New("answer " + answer)
	}
	return nil
}

// sender is a connection that promises nothing: each message is one write.
type sender struct {
	net.Conn
	before, after string
}

// dial connects to one of the sockets that promise nothing.
func (p place) dial(kind string) (*sender, error) {
	var s sender
	var err error
	switch kind {
	case "native":
		s.before, s.after = "PRIORITY=6\nMESSAGE=", "\n"
		s.Conn, err = net.Dial("unixgram", filepath.Join(p.run, config.NativeSocket))
	case "syslog":
		s.before = "<14>faults: "
		s.Conn, err = net.Dial("unixgram", filepath.Join(p.run, config.SyslogSocket))
	case "stdout":
		s.after = "\n"
		if s.Conn, err = net.Dial("unix", filepath.Join(p.run, config.StdoutSocket)); err == nil {
			_, err = fmt.Fprintf(s.Conn, "faults\n\n6\n0\n0\n0\n0\n")
		}
	default:
		err = errors.New("no such path: " + kind)
	}
	return &s, err
}

func (s *sender) send(message string) error {
	_, err := s.Write([]byte(s.before + message + s.after))
	return err
}

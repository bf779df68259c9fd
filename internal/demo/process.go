package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
)

// daemon is a running `tidemark serve`.
type daemon struct {
	cmd    *exec.Cmd
	http   string
	log    string        // file with everything the daemon printed
	exited chan struct{} // closed once the process has been waited for
	status error         // of the exit; read after exited
}

// startDaemon starts the daemon and waits until it says that it is ready.
func (s *stage) startDaemon(ctx context.Context) error {
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.dir, "notify"), Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	defer func() {
		_ = notify.Close()                            // has served its purpose
		_ = os.Remove(filepath.Join(s.dir, "notify")) // the next daemon gets its own
	}()
	d, err := s.launch()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	s.daemon = d
	ready := make(chan error, 1)
	go func() { // ends with notify
		b := make([]byte, 4<<10)
		for {
			n, err := notify.Read(b)
			if err != nil || strings.Contains("\n"+string(b[:n])+"\n", "\nREADY=1\n") {
				ready <- err
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case err = <-ready:
	case <-d.exited:
		return fmt.Errorf("the daemon ended before it was ready: %s", d.printed())
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("wait for the daemon to be ready: %w: %s", err, d.printed())
	}
	d.http = findHTTP(d.printed())
	if d.http == "" {
		return fmt.Errorf("the daemon named no HTTP address: %s", d.printed())
	}
	return nil
}

func (s *stage) launch() (*daemon, error) {
	d := &daemon{log: filepath.Join(s.dir, "daemon.log"), exited: make(chan struct{})}
	f, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the daemon has its own descriptor
	// Nothing of the user's or the system's configuration and state counts here.
	conf := filepath.Join(s.dir, "tidemark.conf")
	if err := os.WriteFile(conf, []byte("[Journal]\nReadKMsg=no\n"), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(s.o.Program, "serve", "--config", conf, "--data", s.data, "--run", s.run, "--http", "127.0.0.1:0")
	d.cmd.Stdout, d.cmd.Stderr = f, f
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.dir, "notify"), "XDG_STATE_HOME="+filepath.Join(s.dir, "state"))
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives the terminal with Keep
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { d.status = d.cmd.Wait(); close(d.exited) }() // ends with the daemon
	return d, nil
}

// findHTTP finds HOST:PORT in the daemon's lines.
func findHTTP(printed string) string {
	_, rest, ok := strings.Cut(printed, "http://")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/ ?\n"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

func (d *daemon) printed() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// notes are the daemon's lines about what it found at its start.
func (d *daemon) notes() []string {
	var out []string
	for _, l := range strings.Split(d.printed(), "\n") {
		if strings.Contains(l, "repaired") || strings.Contains(l, "unclean") {
			out = append(out, l)
		}
	}
	return out
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() error {
	if err := d.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the daemon: %w", err)
	}
	<-d.exited
	return nil
}

// stop ends the daemon as an init system would.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	<-d.exited
	var killed *exec.ExitError
	if errors.As(d.status, &killed) && killed.ExitCode() == -1 {
		return nil // by us, and not started again
	}
	if d.status != nil {
		return fmt.Errorf("the daemon did not end well: %w: %s", d.status, d.printed())
	}
	return nil
}

// child is a running feeder, seen from the demo.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	kind   string
	output sync.WaitGroup

	mu       sync.Mutex // guards what follows
	sent     int
	answered map[int]bool // acknowledged by an answer
	synced   int          // the first synced records were sent before a Synchronize that has returned
	killed   int          // sent when the daemon had been killed; 0 before
	promised int          // synced when the daemon had been killed
	acks     []time.Duration
	ended    chan struct{} // closed when the present run is over
}

func startChild(ctx context.Context, o Options, f FeedOptions) (*child, error) {
	args := []string{"demo", "--feed", f.Kind, "--feed-id", strconv.Itoa(f.ID), "--feed-run", f.Run}
	if f.Real {
		args = append(args, "--real")
	}
	c := &child{cmd: exec.CommandContext(ctx, o.Program, args...), kind: f.Kind, answered: map[int]bool{}}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a feeder: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a feeder: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a feeder: %w", err)
	}
	c.output.Go(func() { // ends with the feeder
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			c.heard(strings.Fields(sc.Text()))
		}
		c.heard([]string{"end", "-1"})
	})
	return c, nil
}

// heard takes in one report of the feeder.
func (c *child) heard(words []string) {
	if len(words) < 2 {
		return
	}
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch words[0] {
	case "sent":
		c.sent = max(c.sent, n)
	case "ack":
		if us, err := strconv.Atoi(words[len(words)-1]); err == nil && len(words) == 3 {
			c.answered[n] = true
			c.acks = append(c.acks, time.Duration(us)*time.Microsecond)
		}
	case "end":
		c.sent = max(c.sent, n)
		if c.ended != nil {
			close(c.ended)
			c.ended = nil
		}
	}
}

// tell gives the feeder a command; run returns a channel that is closed when
// the run is over.
func (c *child) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	if err != nil {
		return fmt.Errorf("tell the %s feeder: %w", c.kind, err)
	}
	return nil
}

func (c *child) start(httpAddr string) (<-chan struct{}, error) {
	ended := make(chan struct{})
	c.mu.Lock()
	c.ended = ended
	c.mu.Unlock()
	return ended, c.tell("run %s", httpAddr)
}

func (c *child) close() error {
	_ = c.in.Close() // the feeder ends when its input does
	c.output.Wait()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the %s feeder: %w", c.kind, err)
	}
	return nil
}

// socketPath is where the daemon listens for commands.
func (s *stage) socketPath() string { return filepath.Join(s.run, config.ControlSocket) }

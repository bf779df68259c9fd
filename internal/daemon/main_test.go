package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// childVar makes the test binary a daemon: its value is the options, in JSON.
const childVar = "TIDEMARK_TEST_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if v := os.Getenv(linesVar); v != "" {
		var c lineClient
		err := json.Unmarshal([]byte(v), &c)
		if err == nil {
			err = c.run()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// place is where a daemon of a test works.
type place struct {
	Data, Run string
	Conf      string // path of its configuration: see configure
	// Fault, if set, is the path of a link that does not exist yet: see faultFS.
	Fault string
	// Signals: the process ends on INT as tidemark does. It prints
	// `interrupted` when a second INT will meet no handler.
	Signals bool
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{Data: t.TempDir(), Run: sockdir.New(t), Conf: filepath.Join(t.TempDir(), "tidemark.conf")}
	p.configure(t, "")
	return p
}

// baseConf keeps a test out of what others share. It has baseLines lines.
const (
	baseConf  = "[Journal]\nHTTP=127.0.0.1:0\nReadKMsg=no\nNice=0\n"
	baseLines = 4
)

// configure makes the place's configuration baseConf and more lines.
func (p place) configure(t *testing.T, lines string) {
	t.Helper()
	if err := os.WriteFile(p.Conf, []byte(baseConf+lines), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p place) options(out, err io.Writer) Options {
	return Options{
		Config: func() (config.Config, []config.Warning, error) {
			c, warnings, err := config.Load(p.Conf, true)
			if c.Data == "" {
				c.Data = p.Data
			}
			if c.Run == "" {
				c.Run = p.Run
			}
			return c, warnings, err
		},
		Env:     config.Env{UID: os.Geteuid(), Getenv: os.Getenv, Temp: os.TempDir()},
		Version: "test", Out: out, Err: err,
	}
}

// daemon is what Run makes of the options, on the place's file system.
func (p place) daemon(out, err io.Writer) *daemon {
	d := newDaemon(p.options(out, err))
	if p.Fault != "" {
		d.fs = faultFS{link: p.Fault}
	}
	return d
}

// child runs a daemon until it is killed.
func child() error {
	var p place
	if err := json.Unmarshal([]byte(os.Getenv(childVar)), &p); err != nil {
		return err
	}
	ctx := context.Background()
	if p.Signals {
		c, stop := signal.NotifyContext(ctx, syscall.SIGINT)
		context.AfterFunc(c, func() { stop(); fmt.Println("interrupted") })
		ctx = c
	}
	return p.daemon(os.Stdout, os.Stderr).live(ctx)
}

// running is a daemon in this process.
type running struct {
	place
	daemon *daemon
	stop   func() error // ends it, and returns what Run does
	ended  chan error
	lines  []string // what it printed up to `ready`
	err    *lockedBuffer
	fails  bool // an error of stop is the test's to judge
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// untilReady reads what a daemon prints up to `ready`.
func untilReady(s *bufio.Scanner) (lines []string, ready bool) {
	for s.Scan() {
		if s.Text() == "ready" {
			return lines, true
		}
		lines = append(lines, s.Text())
	}
	return lines, false
}

// start runs a daemon in this process, changed before it opens.
func start(t *testing.T, p place, change ...func(*daemon)) *running {
	t.Helper()
	out, in := io.Pipe()
	r := &running{place: p, err: &lockedBuffer{}}
	r.daemon = p.daemon(in, r.err)
	for _, c := range change {
		c(r.daemon)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = sync.OnceValue(func() error { cancel(); return <-r.ended })
	r.ended = make(chan error, 1)
	go func() {
		err := r.daemon.live(ctx)
		in.Close()
		r.ended <- err
	}()
	t.Cleanup(func() {
		if err := r.stop(); err != nil && !r.fails {
			t.Errorf("Run = %v", err)
		}
	})
	var ready bool
	if r.lines, ready = untilReady(bufio.NewScanner(out)); !ready {
		t.Fatalf("not ready: %v %s", r.stop(), r.err)
	}
	return r
}

// process is a daemon in a process of its own, which has no handler for TERM.
type process struct {
	*exec.Cmd
	lines []string
	out   *bufio.Scanner // what it prints after `ready`
}

func spawn(t *testing.T, p place) *process {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVar+"="+string(b))
	cmd.Stderr = &lockedBuffer{}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // killed: that is its error
		}
	})
	scan := bufio.NewScanner(out)
	lines, ready := untilReady(scan)
	if !ready {
		t.Fatalf("not ready: %s", cmd.Stderr)
	}
	return &process{cmd, lines, scan}
}

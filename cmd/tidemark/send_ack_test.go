package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/settle"
)

// ackDaemon answers Append; the rest of a daemon is not asked for.
type ackDaemon struct {
	control.Daemon
	mu      sync.Mutex
	entries []string // level and fields
	calls   []int    // entries of each
	began   chan struct{}
	gate    chan struct{} // not nil: the first call waits for it
	// answer, if set, is the n-th call's, from 1.
	answer func(n, entries int) (control.Appended, error)
}

func (d *ackDaemon) Append(_ context.Context, _ control.Peer, entries []entry.Entry, level settle.Level) (control.Appended, error) {
	d.mu.Lock()
	for _, e := range entries {
		text := level.String()
		for _, f := range e.Fields {
			text += fmt.Sprintf(" %q", f)
		}
		d.entries = append(d.entries, text)
	}
	d.calls = append(d.calls, len(entries))
	n := len(d.calls)
	d.mu.Unlock()
	if d.gate != nil && n == 1 {
		close(d.began)
		<-d.gate
	}
	if d.answer != nil {
		return d.answer(n, len(entries))
	}
	return control.Appended{Accepted: len(entries), Ack: level.String()}, nil
}

// sendAck runs the verb against d and returns its exit code and line.
func sendAck(t *testing.T, d *ackDaemon, stdin io.Reader, args ...string) (code int, line string) {
	t.Helper()
	dir := sockdir.New(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, config.ControlSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.New(d, control.Info{}, control.Limits{}).Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	root, _ := newRootCmd()
	root.SetIn(stdin)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"send", "--run", dir, "-t", "x"}, args...))
	return outcome(root.ExecuteContext(t.Context()))
}

func TestSendAck(t *testing.T) {
	tests := []struct {
		name, stdin string
		args, want  []string
	}{
		{"message", "", []string{"--ack", "synced", "-p", "user.err", "A=1", "hello", "world"}, []string{`synced "MESSAGE=hello world" "PRIORITY=3" "A=1" "SYSLOG_IDENTIFIER=x" "SYSLOG_FACILITY=1"`}},
		{"fields only", "", []string{"--ack=appended", "MESSAGE=A=1", "PRIORITY=1"}, []string{`appended "MESSAGE=A=1" "PRIORITY=1" "SYSLOG_IDENTIFIER=x"`}},
		{
			"lines", "one\n\n<3>two \nlast \xff",
			[]string{"--ack", "synced"},
			[]string{`synced "MESSAGE=one" "PRIORITY=6" "SYSLOG_IDENTIFIER=x"`, `synced "MESSAGE=two " "PRIORITY=3" "SYSLOG_IDENTIFIER=x"`, `synced "PRIORITY=6" "SYSLOG_IDENTIFIER=x" "MESSAGE=last \xff"`},
		},
		{"no input", "", []string{"--ack", "synced"}, nil},
		{"command", "in\n", []string{"--ack", "synced", "--", "sh", "-c", "cat; printf rest"}, []string{`synced "MESSAGE=in" "PRIORITY=6" "SYSLOG_IDENTIFIER=x"`, `synced "MESSAGE=rest" "PRIORITY=6" "SYSLOG_IDENTIFIER=x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &ackDaemon{}
			if code, line := sendAck(t, d, strings.NewReader(tt.stdin), tt.args...); code != 0 || line != "" {
				t.Errorf("exit %d, %s", code, line)
			}
			if diff := cmp.Diff(tt.want, d.entries); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// Lines that come while a call is on its way go together, in order and in calls of
// a bounded size; the verb does not end before the last one is answered.
func TestSendAckBatches(t *testing.T) {
	const n = 5000
	d := &ackDaemon{began: make(chan struct{}), gate: make(chan struct{})}
	rest, in := io.Pipe()
	var want []string
	var text strings.Builder
	for i := range n {
		want = append(want, fmt.Sprintf(`synced "MESSAGE=%d" "PRIORITY=6" "SYSLOG_IDENTIFIER=x"`, i))
		if i > 0 {
			fmt.Fprintln(&text, i)
		}
	}
	released := false
	go func() {
		if _, err := io.WriteString(in, "0\n"); err != nil {
			t.Error(err)
		}
		<-d.began
		// The verb has read 1023 of the lines at least, and waits.
		if _, err := io.WriteString(in, text.String()); err != nil {
			t.Error(err)
		}
		in.Close()
		d.mu.Lock()
		released = true
		d.mu.Unlock()
		close(d.gate)
	}()
	code, line := sendAck(t, d, rest, "--ack", "synced")
	if code != 0 || line != "" || !released {
		t.Errorf("exit %d, %q, released %v", code, line, released)
	}
	if diff := cmp.Diff(want, d.entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if d.calls[0] != 1 || slices.Max(d.calls) > ackEntries || len(d.calls) > n/100 {
		t.Errorf("calls of %v entries, want one of 1 and few of %d at most", d.calls, ackEntries)
	}
}

func TestSendAckFailures(t *testing.T) {
	short := func(accepted, dropped int, ack string, err error) func(int, int) (control.Appended, error) {
		return func(n, _ int) (control.Appended, error) {
			if n > 1 {
				return control.Appended{}, errors.New("called again after an error")
			}
			return control.Appended{Accepted: accepted, Dropped: dropped, Ack: ack}, err
		}
	}
	eio := fmt.Errorf("wait until synced: sync system.journal: %w", syscall.EIO)
	tests := []struct {
		name   string
		answer func(n, entries int) (control.Appended, error)
		args   []string
		code   int
		line   string
	}{
		{"failed sync", short(1, 0, "appended", eio), []string{"hi"}, 1, "0 of 1 entries are known to be synced: wait until synced: sync system.journal: input/output error"},
		{"not taken", short(0, 0, "accepted", eio), []string{"hi"}, 1, "0 of 1 entries are known to be synced: wait until synced: sync system.journal: input/output error"},
		{"synced, then full", short(1, 0, "synced", syscall.ENOSPC), []string{"hi"}, 1, "1 of 1 entries are known to be synced: no space left on device"},
		{"dropped", short(1, 1, "synced", nil), []string{"hi"}, 1, "0 of 1 entries are known to be synced: the daemon does not store the others: they are above its MaxLevelStore="},
		{"lower level without an error", short(1, 0, "appended", nil), []string{"hi"}, 1, "0 of 1 entries are known to be synced: the daemon answers that 1 of 1 entries are appended"},
		{"fewer without an error", short(0, 0, "synced", nil), []string{"hi"}, 1, "0 of 1 entries are known to be synced: the daemon answers that 0 of 1 entries are synced"},
		{"command", short(1, 0, "appended", eio), []string{"--", "echo", "hi"}, 1, "0 of 1 entries are known to be synced: wait until synced: sync system.journal: input/output error"},
		{"command that fails too", short(1, 0, "appended", eio), []string{"--", "sh", "-c", "echo hi; exit 7"}, 7, "0 of 1 entries are known to be synced: wait until synced: sync system.journal: input/output error"},
		{"command that fails alone", nil, []string{"--", "sh", "-c", "echo hi; exit 7"}, 7, ""},
		{"too large", nil, []string{"MESSAGE=" + strings.Repeat("x", control.DefaultMessage)}, 1, "0 of 1 entries are known to be synced: a call of 16777353 bytes: the daemon takes 16777216 at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, line := sendAck(t, &ackDaemon{answer: tt.answer}, strings.NewReader(""), append([]string{"--ack", "synced"}, tt.args...)...)
			if code != tt.code || line != tt.line {
				t.Errorf("exit %d, %q; want %d, %q", code, line, tt.code, tt.line)
			}
		})
	}
}

// A failure half way: what was read before is counted, reading ends.
func TestSendAckFailsHalfWay(t *testing.T) {
	d := &ackDaemon{answer: func(n, entries int) (control.Appended, error) {
		if n == 1 {
			return control.Appended{Accepted: entries, Ack: "synced"}, nil
		}
		return control.Appended{}, syscall.EIO
	}}
	in, out := io.Pipe()
	go func() {
		for {
			if _, err := io.WriteString(out, "line\n"); err != nil {
				return // the verb has ended
			}
		}
	}()
	code, line := sendAck(t, d, in, "--ack", "synced")
	in.Close()
	var acked, taken int
	if n, err := fmt.Sscanf(line, "%d of %d entries are known to be synced: input/output error", &acked, &taken); n != 2 || err != nil || code != 1 {
		t.Fatalf("exit %d, %q: %v", code, line, err)
	}
	if acked != d.calls[0] || taken <= acked {
		t.Errorf("%s; calls of %v entries", line, d.calls)
	}
}

func TestAckLevel(t *testing.T) {
	for value, want := range map[string]string{
		"soon":       `--ack: invalid ack level "soon": want appended or synced`,
		"":           `--ack: invalid ack level "": want appended or synced`,
		"replicated": "--ack replicated: the daemon has no target to replicate to: want appended or synced",
	} {
		if code, line := sendAck(t, &ackDaemon{}, strings.NewReader(""), "--ack", value, "hi"); code != exitUsage || line != want {
			t.Errorf("--ack %q: exit %d, %q; want 2, %q", value, code, line, want)
		}
	}
}

// A signal says how far the entries have come, and keeps the reason of a call that
// failed before.
func TestAckerInterrupted(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGUSR1)
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done() // its cause is what a call in progress ends with
	for _, tt := range []struct {
		name                   string
		acked                  int
		err                    error
		interrupted, otherwise string
	}{
		{"between calls", 3, nil, "interrupted: 3 of 3 entries are known to be synced", ""},
		{"in a call", 1, context.Cause(ctx), "interrupted: 1 of 3 entries are known to be synced", "interrupted: 1 of 3 entries are known to be synced"},
		{"behind a failure", 1, syscall.EIO, "interrupted: 1 of 3 entries are known to be synced: input/output error", "1 of 3 entries are known to be synced: input/output error"},
	} {
		a := acker{level: settle.Synced, acked: tt.acked, taken: 3, err: tt.err}
		otherwise := ""
		if err := a.result(); err != nil {
			otherwise = err.Error()
		}
		if got := a.interrupted().Error(); got != tt.interrupted || otherwise != tt.otherwise {
			t.Errorf("%s: %q and %q, want %q and %q", tt.name, got, otherwise, tt.interrupted, tt.otherwise)
		}
	}
}

package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeDaemon counts commands; a command waits for gate when there is one.
type fakeDaemon struct {
	syncs, archived, rotations atomic.Int64

	gate    chan struct{}
	err     error
	appends appends
	files   lineFiles
}

func (d *fakeDaemon) Synchronize(ctx context.Context) error {
	if d.gate != nil {
		select {
		case <-d.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.syncs.Add(1)
	return d.err
}

func (d *fakeDaemon) Archived(context.Context) error {
	d.archived.Add(1)
	return d.err
}

func (d *fakeDaemon) Rotate(context.Context) error {
	d.rotations.Add(1)
	return d.err
}

func (d *fakeDaemon) Look(st *Status) { *st = Status{Version: "1.2", PID: 7} }

// start serves d on a socket and returns its path. The server ends with the
// test, and must have ended every goroutine then.
func start(t *testing.T, d Daemon, l Limits) string {
	t.Helper()
	path := filepath.Join(sockdir.New(t), "io.systemd.journal")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	s := New(d, Info{Vendor: "v", Product: "p", Version: "1", URL: "u"}, l)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return path
}

// eachWire runs a test with connections that have threads of their own, and with
// such as have none.
func eachWire(t *testing.T, test func(t *testing.T, l Limits)) {
	t.Helper()
	for name, threads := range map[string]int{"thread": 0, "poller": -1} {
		t.Run(name, func(t *testing.T) { test(t, Limits{Threads: threads}) })
	}
}

type client struct {
	*net.UnixConn
	r *bufio.Reader
}

func dial(t *testing.T, path string) client {
	t.Helper()
	nc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return client{nc, bufio.NewReader(nc)}
}

// say sends messages, each with its NUL, in one write.
func (c client) say(t *testing.T, messages ...string) {
	t.Helper()
	var b bytes.Buffer
	for _, m := range messages {
		b.WriteString(m)
		b.WriteByte(0)
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// hear returns the next reply without its NUL, or "closed".
func (c client) hear() string {
	s, err := c.r.ReadString(0)
	if err != nil {
		return "closed"
	}
	return strings.TrimSuffix(s, "\x00")
}

func TestReplies(t *testing.T) {
	const ok = `{"parameters":{}}`
	tests := []struct{ name, call, want string }{
		{"synchronize", `{"method":"io.systemd.Journal.Synchronize","parameters":{}}`, ok},
		{"parameters missing", `{"method":"io.systemd.Journal.Rotate"}`, ok},
		{"parameters null", `{"method":"io.systemd.Journal.Rotate","parameters":null}`, ok},
		{"more", `{"method":"io.systemd.Journal.Rotate","more":true}`, ok},
		{"offline of newer clients", `{"method":"io.systemd.Journal.Synchronize","parameters":{"offline":true}}`, ok},
		{
			"offline of the wrong type", `{"method":"io.systemd.Journal.Synchronize","parameters":{"offline":3}}`,
			`{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"offline"}}`,
		},
		{"flush", `{"method":"io.systemd.Journal.FlushToVar","parameters":{}}`, ok},
		{"relinquish", `{"method":"io.systemd.Journal.RelinquishVar","parameters":{}}`, ok},
		{
			"unknown method", `{"method":"io.systemd.Journal.Nope","parameters":{}}`,
			`{"error":"org.varlink.service.MethodNotFound","parameters":{"method":"io.systemd.Journal.Nope"}}`,
		},
		{
			"extra parameter", `{"method":"io.systemd.Journal.Synchronize","parameters":{"x":1}}`,
			`{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"x"}}`,
		},
		{
			"info", `{"method":"org.varlink.service.GetInfo"}`,
			`{"parameters":{"vendor":"v","product":"p","version":"1","url":"u","interfaces":["org.varlink.service","io.systemd.Journal","dev.tidemark.Log"]}}`,
		},
		{
			"no such interface", `{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"a.b"}}`,
			`{"error":"org.varlink.service.InterfaceNotFound","parameters":{"interface":"a.b"}}`,
		},
		{
			"interface missing", `{"method":"org.varlink.service.GetInterfaceDescription"}`,
			`{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"interface"}}`,
		},
		{"not JSON", `hello`, "closed"},
		{"not an object", `[]`, "closed"},
		{"no method", `{"parameters":{}}`, "closed"},
		{"unknown member", `{"method":"org.varlink.service.GetInfo","x":1}`, "closed"},
		{"member twice", `{"method":"a.B","method":"org.varlink.service.GetInfo"}`, "closed"},
		{"oneway and more", `{"method":"org.varlink.service.GetInfo","oneway":true,"more":true}`, "closed"},
		{"bytes behind", `{"method":"org.varlink.service.GetInfo"} {}`, "closed"},
		{"parameters no object", `{"method":"org.varlink.service.GetInfo","parameters":[]}`, "closed"},
		{"empty", ``, "closed"},
	}
	eachWire(t, func(t *testing.T, l Limits) {
		path := start(t, &fakeDaemon{}, l)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c := dial(t, path)
				c.say(t, tt.call)
				if diff := cmp.Diff(tt.want, c.hear()); diff != "" {
					t.Errorf("reply (-want +got):\n%s", diff)
				}
			})
		}
	})
}

func TestPipelinedCallsAreAnsweredInOrderAndOnewayNotAtAll(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{}
		c := dial(t, start(t, d, l))
		c.say(t,
			`{"method":"a.b.One"}`,
			`{"method":"io.systemd.Journal.Synchronize","oneway":true}`,
			`{"method":"a.b.Lost","oneway":true}`,
			`{"method":"a.b.Two"}`)
		for _, name := range []string{"a.b.One", "a.b.Two"} {
			want := `{"error":"org.varlink.service.MethodNotFound","parameters":{"method":"` + name + `"}}`
			if got := c.hear(); got != want {
				t.Errorf("reply %s, want %s", got, want)
			}
		}
		if n := d.syncs.Load(); n != 1 {
			t.Errorf("oneway Synchronize ran %d times, want 1", n)
		}
	})
}

// Pipelined calls are answered in the order of their coming, a quick one behind a
// slow one too.
func TestSlowCallsKeepTheOrder(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{gate: make(chan struct{})}
		path := start(t, d, l)
		c := dial(t, path)
		var calls, want []string
		for i := range 20 {
			calls = append(calls, syncCall, fmt.Sprintf(`{"method":"a.b.C%d"}`, i))
			want = append(want, `{"parameters":{}}`, fmt.Sprintf(`{"error":"org.varlink.service.MethodNotFound","parameters":{"method":"a.b.C%d"}}`, i))
		}
		c.say(t, calls...)
		other := dial(t, path)
		if !again(t, other) { // the first call waits, and nobody else for it
			t.Fatal("closed")
		}
		if n := d.syncs.Load(); n != 0 {
			t.Fatalf("%d calls have ended at a closed gate", n)
		}
		close(d.gate)
		for i, w := range want {
			if got := c.hear(); got != w {
				t.Errorf("reply %d: %s, want %s", i, got, w)
			}
		}
	})
}

func TestSplitMessages(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		c := dial(t, start(t, &fakeDaemon{}, l))
		long := `{"method":"a.` + strings.Repeat("b", 100_000) + `"}`
		for _, part := range []string{long[:1], long[1:50_000], long[50_000:], "\x00{\"method\":", "\"a.C\"}\x00"} {
			if _, err := c.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		for _, end := range []string{`b"}}`, `a.C"}}`} {
			if got := c.hear(); !strings.HasSuffix(got, end) {
				t.Errorf("reply of %d bytes does not end in %s", len(got), end)
			}
		}
	})
}

func TestMessageOverTheLimitClosesTheConnection(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		c := dial(t, start(t, &fakeDaemon{}, Limits{Message: 1000, Threads: l.Threads}))
		c.say(t, `{"method":"a.B"}`)
		if got := c.hear(); got == "closed" {
			t.Fatal("short message closed the connection")
		}
		c.Write(bytes.Repeat([]byte("x"), 10_000)) //nolint:errcheck // the server may close meanwhile
		if got := c.hear(); !strings.Contains(got, "a message may have 1000 bytes") {
			t.Errorf("reply %s, want the limit", got)
		}
		if got := c.hear(); got != "closed" {
			t.Errorf("reply %s, want closed", got)
		}
	})
}

func TestSlowCommandDelaysNobodyElse(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{gate: make(chan struct{})}
		path := start(t, d, l)
		slow, idle := dial(t, path), dial(t, path)
		slow.say(t, `{"method":"io.systemd.Journal.Synchronize"}`)
		for range 3 {
			idle.say(t, `{"method":"io.systemd.Journal.Rotate"}`)
			if got := idle.hear(); got != `{"parameters":{}}` {
				t.Fatalf("reply %s while another command is stuck", got)
			}
		}
		if n := d.syncs.Load(); n != 0 {
			t.Fatalf("%d syncs done, want the command stuck", n)
		}
		close(d.gate)
		if got := slow.hear(); got != `{"parameters":{}}` {
			t.Errorf("slow reply %s", got)
		}
	})
}

func TestCallInProgressIsAnsweredWhenTheServerEnds(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{gate: make(chan struct{})}
		path := filepath.Join(sockdir.New(t), "s")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- New(d, Info{}, l).Serve(ctx, listener) }()
		busy, idle := dial(t, path), dial(t, path)
		idle.say(t, `{"method":"a.B"}`)
		idle.hear()
		busy.say(t, `{"method":"org.varlink.service.GetInfo"}`, `{"method":"io.systemd.Journal.Synchronize"}`)
		busy.hear()
		cancel()
		if got := idle.hear(); got != "closed" {
			t.Errorf("idle connection heard %s, want closed", got)
		}
		close(d.gate)
		if got := busy.hear(); got != `{"parameters":{}}` {
			t.Errorf("busy connection heard %s, want its reply", got)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	for _, l := range []Limits{{Conns: 2}, {ConnsPerUID: 2}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			path := start(t, &fakeDaemon{}, l)
			first, second := dial(t, path), dial(t, path)
			for _, c := range []client{first, second} {
				c.say(t, `{"method":"a.B"}`)
				c.hear()
			}
			if got := dial(t, path).hear(); got != "closed" {
				t.Errorf("third connection heard %s, want closed", got)
			}
			second.say(t, `{"method":"a.B"}`)
			if got := second.hear(); got == "closed" {
				t.Error("second connection closed by the third")
			}
		})
	}
}

// Who passes offline waits for the archives, and nobody else.
func TestOfflineWaitsForTheArchives(t *testing.T) {
	d := &fakeDaemon{}
	path := start(t, d, Limits{})
	for _, tt := range []struct {
		params any
		want   int64
	}{{nil, 0}, {map[string]any{"offline": false}, 0}, {map[string]any{"offline": nil}, 0}, {map[string]any{"offline": true}, 1}} {
		if _, err := Call(t.Context(), path, MethodSynchronize, tt.params); err != nil || d.archived.Load() != tt.want {
			t.Errorf("%v: waited for archives %d times, %v; want %d", tt.params, d.archived.Load(), err, tt.want)
		}
	}
}

func TestCommandsNeedRootOrTheOwner(t *testing.T) {
	d := &fakeDaemon{}
	s := New(d, Info{}, Limits{})
	s.owner = 1000
	for _, m := range []string{MethodSynchronize, MethodRotate, MethodFlushToVar, MethodRelinquishVar} {
		for uid, want := range map[uint32]string{0: "", 1000: "", 1001: ErrorPermissionDenied} {
			if got := s.answer(t.Context(), nil, uid, call{Method: m}).Error; got != want {
				t.Errorf("%s by uid %d: error %q, want %q", m, uid, got, want)
			}
		}
	}
	for _, m := range []string{MethodStatus, MethodGetInfo} {
		if got := s.answer(t.Context(), nil, 1001, call{Method: m}).Error; got != "" {
			t.Errorf("%s by uid 1001: error %q", m, got)
		}
	}
	for _, m := range []string{MethodAppend, MethodGetInterface} { // which need parameters
		if got := s.answer(t.Context(), nil, 1001, call{Method: m}).Error; got != ErrorInvalidParameter {
			t.Errorf("%s by uid 1001: error %q", m, got)
		}
	}
	if n := d.syncs.Load(); n != 2 {
		t.Errorf("%d syncs, want the 2 permitted", n)
	}
}

func TestCall(t *testing.T) {
	d := &fakeDaemon{err: fmt.Errorf("sync system.journal: %w", syscall.ENOSPC)}
	path := start(t, d, Limits{})
	raw, err := Call(t.Context(), path, MethodStatus, nil)
	if err != nil {
		t.Fatal(err)
	}
	var st Status
	if err := json.Unmarshal(raw, &st); err != nil || st.Version != "1.2" || st.PID != 7 {
		t.Errorf("status %s, %v", raw, err)
	}
	_, err = Call(t.Context(), path, MethodSynchronize, nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Name != ErrorSystem || !strings.Contains(string(refused.Parameters), `"errno":28`) {
		t.Errorf("Synchronize = %v, want ErrorSystem with errno 28", err)
	}
	if want := "sync system.journal: no space left on device"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if _, err := Call(t.Context(), path+"x", MethodStatus, nil); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("no socket: %v, want ENOENT", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	d := &fakeDaemon{gate: make(chan struct{})}
	path := start(t, d, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Call(ctx, path, MethodSynchronize, nil)
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want context.Canceled", err)
	}
	close(d.gate)
}

// TestInterfaceTexts holds the texts against the Status struct and a grammar
// coarse enough to be right: every member is declared, every type is known.
func TestInterfaceTexts(t *testing.T) {
	line := regexp.MustCompile(`^(#.*|interface [a-z.A-Z]+|method [A-Z]\w*\(.*\) -> \(.*\)|method [A-Z]\w*\(.*\) -> \(|type [A-Z]\w* \(.*\)|type [A-Z]\w* \(|error [A-Z]\w* \(.*\)|  [a-z]\w*: \??(\[\])?\w+,?|\)|)$`)
	for _, name := range interfaceNames() {
		text, ok := describe(name)
		if !ok || !strings.Contains(text, "\ninterface "+name+"\n") {
			t.Errorf("%s: described %v, or not by its name", name, ok)
		}
		for l := range strings.Lines(text) {
			if !line.MatchString(strings.TrimSuffix(l, "\n")) {
				t.Errorf("%s: line %q", name, l)
			}
		}
	}
	raw, err := json.Marshal(Status{Files: []File{{Error: "x"}}, Counts: []Count{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(string(raw), -1) {
		if !regexp.MustCompile(`\b` + key[1] + `: `).MatchString(logIDL) {
			t.Errorf("member %s of Status is not in the interface text", key[1])
		}
	}
}

// TestRealJournalctl runs journalctl against the server, whose socket is bound
// to journald's place in a mount namespace of its own.
func TestRealJournalctl(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a mount namespace")
	}
	for _, tool := range []string{"journalctl", "unshare", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	d := &fakeDaemon{}
	dir := filepath.Dir(start(t, d, Limits{}))
	journalctl := func(dir, option string) (string, error) {
		script := `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && mount --bind "$0" /run/systemd/journal && exec journalctl "$1"`
		out, err := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", script, dir, option).CombinedOutput()
		return string(out), err
	}
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("needs mount namespaces: %v: %s", err, out)
	}
	for _, option := range []string{"--sync", "--rotate", "--flush", "--relinquish-var"} {
		if out, err := journalctl(dir, option); err != nil || out != "" {
			t.Errorf("journalctl %s: %v: %s", option, err, out)
		}
	}
	if s, r := d.syncs.Load(), d.rotations.Load(); s != 1 || r != 1 {
		t.Errorf("%d syncs and %d rotations, want 1 and 1", s, r)
	}
	dir = filepath.Dir(start(t, &fakeDaemon{err: syscall.EIO}, Limits{}))
	if out, err := journalctl(dir, "--sync"); err == nil || !strings.Contains(out, "Failed to execute varlink call") {
		t.Errorf("journalctl --sync of a failing daemon: %v: %s", err, out)
	}
}

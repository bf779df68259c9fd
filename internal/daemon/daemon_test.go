package daemon

import (
	"bufio"
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/journal"
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
	goleak.VerifyTestMain(m)
}

// place is where a daemon of a test works.
type place struct {
	Data, Run, Sync string
	HTTP            []string
	Nice            *int
	MaxLevel        *int
}

// shortDir returns a directory of the test's own whose path leaves room for a
// socket's name; that of t.TempDir grows with TMPDIR and the test's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		dir, err = os.MkdirTemp("", "t")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newPlace(t *testing.T) place {
	t.Helper()
	return place{Data: t.TempDir(), Run: shortDir(t), Sync: "1s", HTTP: []string{"127.0.0.1:0"}, Nice: new(0)}
}

func (p place) options(out, err io.Writer) Options {
	return Options{
		Config: func() (config.Config, []config.Warning, error) {
			c := config.Defaults()
			c.Data, c.Run, c.HTTP, c.ReadKMsg, c.Nice = p.Data, p.Run, p.HTTP, false, p.Nice
			if p.MaxLevel != nil {
				c.MaxLevelStore = *p.MaxLevel
			}
			return c, nil, c.Set("Sync", p.Sync)
		},
		Env:     config.Env{UID: os.Geteuid(), Getenv: os.Getenv, Temp: os.TempDir()},
		Version: "test", Out: out, Err: err,
	}
}

// child runs a daemon until it is killed.
func child() error {
	var p place
	if err := json.Unmarshal([]byte(os.Getenv(childVar)), &p); err != nil {
		return err
	}
	return Run(context.Background(), p.options(os.Stdout, os.Stderr))
}

// running is a daemon in this process.
type running struct {
	place
	stop  func() error
	lines []string // what it printed up to `ready`
	err   *lockedBuffer
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
func untilReady(r io.Reader) (lines []string, ready bool) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		if s.Text() == "ready" {
			return lines, true
		}
		lines = append(lines, s.Text())
	}
	return lines, false
}

// start runs a daemon in this process.
func start(t *testing.T, p place) *running {
	t.Helper()
	out, in := io.Pipe()
	errOut := &lockedBuffer{}
	return startWith(t, p, p.options(in, errOut), out, in, errOut)
}

// startWith is start with options that print to in, which is read from out, and
// to errOut.
func startWith(t *testing.T, p place, o Options, out io.Reader, in io.Closer, errOut *lockedBuffer) *running {
	t.Helper()
	r := &running{place: p, err: errOut}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := Run(ctx, o)
		in.Close()
		done <- err
	}()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	var ready bool
	if r.lines, ready = untilReady(out); !ready {
		t.Fatalf("not ready: %v %s", r.stop(), r.err)
	}
	return r
}

// process is a daemon in a process of its own, which has no handler for TERM.
type process struct {
	*exec.Cmd
	lines []string
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
	lines, ready := untilReady(out)
	if !ready {
		t.Fatalf("not ready: %s", cmd.Stderr)
	}
	return &process{cmd, lines}
}

// url is the HTTP address that a daemon has printed.
func url(lines []string) string {
	for _, l := range lines {
		if _, u, ok := strings.Cut(l, "http://"); ok {
			return "http://" + u
		}
	}
	return ""
}

// post sends lines to /ingest and returns the answer.
func post(t *testing.T, url, ack, body string) string {
	t.Helper()
	resp, err := http.Post(url+"ingest?ack="+ack, "application/x-ndjson", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return strings.TrimSpace(string(b))
}

// native sends one native datagram per message.
func native(t *testing.T, p place, messages ...string) {
	t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(p.Run, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, m := range messages {
		if _, err := c.Write([]byte("MESSAGE=" + m + "\nPRIORITY=5\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs a method of the daemon.
func command(t *testing.T, p place, method string) json.RawMessage {
	t.Helper()
	raw, err := control.Call(t.Context(), filepath.Join(p.Run, varlinkSocket), method, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// messages are those of all files, without tidemark's own.
func messages(t *testing.T, p place) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.Data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenDir(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var out []string
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if transport, _ := e.Get("_TRANSPORT"); string(transport) != "driver" {
			m, _ := e.Get("MESSAGE")
			out = append(out, string(m))
		}
	}
	return out
}

// verify runs journalctl --verify, or our own check where there is none.
func verify(t *testing.T, p place) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Data, "*", "*.journal*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	if _, err := exec.LookPath("journalctl"); err == nil {
		for _, f := range files {
			if out, err := exec.Command("journalctl", "--verify", "--file", f).CombinedOutput(); err != nil {
				t.Errorf("journalctl --verify: %v: %s", err, out)
			}
		}
		return
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		report, err := journal.Verify(t.Context(), f, info.Size(), name, journal.VerifyOptions{})
		if err != nil || !report.OK() {
			t.Errorf("verify %s: %v %v", name, err, report.Problems)
		}
	}
}

func TestEndToEnd(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	if len(r.lines) != 7 || r.lines[0] != "native   "+filepath.Join(p.Run, "socket") || !strings.HasPrefix(url(r.lines), "http://127.0.0.1:") {
		t.Errorf("endpoints %q", r.lines)
	}
	if got := post(t, url(r.lines), "synced", `{"message":"one"}`+"\n"+`{"message":"two","_x":1}`); got != `{"accepted":2,"ack":"synced"}` {
		t.Errorf("answer %s", got)
	}
	native(t, p, "three", "four")
	command(t, p, control.MethodSynchronize)
	if diff := cmp.Diff([]string{"one", "two", "three", "four"}, messages(t, p)); diff != "" {
		t.Errorf("messages after Synchronize (-want +got):\n%s", diff)
	}
	for _, name := range []string{"synced"} {
		if b, err := os.ReadFile(filepath.Join(p.Run, name)); err != nil || !strings.HasSuffix(string(b), "\n") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	var st control.Status
	if err := json.Unmarshal(command(t, p, control.MethodStatus), &st); err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, c := range st.Counts {
		counts[c.Name+" "+c.Reason] = c.N
	}
	if st.PID != os.Getpid() || st.Sync != "1s" || len(st.Files) == 0 || counts["native entries"] != 2 || counts["http entries"] != 2 || counts["http underscores"] != 1 ||
		len(st.Endpoints) != 6 || st.Endpoints[0] != (control.Endpoint{Protocol: "native", Address: filepath.Join(p.Run, "socket")}) {
		t.Errorf("status %+v", st)
	}
	command(t, p, control.MethodRotate)
	native(t, p, "five")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	// What was in the socket when the daemon was told to end is there.
	if diff := cmp.Diff([]string{"one", "two", "three", "four", "five"}, messages(t, p)); diff != "" {
		t.Errorf("messages after the end (-want +got):\n%s", diff)
	}
	verify(t, p)
	left, err := os.ReadDir(p.Run)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.Type() == os.ModeSocket {
			t.Errorf("the socket %s was left behind", e.Name())
		}
	}
}

// TestKill kills a daemon in the middle of a stream: what it has acknowledged is
// there after a restart, and every file verifies.
func TestKill(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	acked := make(chan string, 10_000)
	var senders sync.WaitGroup
	for sender := range 4 {
		senders.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; ; i++ {
				m := fmt.Sprintf("%d-%d", sender, i)
				resp, err := client.Post(url(d.lines)+"ingest?ack=appended", "application/x-ndjson", strings.NewReader(`{"message":"`+m+`"}`))
				if err != nil {
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || !bytes.Contains(b, []byte(`"accepted":1`)) {
					return
				}
				acked <- m
			}
		})
	}
	var got []string
	for range 500 {
		got = append(got, <-acked)
	}
	native(t, p, "before the sync")
	command(t, p, control.MethodSynchronize)
	got = append(got, "before the sync")
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait() // killed: that is its error
	senders.Wait()
	close(acked)
	for m := range acked {
		got = append(got, m)
	}
	again := spawn(t, p)
	native(t, p, "after the restart")
	got = append(got, "after the restart")
	if err := again.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err == nil || again.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the second daemon ended with %v, want death by the signal", err)
	}
	third := start(t, p)
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for _, m := range messages(t, p) {
		stored[m]++
	}
	for _, m := range got {
		if stored[m] != 1 && m != "after the restart" {
			t.Errorf("%s is stored %d times", m, stored[m])
		}
	}
	verify(t, p)
}

// waitFor waits until the daemon's line has come.
func waitFor(t *testing.T, r *running, line string) {
	t.Helper()
	for !strings.Contains(r.err.String(), line) {
		if t.Context().Err() != nil {
			t.Fatalf("no line %q: %s", line, r.err)
		}
		command(t, r.place, control.MethodStatus)
	}
}

func TestSignals(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	native(t, p, "one")
	command(t, p, control.MethodSynchronize)
	self := os.Getpid()
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		if err := syscall.Kill(self, s); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, r, "system.journal rotated to system@")
	stamp := filepath.Join(p.Run, "synced")
	if err := os.Remove(stamp); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(self, 35); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(stamp); err != nil; _, err = os.Stat(stamp) {
		command(t, p, control.MethodStatus)
	}
	if err := syscall.Kill(self, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r, "configuration read again")
}

func TestReload(t *testing.T) {
	p := newPlace(t)
	var mu sync.Mutex
	current := p
	errOut := &lockedBuffer{}
	o := p.options(io.Discard, errOut)
	read := func() (config.Config, []config.Warning, error) {
		mu.Lock()
		defer mu.Unlock()
		return current.options(nil, nil).Config()
	}
	o.Config = read
	d := &daemon{o: o}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	defer d.release()
	defer d.store.Close(context.Background())
	mu.Lock()
	current.Sync, current.HTTP, current.MaxLevel = "all", []string{"127.0.0.1:1"}, new(3)
	mu.Unlock()
	if err := d.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Status().Sync; got != "all" {
		t.Errorf("sync policy %s after the reload, want all", got)
	}
	if !strings.Contains(errOut.String(), "the change of HTTP= needs a restart") {
		t.Errorf("said %q", errOut)
	}
	if e, err := d.ingest.NewJSONDecoder("").Decode([]byte(`{"level":4}`)); err != nil || len(e.Fields) > 0 {
		t.Errorf("level 4 with MaxLevelStore=3: %d fields, %v", len(e.Fields), err)
	}
	if d.least().String() != "synced" {
		t.Errorf("least level %s under the policy all", d.least())
	}
	o.Config = func() (config.Config, []config.Warning, error) { return config.Config{}, nil, errors.New("bad") }
	d.o = o
	if err := d.reload(t.Context()); err == nil || d.Status().Sync != "all" {
		t.Errorf("a bad configuration was taken: %v", err)
	}
}

func TestWhatCannotBegin(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, p *place)
		want string
	}{
		{"data in use", func(t *testing.T, p *place) {
			l, err := store.LockDir(p.Data)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Release)
		}, fmt.Sprintf("is in use by another tidemark, pid %d", os.Getpid())},
		{"run in use", func(t *testing.T, p *place) {
			l, err := store.LockDir(p.Run)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Release)
		}, fmt.Sprintf("is in use by another tidemark, pid %d", os.Getpid())},
		{"path too long", func(_ *testing.T, p *place) { p.Run += strings.Repeat("/x", 50) }, "a socket's path may have 107: choose a shorter --run"},
		{"port in use", func(t *testing.T, p *place) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			p.HTTP = []string{l.Addr().String()}
		}, "the address is in use: choose another with --http"},
		{"not loopback", func(_ *testing.T, p *place) { p.HTTP = []string{"0.0.0.0:0"} }, "only loopback addresses are served yet"},
		{"not an address", func(_ *testing.T, p *place) { p.HTTP = []string{"19531"} }, "want ADDRESS:PORT"},
		{"data is a file", func(t *testing.T, p *place) {
			p.Data = filepath.Join(p.Data, "file")
			if err := os.WriteFile(p.Data, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "file: not a directory"},
		{"something in the socket's place", func(t *testing.T, p *place) {
			if err := os.WriteFile(filepath.Join(p.Run, varlinkSocket), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "it exists and is no socket"},
		{"somebody answers on the socket", func(t *testing.T, p *place) {
			l, err := net.Listen("unix", filepath.Join(p.Run, httpSocket))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "another process answers on it"},
		{"somebody answers on the native socket", func(t *testing.T, p *place) {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(p.Run, "socket"), Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "socket: "},
		{"no port", func(_ *testing.T, p *place) { p.HTTP = []string{"127.0.0.1:99999"} }, "is no port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			tt.make(t, &p)
			err := Run(t.Context(), p.options(io.Discard, io.Discard))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want %s", err, tt.want)
			}
			// What is wrong elsewhere shows before the data is touched.
			if list, err := os.ReadDir(p.Data); err == nil && len(list) > 0 && tt.name != "data in use" {
				t.Errorf("left in the data directory: %v", list)
			}
		})
	}
}

func TestStaleSocketIsRemoved(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{varlinkSocket, httpSocket} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.Run, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	start(t, p)
}

func TestMachineIDIsMadeAndKept(t *testing.T) {
	dir := t.TempDir()
	var ids []string
	var errOut lockedBuffer
	for range 2 {
		o := newPlace(t).options(io.Discard, &errOut)
		o.Env = config.Env{UID: 1000, Getenv: func(k string) string { return map[string]string{"XDG_STATE_HOME": dir}[k] }}
		d := &daemon{o: o}
		if err := d.findMachineID(filepath.Join(dir, "none")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.machine.String())
	}
	if ids[0] != ids[1] || ids[0][12] != '4' || !slices.Contains([]byte("89ab"), ids[0][16]) {
		t.Errorf("ids %v, want the same random id of version 4", ids)
	}
	if n := strings.Count(errOut.String(), "made the machine id "+ids[0]); n != 1 {
		t.Errorf("said %d times: %s", n, &errOut)
	}
}

func TestPrivateRunDir(t *testing.T) {
	dir := filepath.Join(shortDir(t), "run")
	if err := makeRunDir(dir, true, os.Geteuid()); err != nil && os.Geteuid() != 0 {
		t.Errorf("new directory: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeRunDir(dir, true, os.Geteuid()); err == nil || !strings.Contains(err.Error(), "mode 0700") {
		t.Errorf("directory open to others: %v", err)
	}
	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := makeRunDir(link, true, os.Geteuid()); err == nil {
		t.Error("a link is taken for a private directory")
	}
}

func TestNotify(t *testing.T) {
	p := newPlace(t)
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(p.Run, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	t.Setenv("NOTIFY_SOCKET", sock.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	r := start(t, p)
	var heard []string
	b := make([]byte, 4096)
	hear := func(want string) {
		for {
			n, err := sock.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, string(b[:n]))
			if strings.Contains(string(b[:n]), want) {
				return
			}
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	hear("STOPPING=1")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(heard[0], "READY=1") && !strings.HasPrefix(heard[0], "WATCHDOG=1") {
		t.Errorf("heard %q", heard)
	}
}

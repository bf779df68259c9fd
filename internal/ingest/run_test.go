package ingest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

func TestOpenErrors(t *testing.T) {
	cfg := testConfig(t)
	first, err := Open(cfg, &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	fds := openFDs(t)
	if _, err := Open(cfg, &fakeSink{}); !errors.Is(err, ErrInUse) {
		t.Errorf("a directory in use: %v", err)
	}
	if err := Check(cfg.Dir); !errors.Is(err, ErrInUse) {
		t.Errorf("check of a directory in use: %v", err)
	}
	if n := openFDs(t); n != fds {
		t.Errorf("%d descriptors after an error, %d before", n, fds)
	}
	// The one that is there is not harmed.
	if _, err := os.Stat(filepath.Join(cfg.Dir, nativeSocket)); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(cfg.Dir); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}

	// A stale socket is removed.
	fd, err := bind(cfg.Dir, nativeSocket, unix.SOCK_DGRAM)
	if err != nil {
		t.Fatal(err)
	}
	_ = fd.Close()
	if err := Check(cfg.Dir); err != nil {
		t.Errorf("check with a stale socket: %v", err)
	}
	second, err := Open(cfg, &fakeSink{})
	if err != nil {
		t.Fatalf("with a stale socket: %v", err)
	}
	info, err := os.Stat(filepath.Join(cfg.Dir, nativeSocket))
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	_ = second.Close()

	if err := os.WriteFile(filepath.Join(cfg.Dir, stdoutSocket), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg, &fakeSink{}); !errors.Is(err, ErrNotSocket) {
		t.Errorf("a file in the way: %v", err)
	}
	if err := Check(cfg.Dir); !errors.Is(err, ErrNotSocket) {
		t.Errorf("check with a file in the way: %v", err)
	}
	cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("x", 100))
	if _, err := Open(cfg, &fakeSink{}); !errors.Is(err, ErrPathTooLong) {
		t.Errorf("a long path: %v", err)
	}
	cfg.Dir = "/nonexistent-ingest"
	if _, err := Open(cfg, &fakeSink{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// What the kernel holds when Run is told to end is handed over.
func TestRunDrains(t *testing.T) {
	cfg := testConfig(t)
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	for range 5 {
		r.write(r.dial(nativeSocket), "MESSAGE=native\n")
		r.write(r.dial(syslogSocket), "syslog")
		r.write(r.dial(stdoutSocket), header+"whole\nhalf")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, e := range sink.take() {
		got[get(t, e, "MESSAGE")]++
	}
	wantDiff(t, "messages", map[string]int{"native": 5, "syslog": 5, "whole": 5, "half": 5}, got)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// A sink whose buffer is full makes the senders wait, and a barrier; nothing is
// dropped.
func TestFullSink(t *testing.T) {
	sink := &fakeSink{}
	entered, release := sink.block()
	r := startWith(t, testConfig(t), sink)
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=first\n")
	<-entered
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// Fill the queue until the sender would have to wait.
	sent := 1
	for full := false; !full; {
		_ = raw.Control(func(fd uintptr) {
			switch err := unix.Sendmsg(int(fd), []byte("MESSAGE=more\n"), nil, nil, unix.MSG_DONTWAIT); {
			case err == nil:
				sent++
			case errors.Is(err, unix.EAGAIN):
				full = true
			default:
				t.Fatal(err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Barrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Barrier with a full sink: %v", err)
	}
	release()
	if n := len(r.barrier()); n != sent {
		t.Errorf("%d entries, want %d", n, sent)
	}
}

// Close gives up a Run that is blocked in the sink.
func TestCloseAborts(t *testing.T) {
	cfg := testConfig(t)
	sink := &fakeSink{}
	entered, _ := sink.block()
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	r.write(r.dial(nativeSocket), "MESSAGE=first\n")
	r.write(r.dial(stdoutSocket), header+"line\n")
	<-entered
	<-entered
	cancel()
	_ = in.Close()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}

// What the sink refuses is counted, and the source goes on.
func TestRefused(t *testing.T) {
	sink := &fakeSink{err: syscall.ENOSPC}
	r := startWith(t, testConfig(t), sink)
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=a\n\nMESSAGE=b\n")
	r.barrier()
	if n := r.count("native", "refused"); n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
	sink.mu.Lock()
	sink.err = nil
	sink.mu.Unlock()
	r.write(c, "MESSAGE=c\n")
	if n := len(r.barrier()); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// In a flood of datagrams barriers end, and everything from before is there.
func TestBarrierInFlood(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	for range 3 {
		c := r.dial(nativeSocket)
		flooding.Go(func() {
			for ctx.Err() == nil {
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = c.Write([]byte("MESSAGE=flood\n"))
			}
		})
	}
	c := r.dial(nativeSocket)
	for i := range 50 {
		want := "number " + itoa(i)
		r.write(c, "MESSAGE="+want+"\n")
		found := false
		for _, e := range r.barrier() {
			found = found || get(t, e, "MESSAGE") == want
		}
		if !found {
			t.Errorf("%q was not handed over before the barrier", want)
		}
	}
	cancel()
	flooding.Wait()
}

// Barriers from many goroutines at once, with nothing to do.
func TestBarriersAtOnce(t *testing.T) {
	r := start(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				if err := r.Barrier(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Entries of one socket keep their order.
func TestOrder(t *testing.T) {
	r := start(t)
	c := r.dial(nativeSocket)
	for i := range 500 {
		r.write(c, "MESSAGE="+itoa(i)+"\n")
	}
	entries := r.barrier()
	if len(entries) != 500 {
		t.Fatalf("%d entries, want 500", len(entries))
	}
	for i, e := range entries {
		if got := get(t, e, "MESSAGE"); got != itoa(i) {
			t.Fatalf("entry %d is %s", i, got)
		}
	}
}

// A flood is noticed, and its end.
func TestFloodState(t *testing.T) {
	cfg := testConfig(t)
	in, err := Open(cfg, &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	d := in.native
	if !d.rx.pidfd {
		t.Skip("needs a kernel with SO_PASSPIDFD")
	}
	d.now = time.Second
	d.rate(1)
	d.now += floodWindow
	d.rate(200)
	if !d.flood || d.rx.pidfd {
		t.Errorf("200 in 50 ms: flood %v, pidfd %v", d.flood, d.rx.pidfd)
	}
	d.now += floodWindow
	d.rate(10)
	if d.flood || !d.rx.pidfd {
		t.Errorf("10 in 50 ms: flood %v, pidfd %v", d.flood, d.rx.pidfd)
	}
	d.flood = true
	d.rx.passPidfd(false)
	d.now, d.lullAt = 0, 0
	d.calm()
	if d.flood || !d.rx.pidfd {
		t.Errorf("after a lull: flood %v, pidfd %v", d.flood, d.rx.pidfd)
	}
}

// The programs that people use.
func TestLoggerAndSystemdCat(t *testing.T) {
	r := start(t)
	logger, err := exec.LookPath("logger")
	if err != nil {
		t.Skip("needs logger")
	}
	path := filepath.Join(r.dir, syslogSocket)
	if out, err := exec.Command(logger, "-u", path, "-t", "tagged", "-p", "local0.warning", "--", "from logger").CombinedOutput(); err != nil {
		t.Fatalf("logger: %v: %s", err, out)
	}
	entries := r.barrier()
	if len(entries) != 1 {
		t.Fatalf("%d entries from logger", len(entries))
	}
	for name, want := range map[string]string{"MESSAGE": "from logger", "PRIORITY": "4", "SYSLOG_FACILITY": "16", "SYSLOG_IDENTIFIER": "tagged"} {
		if got := get(t, entries[0], name); got != want {
			t.Errorf("logger: %s = %q, want %q", name, got, want)
		}
	}

	cat, err := exec.LookPath("systemd-cat")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs systemd-cat, and root for its fixed path")
	}
	out, err := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		"mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && touch /run/systemd/journal/stdout && "+
			"mount --bind "+filepath.Join(r.dir, stdoutSocket)+" /run/systemd/journal/stdout && "+
			cat+" -t catted -p err sh -c 'echo one; echo \"<7>two\"; printf three'").CombinedOutput()
	if err != nil {
		t.Skipf("cannot run systemd-cat in a namespace here: %v: %s", err, out)
	}
	var got []string
	for _, e := range r.barrier() {
		got = append(got, get(t, e, "PRIORITY")+" "+get(t, e, "SYSLOG_IDENTIFIER")+" "+get(t, e, "MESSAGE"))
	}
	wantDiff(t, "systemd-cat", []string{"3 catted one", "7 catted two", "3 catted three"}, got)
}

func TestJSONDecoder(t *testing.T) {
	r := start(t)
	d := r.NewJSONDecoder("192.0.2.1")
	e, err := d.Decode([]byte(`{"message":"hello","level":"err","_x":1,"n":null}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range e.Fields {
		got = append(got, string(f))
	}
	wantDiff(t, "fields", []string{
		"MESSAGE=hello", "PRIORITY=3", "X=1", "_TRANSPORT=http", "_SOURCE_ADDR=192.0.2.1",
		"_BOOT_ID=00112233445566778899aabbccddeeff", "_MACHINE_ID=ffeeddccbbaa99887766554433221100", "_HOSTNAME=here", "_RUNTIME_SCOPE=system",
	}, got)
	wantDiff(t, "counts", entry.JSONCounts{Underscores: 1, Null: 1}, d.Counts)
	if _, err := d.Decode([]byte(`{`)); err == nil {
		t.Error("half an object was taken")
	} else if want := new(entry.JSONError); !errors.As(err, &want) {
		t.Errorf("error %T", err)
	}
	if e, err := r.NewJSONDecoder("").Decode([]byte(`{"a":1}`)); err != nil {
		t.Error(err)
	} else if _, ok := e.Get("_SOURCE_ADDR"); ok {
		t.Error("a source address without a peer")
	}
}

func TestHostnameChanges(t *testing.T) {
	cfg := testConfig(t)
	cfg.Hostname = ""
	h := newHost(&cfg)
	before := h.fields()
	h.refresh(time.Second)
	if &before[0] != &h.fields()[0] {
		t.Error("replaced although nothing has changed")
	}
	h.set("another")
	h.refresh(time.Second + hostnameAge/2)
	if h.all.Load().name != "another" {
		t.Error("asked again too soon")
	}
	h.refresh(time.Second + 2*hostnameAge)
	if h.all.Load().name == "another" {
		t.Error("not asked again")
	}
}

// What is lost is told: the first at once, what follows together, the last of
// all when Run ends.
func TestLossesAreTold(t *testing.T) {
	cfg := testConfig(t)
	events := make(chan string, 10)
	cfg.Event = func(priority int, _, text string, fields ...entry.Field) {
		events <- itoa(priority) + " " + text + " " + string(fields[0])
	}
	r := startWith(t, cfg, &fakeSink{})
	c := r.dial(nativeSocket)
	lose := func() { r.sendFDs(c, []byte("MESSAGE=x\n"), 0) }
	lose()
	if got, want := <-events, "4 Lost 1 messages: native unexpected_fds 1 N_DROPPED=1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lose()
	lose()
	r.write(c, "MESSAGE=cut\nX")
	r.write(r.dial(stdoutSocket), "bad\n\nheader\n")
	r.barrier()
	if len(events) != 0 {
		t.Errorf("told again within the window: %q", <-events)
	}
	r.stop()
	if got, want := <-events, "4 Lost 3 messages: native unexpected_fds 2, stdout bad_header 1 N_DROPPED=3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Close without Run leaves nothing open.
func TestCloseWithoutRun(t *testing.T) {
	before := openFDs(t)
	cfg := testConfig(t)
	in, err := Open(cfg, &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if n := openFDs(t); n != before {
		t.Errorf("%d open descriptors, %d before", n, before)
	}
	if err := in.Run(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
	if err := in.Barrier(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Barrier after Close: %v", err)
	}
}

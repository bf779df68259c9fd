package ingest

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// header begins a stream of this process.
const header = "ident\n\n6\n1\n0\n0\n0\n"

// lines returns MESSAGE and _LINE_BREAK of entries.
func (r *rig) lines() (all []string) {
	r.t.Helper()
	for _, e := range r.barrier() {
		line := get(r.t, e, "MESSAGE")
		if b, ok := e.Get("_LINE_BREAK"); ok {
			line += " (" + string(b) + ")"
		}
		all = append(all, line)
	}
	return all
}

func TestStdoutLines(t *testing.T) {
	cfg := testConfig(t)
	cfg.LineMax = 100
	r := startWith(t, cfg, &fakeSink{})
	long := strings.Repeat("0123456789", 25)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"stripped behind", "  a \t\r\n", []string{"  a"}},
		{"empty", "\n\na\n\n", []string{"a"}},
		{"blanks", "   \n", []string{"   "}},
		{"nul", "a\x00b\n", []string{"a (nul)", "b"}},
		{"end", "a\nb", []string{"a", "b (eof)"}},
		{"long", long + "\n", []string{long[:100] + " (line-max)", long[100:200] + " (line-max)", long[200:]}},
		{"just long", long[:100] + "\nb\n", []string{long[:100] + " (line-max)", "b"}},
		{"level", "<3>a\n<9>b\n<7>\n<07>c\n", []string{"a", "<9>b", "c"}},
	}
	for _, tt := range tests {
		c := r.dial(stdoutSocket)
		r.write(c, header+tt.text)
		_ = c.CloseWrite()
		wantDiff(t, tt.name, tt.want, r.lines())
		_ = c.Close()
	}
}

func TestStdoutFields(t *testing.T) {
	r := start(t)
	c := r.dial(stdoutSocket)
	r.write(c, "ident\nfoo.service\n30\nyes\n0\nno\noff\nplain\n<2>urgent\n")
	entries := r.barrier()
	if len(entries) != 2 {
		t.Fatalf("%d entries, want 2", len(entries))
	}
	id := get(t, entries[0], "_STREAM_ID")
	if len(id) != 32 || id != get(t, entries[1], "_STREAM_ID") {
		t.Errorf("_STREAM_ID = %q", id)
	}
	wantDiff(t, "plain", []string{
		"_TRANSPORT=stdout", "_STREAM_ID=" + id, "PRIORITY=6", "SYSLOG_FACILITY=3", "SYSLOG_IDENTIFIER=ident", "MESSAGE=plain",
	}, own(entries[0]))
	wantDiff(t, "urgent", []string{
		"_TRANSPORT=stdout", "_STREAM_ID=" + id, "PRIORITY=2", "SYSLOG_FACILITY=3", "SYSLOG_IDENTIFIER=ident", "MESSAGE=urgent",
	}, own(entries[1]))
	if entries[0].Urgent || !entries[1].Urgent {
		t.Errorf("urgent: %v, %v", entries[0].Urgent, entries[1].Urgent)
	}
	if pid := get(t, entries[0], "_PID"); pid != itoa(os.Getpid()) {
		t.Errorf("_PID = %s", pid)
	}
	if unit, _ := entries[0].Get("_SYSTEMD_UNIT"); os.Getuid() == 0 && string(unit) != "foo.service" {
		if _, placed := entries[0].Get("_SYSTEMD_CGROUP"); !placed {
			t.Errorf("_SYSTEMD_UNIT = %q, want that of the header", unit)
		}
	}
}

func TestStdoutHeaderErrors(t *testing.T) {
	r := start(t)
	for _, bad := range []string{
		"i\n\nx\n", "i\n\n1000\n", "i\n\n-1\n", "i\n\n6\n2\n", "i\n\n6\n1\n1\n1\nmaybe\n", "i\x00", strings.Repeat("x", 255) + "\n",
		"i\n\n6",
	} {
		before := r.count("stdout", "bad_header")
		c := r.dial(stdoutSocket)
		r.write(c, bad)
		_ = c.CloseWrite()
		// The connection is closed, which the client sees as its end.
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: connection not closed", bad)
		}
		r.barrier()
		if n := r.count("stdout", "bad_header"); n != before+1 {
			t.Errorf("%q: %d counted, want %d", bad, n, before+1)
		}
	}
}

func TestStdoutPieces(t *testing.T) {
	r := start(t)
	c := r.dial(stdoutSocket)
	text := header + "one\ntwo\n" + strings.Repeat("x", 10_000) + "\nrest"
	for i := range len(text) {
		r.write(c, text[i:i+1])
		if i%500 == 0 {
			_ = r.Barrier(t.Context())
		}
	}
	wantDiff(t, "lines", []string{"one", "two", strings.Repeat("x", 10_000)}, r.lines())
	_ = c.Close()
	r.stop()
	wantDiff(t, "at the end", []string{"rest"}, messages(t, r))
}

func messages(t *testing.T, r *rig) (all []string) {
	t.Helper()
	for _, e := range r.sink.take() {
		all = append(all, get(t, e, "MESSAGE"))
	}
	return all
}

// The process that goes on with an inherited stream is seen as itself, and ends
// the line of its parent.
func TestStdoutPidChange(t *testing.T) {
	r := start(t)
	c := r.dial(stdoutSocket)
	r.write(c, header+"whole\nhalf")
	_ = r.Barrier(t.Context())
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	child := helper(t, "echo", f)
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	entries := r.barrier()
	if len(entries) != 3 {
		t.Fatalf("%d entries, want 3", len(entries))
	}
	if b := get(t, entries[1], "_LINE_BREAK"); b != "pid-change" || get(t, entries[1], "MESSAGE") != "half" {
		t.Errorf("second entry: %q", own(entries[1]))
	}
	if pid := get(t, entries[1], "_PID"); pid != itoa(os.Getpid()) {
		t.Errorf("half a line is of pid %s", pid)
	}
	if pid := get(t, entries[2], "_PID"); pid != itoa(child.Process.Pid) {
		t.Errorf("the child's line is of pid %s, want %d", pid, child.Process.Pid)
	}
}

func TestStdoutTooMany(t *testing.T) {
	cfg := testConfig(t)
	cfg.MaxStreams, cfg.MaxStreamsPerUID = 2, 2
	r := startWith(t, cfg, &fakeSink{})
	first := r.dial(stdoutSocket)
	r.dial(stdoutSocket)
	r.barrier()
	third := r.dial(stdoutSocket)
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("the third stream was not closed")
	}
	r.barrier() // it sees its end a moment before it is refused
	if n := r.count("stdout", "too_many_streams"); n != 1 {
		t.Errorf("%d counted", n)
	}
	_ = first.Close()
	for ; ; _ = r.Barrier(t.Context()) {
		r.stdout.mu.Lock()
		n := len(r.stdout.streams)
		r.stdout.mu.Unlock()
		if n < 2 {
			break
		}
	}
	c := r.dial(stdoutSocket)
	r.write(c, header+"again\n")
	wantDiff(t, "a stream after another has ended", []string{"again"}, r.lines())
}

// A stream that writes without end does not keep a barrier or another stream.
func TestStdoutFlood(t *testing.T) {
	r := start(t)
	flood := r.dial(stdoutSocket)
	r.write(flood, header)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		line := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 100))
		for ctx.Err() == nil {
			_ = flood.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := flood.Write(line); err != nil && !errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	for i := range 20 {
		c := r.dial(stdoutSocket)
		want := "line " + itoa(i)
		r.write(c, header+want+"\n")
		found := false
		for _, line := range r.lines() {
			found = found || line == want
		}
		if !found {
			t.Errorf("%s was not handed over before the barrier", want)
		}
		_ = c.Close()
	}
	cancel()
	<-done
}

// One user's streams leave room for those of others.
func TestStdoutTooManyOfOneUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to be two users")
	}
	cfg := testConfig(t)
	cfg.MaxStreams, cfg.MaxStreamsPerUID = 4, 1
	r := startWith(t, cfg, &fakeSink{})
	if err := os.Chmod(cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fds := make(chan int)
	go func() {
		runtime.LockOSThread() // and end the thread with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 4711, ^uintptr(0)); errno != 0 {
			close(fds)
			return
		}
		for range 2 {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil || unix.Connect(fd, &unix.SockaddrUnix{Name: cfg.Dir + "/" + stdoutSocket}) != nil {
				fd = -1
			}
			fds <- fd
		}
		close(fds)
	}()
	for fd := range fds {
		if fd < 0 {
			t.Fatal("cannot connect as another user")
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	c := r.dial(stdoutSocket)
	r.write(c, header+"root's\n")
	wantDiff(t, "lines of another user", []string{"root's"}, r.lines())
	if n := r.count("stdout", "too_many_streams"); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

// More streams that write without end than there are turns: another one gets
// its turn all the same.
func TestStdoutTurns(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	line := []byte(strings.Repeat(strings.Repeat("x", 999)+"\n", 60))
	for range maxTurns + 16 {
		c := r.dial(stdoutSocket)
		r.write(c, header)
		flooding.Go(func() {
			for ctx.Err() == nil {
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = c.Write(line)
			}
		})
	}
	for i := range 3 {
		c := r.dial(stdoutSocket)
		want := "line " + itoa(i)
		r.write(c, header+want+"\n")
		if !slices.Contains(r.lines(), want) {
			t.Errorf("%s was not handed over before the barrier", want)
		}
	}
	cancel()
	flooding.Wait()
}

// Tiny entries and lines are handed over in pieces.
func TestBatchesAreBounded(t *testing.T) {
	r := start(t)
	r.write(r.dial(nativeSocket), strings.Repeat("A=\n\n", 20_000))
	r.sendFDs(r.dial(nativeSocket), nil, memfd(t, []byte(strings.Repeat("A=\n\n", 20_000)), allSeals))
	c := r.dial(stdoutSocket)
	r.write(c, header+strings.Repeat("x\n", 20_000))
	if n := len(r.barrier()); n != 60_000 {
		t.Errorf("%d entries, want 60000", n)
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	if r.sink.largest > 2*maxBatch {
		t.Errorf("a batch of %d entries, want %d at most", r.sink.largest, 2*maxBatch)
	}
}

func TestStdoutDescriptorsAreClosed(t *testing.T) {
	r := start(t)
	_ = control1(r.stdout.raw, func(fd int) error { return passRights(fd, true) }) // as kernels before 6.16
	c := r.dial(stdoutSocket)
	r.write(c, header+"x\n")
	r.barrier()
	before := openFDs(t)
	for range 1000 {
		raw, _ := c.SyscallConn()
		_ = raw.Write(func(fd uintptr) bool {
			err := unix.Sendmsg(int(fd), []byte("x\n"), unix.UnixRights(int(fd), int(fd)), nil, unix.MSG_DONTWAIT)
			if err != nil && !errors.Is(err, unix.EAGAIN) {
				t.Error(err)
			}
			return !errors.Is(err, unix.EAGAIN)
		})
	}
	r.barrier()
	r.closer.running.Wait()
	if after := openFDs(t); after != before {
		t.Errorf("%d open descriptors, %d before", after, before)
	}
}

func FuzzStreamHeader(f *testing.F) {
	f.Add([]byte(header), uint32(0))
	f.Add([]byte("i\na.service\n30\nyes\n0\nno\noff\nx"), uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, uid uint32) {
		var h streamHeader
		for h.lines < headerLines {
			line, skip, lineBreak := nextLine(data, maxHeaderLine)
			if skip == 0 || lineBreak != "" {
				return
			}
			data = data[skip:]
			if err := h.line(line, uid); err != nil {
				if !errors.Is(err, errHeader) {
					t.Fatal(err)
				}
				return
			}
		}
		if h.priority < 0 || h.priority > 999 || h.unit != "" && (uid != 0 || !validUnit(h.unit, true)) {
			t.Fatalf("accepted %+v", h)
		}
	})
}

// FuzzNextLine: lines and what ends them are the data, nothing else.
func FuzzNextLine(f *testing.F) {
	f.Add([]byte("a\nb\x00c"), 100)
	f.Add([]byte("aaaa"), 3)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + limit&0xff
		for {
			line, skip, lineBreak := nextLine(data, limit)
			if skip == 0 {
				break
			}
			if skip > len(data) || len(line) > limit || len(line) > skip || string(line) != string(data[:len(line)]) {
				t.Fatalf("line %q, skip %d of %q", line, skip, data)
			}
			if lineBreak == "" && data[skip-1] != '\n' || strings.ContainsAny(string(line), "\n\x00") {
				t.Fatalf("line %q ends with %q", line, data[skip-1])
			}
			data = data[skip:]
		}
		if len(data) >= limit || strings.ContainsAny(string(data), "\n\x00") {
			t.Fatalf("unfinished %q", data)
		}
	})
}

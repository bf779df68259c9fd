package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/settle"
)

// lineFiles are the files that a fakeDaemon was given.
type lineFiles struct {
	mu   sync.Mutex
	open []*fakeLines
	err  error // of OpenLines
}

// fakeLines keeps what it is given, with the inode of its first descriptor.
type fakeLines struct {
	d      *fakeDaemon
	inode  uint64
	text   strings.Builder
	err    error // of Append
	late   error // of Wait
	closed bool
}

func (d *fakeDaemon) OpenLines(_ context.Context, _ Peer, appending, repairing int) (Lines, error) {
	passed := []int{appending}
	if repairing >= 0 {
		passed = append(passed, repairing)
		defer syscall.Close(repairing)
	}
	defer syscall.Close(appending)
	var st unix.Stat_t
	if err := unix.Fstat(appending, &st); err != nil {
		return nil, err
	}
	for _, fd := range passed {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			return nil, fmt.Errorf("descriptor %d is inherited by children: %w", fd, err)
		}
	}
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if d.files.err != nil {
		return nil, d.files.err
	}
	f := &fakeLines{d: d, inode: st.Ino}
	d.files.open = append(d.files.open, f)
	return f, nil
}

func (f *fakeLines) Append(_ context.Context, lines []byte) error {
	f.d.files.mu.Lock()
	defer f.d.files.mu.Unlock()
	if f.err == nil {
		f.text.Write(lines)
	}
	return f.err
}

func (f *fakeLines) Wait(_ context.Context, level settle.Level) error {
	f.d.files.mu.Lock()
	defer f.d.files.mu.Unlock()
	if level == settle.Synced {
		f.text.WriteString("=")
	}
	return f.late
}

func (f *fakeLines) Close() {
	f.d.files.mu.Lock()
	defer f.d.files.mu.Unlock()
	f.closed = true
}

// refused is a RefusedError.
type refused string

func (r refused) Error() string   { return "refused: " + string(r) }
func (r refused) Refused() string { return string(r) }

// twoOf makes a file and opens it as a client does.
func twoOf(t *testing.T) (fds []int, inode uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	for _, flag := range []int{os.O_WRONLY | os.O_APPEND | os.O_CREATE, os.O_RDWR} {
		f, err := os.OpenFile(path, flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fds = append(fds, int(f.Fd()))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fds[0], &st); err != nil {
		t.Fatal(err)
	}
	return fds, st.Ino
}

// pass sends bytes with descriptors in one sendmsg.
func (c client) pass(t *testing.T, text string, fds ...int) {
	t.Helper()
	if _, _, err := c.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
}

// linesCall is a call with its NUL.
func linesCall(parameters string) string {
	return `{"method":"` + MethodAppendLines + `","parameters":{` + parameters + "}}\x00"
}

const statusCall = `{"method":"dev.tidemark.Log.Status"}` + "\x00"

// TestDescriptorsBelongToTheirMessage, however the messages are cut and however many
// wait in the socket.
func TestDescriptorsBelongToTheirMessage(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		a, inodeA := twoOf(t)
		b, inodeB := twoOf(t)
		d := &fakeDaemon{gate: make(chan struct{})}
		path := start(t, d, l)
		c := dial(t, path)
		// The first call waits, so that all of this is in the socket before it is read.
		c.say(t, syncCall)
		c.say(t, strings.TrimSuffix(statusCall, "\x00"))
		first := linesCall(`"lines":["one"]`)
		c.pass(t, first[:20], a...)
		c.pass(t, first[20:])
		c.pass(t, linesCall(`"lines":["two","ä"],"data":"`+base64.StdEncoding.EncodeToString([]byte("\xff\nrest"))+`"`))
		c.pass(t, linesCall(`"lines":["three"],"ack":"synced"`), b...)
		c.pass(t, statusCall+linesCall(`"lines":["four"]`))
		close(d.gate)
		want := []string{
			"{}", "1.2", `{"accepted":1,"ack":"appended"}`, `{"accepted":4,"ack":"appended"}`, `{"accepted":1,"ack":"synced"}`, "1.2",
			`{"accepted":1,"ack":"appended"}`,
		}
		for _, w := range want {
			if got := c.hear(); !strings.Contains(got, w) {
				t.Errorf("reply %s, want %s", got, w)
			}
		}
		got := map[uint64]string{}
		d.files.mu.Lock()
		defer d.files.mu.Unlock()
		for _, f := range d.files.open {
			got[f.inode] += f.text.String()
		}
		if diff := cmp.Diff(map[uint64]string{inodeA: "one\ntwo\nä\n\xff\nrest\n", inodeB: "three\n=four\n"}, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if !d.files.open[0].closed || d.files.open[1].closed {
			t.Error("the first file is not closed when the second comes, or the second is")
		}
	})
}

// TestAppendLinesSaysWhatIsWrong and takes nothing then.
func TestAppendLinesSaysWhatIsWrong(t *testing.T) {
	fds, _ := twoOf(t)
	const refusal = `{"error":"dev.tidemark.Log.Refused","parameters":{"reason":`
	for _, tt := range []struct {
		name, parameters string
		fds              []int
		daemon           error
		want             string
	}{
		{"no descriptors", `"lines":["x"]`, nil, nil, `{"error":"dev.tidemark.Log.NoFile","parameters":{}}`},
		{"one descriptor of a file that is not open", `"lines":["x"]`, fds[:1], refused("the file is not open here"), refusal + `"the file is not open`},
		{"three descriptors", `"lines":["x"]`, []int{fds[0], fds[1], fds[0]}, nil, refusal + `"want two`},
		{"twenty descriptors", `"lines":["x"]`, slices.Repeat(fds, 10), nil, refusal + `"want two`},
		{"refused", `"lines":["x"]`, fds, refused("a pipe"), refusal + `"a pipe"}}`},
		{"too many files", `"lines":["x"]`, fds, syscall.EMFILE, `{"error":"io.systemd.System","parameters":{"errno":24,`},
		{"line with a newline", `"lines":["x","a\nb"]`, fds, nil, `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"lines[1]"}}`},
		{"lines of the wrong type", `"lines":"x"`, fds, nil, `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"lines"}}`},
		{"data that is not base64", `"data":"x"`, fds, nil, `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"data"}}`},
		{"replicated", `"ack":"replicated"`, fds, nil, `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"ack"}}`},
		{"unknown parameter", `"file":1`, fds, nil, `{"error":"org.varlink.service.InvalidParameter","parameters":{"parameter":"file"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &fakeDaemon{}
			d.files.err = tt.daemon
			c := dial(t, start(t, d, Limits{}))
			c.pass(t, linesCall(tt.parameters), tt.fds...)
			if got := c.hear(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("reply %s, want %s", got, tt.want)
			}
			for _, f := range d.files.open {
				if f.text.Len() > 0 {
					t.Errorf("taken: %q", f.text.String())
				}
			}
		})
	}
}

// TestLinesThatDoNotGetThrough: an answer says how far they have come. A failure
// without an answer is told by the next one, and nothing is taken in between.
func TestLinesThatDoNotGetThrough(t *testing.T) {
	fds, _ := twoOf(t)
	d := &fakeDaemon{}
	c := dial(t, start(t, d, Limits{}))
	c.pass(t, linesCall(""), fds...)
	c.hear()
	f := d.files.open[0]
	fail := func(now, late error) {
		d.files.mu.Lock()
		defer d.files.mu.Unlock()
		f.err, f.late = now, late
	}
	ask := func(parameters, want string) {
		t.Helper()
		c.pass(t, linesCall(parameters))
		if got := c.hear(); got != want {
			t.Errorf("reply %s, want %s", got, want)
		}
	}
	const short = `{"error":"dev.tidemark.Log.NotReached","parameters":{"accepted":%d,"dropped":0,"ack":"accepted","errno":%d,"message":"%s"}}`
	fail(nil, syscall.ENOSPC)
	ask(`"lines":["1","2"]`, fmt.Sprintf(short, 2, 28, "no space left on device"))
	fail(syscall.EBADF, nil)
	ask(`"lines":["3"]`, fmt.Sprintf(short, 0, 9, "bad file descriptor"))
	c.pass(t, `{"method":"`+MethodAppendLines+`","oneway":true,"parameters":{"lines":["4"]}}`+"\x00"+statusCall)
	c.hear() // the status: the call before has failed
	fail(nil, nil)
	c.pass(t, `{"method":"`+MethodAppendLines+`","oneway":true,"parameters":{"lines":["5"]}}`+"\x00")
	ask(`"lines":["6"]`, fmt.Sprintf(short, 0, 9, "an earlier call failed: bad file descriptor"))
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if got := f.text.String(); got != "1\n2\n" {
		t.Errorf("taken %q", got)
	}
}

// TestClientsWithFilesLeaveRoom for commands of their user, and give it back.
func TestClientsWithFilesLeaveRoom(t *testing.T) {
	fds, _ := twoOf(t)
	path := start(t, &fakeDaemon{}, Limits{ConnsPerUID: 8})
	var with []client
	for range 6 {
		c := dial(t, path)
		c.pass(t, linesCall(""), fds...)
		if got := c.hear(); !strings.Contains(got, "accepted") {
			t.Fatal(got)
		}
		with = append(with, c)
	}
	c := dial(t, path)
	c.pass(t, linesCall(""), fds...)
	if got := c.hear(); !strings.Contains(got, "too many clients with files") {
		t.Errorf("a seventh: %s", got)
	}
	c.say(t, syncCall)
	if got := c.hear(); !strings.Contains(got, `"errno":16`) {
		t.Errorf("a command that may wait: %s", got)
	}
	c.pass(t, statusCall)
	if got := c.hear(); !strings.Contains(got, "1.2") {
		t.Errorf("status: %s", got)
	}
	with[0].Close()
	for {
		c.pass(t, linesCall(""), fds...)
		if got := c.hear(); strings.Contains(got, "accepted") {
			break
		}
	}
}

// openFDs counts the descriptors of this process.
func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestEveryDescriptorIsClosed: ten thousand calls that are wrong in some way leave as
// many descriptors open as there were.
func TestEveryDescriptorIsClosed(t *testing.T) {
	fds, _ := twoOf(t)
	many := slices.Repeat(fds, 3)
	eachWire(t, func(t *testing.T, l Limits) {
		l.Message, l.ConnsPerUID = 2000, 1000 // a slow server has all of them open
		d := &fakeDaemon{}
		srv, path, _ := startServer(t, func(s *Server) { s.daemon, s.limits = d, New(nil, Info{}, l).limits })
		first := dial(t, path) // whatever begins only once has begun
		first.pass(t, linesCall(""), fds...)
		first.hear()
		first.pass(t, linesCall(""), fds...)
		first.hear()
		before := openFDs(t)
		d.files.mu.Lock()
		d.files.err = errors.New("not now")
		d.files.mu.Unlock()
		long := strings.Repeat(" ", 3000)
		for range 5000 / 25 {
			nc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			c := client{nc, nil}
			for range 4 {
				c.pass(t, linesCall(`"lines":["x"]`), fds...)
				c.pass(t, linesCall(`"lines":3`), many...)
				c.pass(t, statusCall, fds[0])
				c.pass(t, `{"meth`, many...)
				c.pass(t, `od":"a`, fds...)
				c.pass(t, `.B"}`+"\x00", many...)
			}
			// What ends the connection.
			for _, last := range []string{"[]\x00", `{"method"`, long} {
				if _, _, err := nc.WriteMsgUnix([]byte(last), unix.UnixRights(fds...), nil); err != nil {
					break // it has ended
				}
			}
			if err := nc.Close(); err != nil {
				t.Fatal(err)
			}
		}
		left := func(n int) {
			for open := n + 1; open > n; runtime.Gosched() {
				srv.mu.Lock()
				open = len(srv.conns)
				srv.mu.Unlock()
			}
		}
		last := dial(t, path) // it is accepted behind all of them
		last.pass(t, statusCall, fds[0])
		last.hear()
		left(2)
		if err := last.Close(); err != nil {
			t.Fatal(err)
		}
		left(1)
		if after := openFDs(t); after > before {
			t.Errorf("%d descriptors were open, now %d", before, after)
		}
	})
}

// TestQuickLines takes calls as linelog.Dial writes them, and none that the way for
// all calls would read in another way; it allocates nothing.
func TestQuickLines(t *testing.T) {
	c := &conn{}
	head := strings.TrimSuffix(linesCall(`"data":"`), "}}\x00")
	for call, want := range map[string]string{
		head + `YQpiYgo="}}`:                                  "a\nbb\n",
		head + `YQ=="}}`:                                      "", // no newline at the end
		head + `"}}`:                                          "",
		head + `YQpi` + "\n" + `Ygo="}}`:                      "", // no JSON
		head + `YQpi` + "\r" + `Ygo="}}`:                      "",
		head + `YQpi\nYgo="}}`:                                "",
		head + `YQpiYgo"}}`:                                   "", // no padding
		head + `YQpiYgo=","ack":"synced"}}`:                   "",
		head + `YQpiYgo="}} `:                                 "",
		` ` + head + `YQpiYgo="}}`:                            "",
		head + `YQpiYgo=","lines":["YQpi"]}}`:                 "",
		strings.Replace(head, "Lines", "", 1) + `YQpiYgo="}}`: "",
	} {
		lines, ok := c.quickLines([]byte(call))
		if string(lines) != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", call, lines, ok, want)
		}
	}
	call := []byte(head + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("line\n", 1000))) + `"}}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := c.quickLines(call); !ok {
			t.Fatal("not taken")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

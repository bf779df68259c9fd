package control

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// hang is the limit of a wait that must end by an event.
const hang = 30 * time.Second

// startServer serves with what set has changed, until stop or the end of the test.
func startServer(t *testing.T, set func(*Server)) (s *Server, path string, stop func()) {
	t.Helper()
	path = filepath.Join(sockdir.New(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s = New(&fakeDaemon{}, Info{}, Limits{})
	set(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve = %v", err)
			}
		case <-time.After(hang):
			t.Error("Serve does not end")
		}
	})
	t.Cleanup(stop)
	return s, path, stop
}

// A client that does not read its replies is closed; one that asks for nothing is
// not.
func TestUnreadRepliesCloseTheConnection(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		_, path, _ := startServer(t, func(s *Server) { s.unread, s.limits.Threads = time.Millisecond, cmp.Or(l.Threads, DefaultThreads) })
		idle, deaf := dial(t, path), dial(t, path)
		again(t, idle)
		call := `{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"dev.tidemark.Log"}}` + "\x00"
		if err := deaf.SetWriteDeadline(time.Now().Add(hang)); err != nil {
			t.Fatal(err)
		}
		calls := 0 // more replies than any buffer takes
		for ; ; calls++ {
			if _, err := deaf.Write([]byte(call)); err != nil {
				if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("call %d: %v, want the connection closed", calls, err)
				}
				break
			}
		}
		replies := 0
		for deaf.hear() != "closed" {
			replies++
		}
		if replies >= calls {
			t.Errorf("%d replies to %d calls", replies, calls)
		}
		if !again(t, idle) {
			t.Error("an idle connection was closed")
		}
	})
}

// exhaust takes all descriptors that the process may have, until release.
func exhaust(t *testing.T) (release func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	taken := []int{null}
	release = func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		taken = nil
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	low := limit
	low.Cur = uint64(max(64, null+1))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return release
		}
		taken = append(taken, fd)
	}
}

// late connects with a descriptor from before, and asks something.
type late int

func newLate(t *testing.T) late {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return late(fd)
}

func (l late) connect(t *testing.T, path string) {
	t.Helper()
	if err := unix.Connect(int(l), &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
}

func (l late) ask(t *testing.T, path string) {
	t.Helper()
	l.connect(t, path)
	if _, err := unix.Write(int(l), []byte(`{"method":"a.B"}`+"\x00")); err != nil {
		t.Fatal(err)
	}
}

func (l late) answered(t *testing.T) {
	t.Helper()
	if got := l.hear(t); !strings.Contains(got, "MethodNotFound") {
		t.Errorf("answer %q", got)
	}
}

// closed waits for the end of the connection.
func (l late) closed(t *testing.T) {
	t.Helper()
	if got := l.hear(t); got != "" {
		t.Errorf("heard %q, want the end", got)
	}
}

func (l late) hear(t *testing.T) string {
	t.Helper()
	b := make([]byte, 200)
	timeout := unix.NsecToTimeval(hang.Nanoseconds())
	if err := unix.SetsockoptTimeval(int(l), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Read(int(l), b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// holdReserve connects without a word, for which the reserved descriptor goes.
func holdReserve(t *testing.T, s *Server, path string, l late) {
	t.Helper()
	l.connect(t, path)
	for end := time.Now().Add(hang); s.connections() < 2; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the reserve is not used")
		}
	}
}

// connections is how many there are.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// rests waits until accepting rests: only then it takes what says that a connection
// has ended. It is tried again after that.
func rests(t *testing.T, s *Server) {
	t.Helper()
	s.freed <- struct{}{}
	for end := time.Now().Add(hang); len(s.freed) > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("accepting does not rest")
		}
	}
}

// Out of descriptors, a command is answered all the same, one after the other: one
// is kept for that.
func TestLastDescriptor(t *testing.T) {
	s, path, _ := startServer(t, func(s *Server) { s.rest = time.Hour })
	again(t, dial(t, path))
	var clients []late
	for range 4 {
		clients = append(clients, newLate(t))
	}
	release := exhaust(t)
	for _, l := range clients {
		l.ask(t, path)
		l.answered(t)
		l.closed(t)
	}
	release()
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections, want the first", n)
	}
}

// Who says nothing does not keep the last descriptor.
func TestLastDescriptorIsNotKept(t *testing.T) {
	_, path, _ := startServer(t, func(s *Server) { s.rest, s.short = time.Hour, time.Millisecond })
	again(t, dial(t, path))
	silent, half, l := newLate(t), newLate(t), newLate(t)
	release := exhaust(t)
	silent.connect(t, path)
	half.connect(t, path)
	if _, err := unix.Write(int(half), []byte(`{"method":`)); err != nil {
		t.Fatal(err)
	}
	silent.closed(t)
	half.closed(t)
	l.ask(t, path)
	l.answered(t)
	release()
}

// With that one gone too, accepting rests, and tries again when a connection ends.
func TestAcceptRests(t *testing.T) {
	s, path, _ := startServer(t, func(s *Server) { s.rest, s.short, s.reserve.few = time.Hour, time.Hour, 1 })
	first := dial(t, path)
	again(t, first)
	silent, l := newLate(t), newLate(t)
	release := exhaust(t)
	holdReserve(t, s, path, silent)
	l.ask(t, path)
	for range 3 {
		rests(t, s)
	}
	first.Close()
	l.answered(t)
	release()
}

// Descriptors that come free elsewhere are found after a while.
func TestAcceptTriesAgain(t *testing.T) {
	s, path, _ := startServer(t, func(s *Server) { s.rest, s.short, s.reserve.few = time.Millisecond, time.Hour, 1 })
	again(t, dial(t, path))
	silent, l := newLate(t), newLate(t)
	release := exhaust(t)
	holdReserve(t, s, path, silent)
	l.ask(t, path)
	rests(t, s)
	for range 10_000 { // the try that it has caused finds nothing
		runtime.Gosched()
	}
	release()
	l.answered(t)
}

// The end does not wait until there are descriptors again.
func TestEndWithoutDescriptors(t *testing.T) {
	s, path, stop := startServer(t, func(s *Server) { s.rest, s.short, s.reserve.few = time.Hour, time.Hour, 1 })
	again(t, dial(t, path))
	silent, l := newLate(t), newLate(t)
	release := exhaust(t)
	holdReserve(t, s, path, silent)
	l.ask(t, path)
	rests(t, s)
	stop()
	release()
}

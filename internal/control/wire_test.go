package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// threads is how many connections have one of their own.
func (s *Server) threads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned
}

// The first connections of a user have threads of their own, the others have none,
// and all are answered. Who goes makes room.
func TestThreadsAreBounded(t *testing.T) {
	for _, tt := range []struct{ limit, want int }{{-1, 0}, {1, 1}, {8, 2}, {DefaultThreads, 4}} {
		s, path, stop := startServer(t, func(s *Server) { s.limits.Threads = tt.limit })
		for round := range 2 {
			var open []client
			for range 4 {
				c := dial(t, path)
				if !again(t, c) {
					t.Fatal("closed")
				}
				open = append(open, c)
			}
			if got := s.threads(); got != tt.want {
				t.Errorf("%d threads at most, round %d: %d of 4 connections have one, want %d", tt.limit, round, got, tt.want)
			}
			for _, c := range open {
				c.Close()
			}
			allGone(s)
			if got := s.threads(); got != 0 {
				t.Errorf("%d are left", got)
			}
		}
		stop()
	}
}

// allGone waits until all connections have ended.
func allGone(s *Server) {
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns)
	}
	for open() > 0 {
		<-s.freed
	}
}

// A thread's socket is not in the runtime's poller, which would wake a second
// thread for every message, but for as long as a command waits.
func TestThreadsNeedNoPoller(t *testing.T) {
	d := &fakeDaemon{gate: make(chan struct{})}
	eachWire(t, func(t *testing.T, l Limits) {
		s, path, _ := startServer(t, func(s *Server) {
			s.daemon = d
			if l.Threads != 0 {
				s.limits.Threads = l.Threads
			}
		})
		first := dial(t, path)
		again(t, first) // the server is up
		first.Close()
		allGone(s)
		before := inPoller(t)
		c := dial(t, path) // the client's is in it
		again(t, c)
		want := 1
		if l.Threads < 0 {
			want = 2
		}
		if got := inPoller(t) - before; got != want {
			t.Errorf("%d sockets more in the poller, want %d", got, want)
		}
		c.say(t, syncCall)
		d.gate <- struct{}{}
		c.hear()
		if got := inPoller(t) - before; got != want {
			t.Errorf("after a command that waited: %d sockets more in the poller, want %d", got, want)
		}
		c.Close()
	})
}

// inPoller is how many descriptors the runtime's poller looks after.
func inPoller(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != "anon_inode:[eventpoll]" {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(fd))
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(info), "tfd:")
	}
	return n
}

// A connection that cannot have a thread, for lack of a descriptor, has none.
func TestThreadWithoutDescriptor(t *testing.T) {
	s, path, _ := startServer(t, func(*Server) {})
	first := dial(t, path)
	again(t, first)
	l := newLate(t)
	one, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	release := exhaust(t)
	one.Close() // for the connection, and nothing else
	l.ask(t, path)
	l.answered(t)
	if got := s.threads(); got != 1 {
		t.Errorf("%d connections have a thread, want the first only", got)
	}
	release()
}

// Calls that wait in the kernel when the server ends are not begun: a client could
// have sent many that take long.
func TestQueuedCallsAreNotBegunAtTheEnd(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{gate: make(chan struct{})}
		path := filepath.Join(sockdir.New(t), "s")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		s := New(d, Info{}, l)
		go func() { done <- s.Serve(ctx, listener) }()
		c := dial(t, path)
		c.say(t, `{"method":"org.varlink.service.GetInfo"}`, syncCall)
		c.hear()
		// More than the buffer of the connection takes at once.
		c.say(t, fmt.Sprintf(`{"method":"a.%s"}`, strings.Repeat("b", 2*firstBuffer)), syncCall)
		cancel()
		ending := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ending
		}
		for !ending() {
			runtime.Gosched()
		}
		d.gate <- struct{}{}
		if got := c.hear(); got != `{"parameters":{}}` {
			t.Errorf("the call in progress: %s", got)
		}
		if got := c.hear(); got != "closed" {
			t.Errorf("the next: %s, want closed", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := d.syncs.Load(); n != 1 {
			t.Errorf("%d syncs, want 1", n)
		}
	})
}

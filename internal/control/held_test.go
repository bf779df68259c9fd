package control

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// What a user leaves unfinished is bounded, and what has ended does not count.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	for _, l := range []Limits{{Message: 64 << 10, HeldPerUID: 200 << 10}, {Message: 64 << 10, Held: 200 << 10, HeldPerUID: 200 << 10}} {
		s, path, _ := startServer(t, func(s *Server) { s.limits = New(nil, Info{}, l).limits })
		long := append([]byte(`{"method":"a.`), bytes.Repeat([]byte("x"), 60<<10)...)
		var open []client
		for range 10 { // whole ones, again and again
			c := dial(t, path)
			c.say(t, string(long)+`"}`)
			if c.hear() == "closed" || !again(t, c) {
				t.Fatal("closed after a whole message")
			}
			open = append(open, c)
		}
		const room = 3 // of 64 KiB each
		for i := range room {
			if _, err := open[i].Write(long); err != nil {
				t.Fatal(err)
			}
		}
		waitForHeld(t, s, room*64<<10)
		for i := room; i < 5; i++ {
			open[i].Write(long) //nolint:errcheck // it may be closed before the end
			if got := open[i].hear(); got != "closed" {
				t.Errorf("%+v: message %d without room: %s, want closed", l, i, got)
			}
		}
		for i := range room {
			// Those with room are still read: their message ends.
			open[i].Write([]byte("\"}\x00")) //nolint:errcheck // its answer tells
			if open[i].hear() == "closed" || !again(t, open[i]) {
				t.Errorf("%+v: message %d closed", l, i)
			}
		}
		c := dial(t, path)
		c.say(t, string(long)+`"}`)
		if c.hear() == "closed" {
			t.Error("closed although all others have ended")
		}
	}
}

// waitForHeld waits until the server holds as many bytes of large buffers.
func waitForHeld(t *testing.T, s *Server, n int) {
	t.Helper()
	held := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.held
	}
	for end := time.Now().Add(hang); held() < n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are held, want %d", held(), n)
		}
	}
}

// The largest message is 16 MiB, without its NUL, as with systemd.
func TestLargestMessage(t *testing.T) {
	if l := New(nil, Info{}, Limits{}).limits.Message; l != 16<<20 {
		t.Errorf("%d bytes", l)
	}
	eachWire(t, func(t *testing.T, l Limits) {
		l.Message = 20_000
		path := start(t, &fakeDaemon{}, l)
		message := func(n int) string {
			const frame = `{"method":"a.B"}`
			return frame[:len(frame)-1] + strings.Repeat(" ", n-len(frame)) + "}"
		}
		for n, want := range map[int]bool{19_999: true, 20_000: true, 20_001: false, 40_000: false} {
			c := dial(t, path)
			c.Write([]byte(message(n) + "\x00")) //nolint:errcheck // it may be closed before the end
			if got := c.hear(); strings.Contains(got, "MethodNotFound") != want {
				t.Errorf("%d bytes: %.40s", n, got)
			}
		}
	})
}

// again has a short call answered: then the buffer of what came before is gone.
func again(t *testing.T, c client) bool {
	c.say(t, `{"method":"a.B"}`)
	return c.hear() != "closed"
}

func TestHold(t *testing.T) {
	s := New(&fakeDaemon{}, Info{}, Limits{Message: 1 << 20, HeldPerUID: 4 << 20, Held: 6 << 20})
	a, b, other := &conn{server: s, uid: 1}, &conn{server: s, uid: 1}, &conn{server: s, uid: 2}
	for i, step := range []struct {
		c    *conn
		size int
		want error
	}{
		{a, 3 << 20, nil},
		{b, 2 << 20, errTooMuch},
		{b, 1 << 20, nil},
		{b, firstBuffer, nil},
		{other, 4 << 20, errTooMuch}, // with the others
		{other, 3 << 20, nil},
		{a, 4 << 20, errTooMuch},
		{other, firstBuffer, nil},
		{a, 4 << 20, nil},
		{a, 0, nil},
	} {
		if err := step.c.hold(step.size); err != step.want { //nolint:errorlint // it is not wrapped
			t.Errorf("step %d: %v, want %v", i, err, step.want)
		}
	}
	if s.held != 0 || len(s.heldBy) != 0 {
		t.Errorf("%d bytes of %d users are left", s.held, len(s.heldBy))
	}
}

// A message that has begun must end in time; between messages there is no limit.
func TestMessageMustEnd(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		path := filepath.Join(sockdir.New(t), "s")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		s := New(&fakeDaemon{}, Info{}, l)
		s.wait = time.Millisecond
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, listener) }()
		idle, half := dial(t, path), dial(t, path)
		again(t, idle)
		half.Write([]byte(`{"method":`)) //nolint:errcheck // its end is looked at
		if got := half.hear(); got != "closed" {
			t.Errorf("half a message: %s, want closed", got)
		}
		if !again(t, idle) {
			t.Error("an idle connection was closed")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

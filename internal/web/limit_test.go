package web

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// pipes is a listener in memory: it hands out what is sent to it.
type pipes struct {
	net.Listener
	pending chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.pending; ok {
		return c, nil
	}
	return nil, io.ErrUnexpectedEOF
}

func (p pipes) Close() error { return nil }

// TestLimit: what is over the limit waits until a connection is closed, which
// makes room once however often it is closed; a failed Accept takes no room; and
// closing the listener ends the wait.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := pipes{pending: make(chan net.Conn, 8)}
		for range 4 {
			c, _ := net.Pipe()
			inner.pending <- c
		}
		l := limit(inner, 2)
		accepted, failed := make(chan net.Conn, 8), make(chan error, 8)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					failed <- err
					return
				}
				accepted <- c
			}
		}()
		open := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := len(accepted); got != want {
				t.Fatalf("%d accepted, want %d", got, want)
			}
		}
		open(2)
		first, second := <-accepted, <-accepted
		first.Close()
		first.Close()
		open(1)
		l.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept = %v, want net.ErrClosed", err)
		}
		close(inner.pending)
		second.Close()
		l = limit(inner, 1)
		(<-inner.pending).Close()
		for range 2 {
			if _, err := l.Accept(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("Accept = %v, want the listener's error", err)
			}
		}
	})
}

// TestSilentClients: clients that begin a body and say no more keep others out
// no longer than they stay.
func TestSilentClients(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "http"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(&fakeSink{})
	cfg.MaxConns = 2
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- New(cfg).Serve(ctx, l) }()
	say := func(text string) net.Conn {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const half = "POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99\r\n\r\n{"
	one, two := say(half), say(half)
	third := say("GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	one.Close()
	b, err := io.ReadAll(third)
	if err != nil || !strings.HasSuffix(string(b), "PONG\n") {
		t.Errorf("the third got %q, %v", b, err)
	}
	third.Close()
	two.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

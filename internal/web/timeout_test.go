package web

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener hands out one connection in memory, and then waits to be closed.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestSlowHeaders: who connects and does not say what it wants, or says nothing
// after an answer, is hung up on.
func TestSlowHeaders(t *testing.T) {
	tests := []struct {
		name, say string
		answers   int // bytes to read before the wait counts
		want      time.Duration
	}{
		{"nothing", "", 0, headerTimeout},
		{"half a header", "GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n", 0, headerTimeout},
		{"idle", "GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 1, idleTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				l := &pipeListener{conns: make(chan net.Conn, 1)}
				l.conns <- theirs
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- New(config(&fakeSink{})).Serve(ctx, l) }()
				if _, err := io.WriteString(ours, tt.say); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(ours, make([]byte, tt.answers)); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				// A bubble whose server waits for ever would end the test as a deadlock.
				if _, err := io.Copy(io.Discard, ours); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != tt.want {
					t.Errorf("hung up after %s, want %s", took, tt.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

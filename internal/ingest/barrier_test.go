package ingest

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

// Once the sockets have been read to their end nobody is told that what he has
// sent since is stored: the kernel refuses it, and a barrier fails.
func TestNothingIsTakenAfterRun(t *testing.T) {
	cfg := testConfig(t)
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	native, syslog, stdout := r.dial(nativeSocket), r.dial(syslogSocket), r.dial(stdoutSocket)
	r.write(native, "MESSAGE=before\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(sink.take()); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	for _, c := range []interface{ Write([]byte) (int, error) }{native, syslog, stdout} {
		if _, err := c.Write([]byte("MESSAGE=after\n")); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a message after Run: %v, want it refused", err)
		}
	}
	if err := in.Barrier(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Barrier after Run: %v, want ErrClosed", err)
	}
}

// While the sink holds up the end, a barrier from before it still succeeds; one
// from after it fails.
func TestBarrierWhileEnding(t *testing.T) {
	cfg := testConfig(t)
	sink := &fakeSink{}
	entered, release := sink.block()
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- in.Run(ctx) }()
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=first\n")
	<-entered
	b := &barrier{done: make(chan struct{})}
	b.left.Store(1)
	in.native.gate.ask(b)
	cancel()
	for !in.native.gate.isEnding() {
		ctx, stop := context.WithTimeout(t.Context(), 1)
		<-ctx.Done()
		stop()
	}
	if err := in.Barrier(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Barrier while ending: %v, want ErrClosed", err)
	}
	release()
	<-b.done
	if b.failed.Load() {
		t.Error("a barrier from before the end has failed")
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func (g *gate) isEnding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ending
}

package ingest

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
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

// When a source has passed a barrier: it has found its queue empty, has seen a
// message that was sent later, or has handled as many as can have been queued; the
// last also if the clock was set back.
func TestPassed(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	d := in.native
	const asked, from = 1000, 50
	most := d.queue + recvSlots // in the queue, and in the batch before it
	for _, tt := range []struct {
		name           string
		empty          bool
		stamp, handled uint64
		want           bool
	}{
		{"a message from before", false, asked - 1, from + 1, false},
		{"one of the same time", false, asked, from + 1, false},
		{"one from later", false, asked + 1, from + 1, true},
		{"empty", true, asked - 1, from, true},
		{"as many as can be queued", false, asked - 1, from + most, false},
		{"more", false, asked - 1, from + most + 1, true},
	} {
		d.rx.empty, d.stamp, d.handled = tt.empty, tt.stamp, tt.handled
		b := &barrier{after: asked, done: make(chan struct{})}
		b.left.Store(1)
		d.waiting = append(d.waiting[:0], waiter{b, from})
		d.pass()
		select {
		case <-b.done:
			if !tt.want || len(d.waiting) != 0 {
				t.Errorf("%s: passed, and %d wait", tt.name, len(d.waiting))
			}
		default:
			if tt.want || len(d.waiting) != 1 {
				t.Errorf("%s: not passed, and %d wait", tt.name, len(d.waiting))
			}
		}
	}
	d.waiting = nil
}

// A socket that is never found empty, since each batch that is handed over is
// followed by a message at once, keeps no barrier.
func TestBarrierEndsBeforeTheFlood(t *testing.T) {
	for _, name := range []string{nativeSocket, syslogSocket, stdoutSocket} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			var c *net.UnixConn
			var text string
			sink := &fakeSink{during: func(entries []entry.Entry) {
				if v, _ := entries[0].Get("MESSAGE"); string(v) != "end" {
					_, _ = c.Write([]byte(text))
				}
			}}
			in, err := Open(cfg, sink)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
			c, text = r.dial(name), "MESSAGE=more\n"
			if name == stdoutSocket {
				r.write(c, header)
			}
			r.write(c, text)
			r = run(t, in, cfg, sink)
			for range 20 {
				passed := make(chan error, 1)
				go func() { passed <- r.Barrier(t.Context()) }()
				if err := hear(t, passed, "a barrier"); err != nil {
					t.Fatal(err)
				}
			}
			if len(sink.take()) < 20 {
				t.Error("there was no flood")
			}
			_ = c.Close() // ends it
		})
	}
}

package ingest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hang is the limit of a wait that must end by an event.
const hang = 30 * time.Second

// awaited waits until the owner of f pauses.
func awaited(t *testing.T, f *flag) {
	t.Helper()
	for end := time.Now().Add(hang); f.state.Load() != flagAwaited; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("no pause has begun")
		}
	}
}

// hear returns what comes from c.
func hear[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(hang):
		t.Fatalf("%s: nothing happens", what)
	}
	return v
}

// A pause ends when the flag is raised: before, at the beginning, and later.
func TestPauseEndsWithTheFlag(t *testing.T) {
	var f flag
	ended := make(chan bool)
	for i := range 2000 {
		go func() { ended <- f.pause(time.Hour) }()
		if i%2 == 0 {
			awaited(t, &f)
		}
		f.raise()
		if !hear(t, ended, "a raised flag") {
			t.Fatal("the pause has not told that the flag was raised")
		}
		if !f.isRaised() || !f.pause(time.Hour) {
			t.Fatal("the flag was lowered by the pause")
		}
		f.lower()
	}
	if f.isRaised() || f.pause(time.Microsecond) || f.isRaised() {
		t.Error("raised by nobody")
	}
}

// gathering returns an Ingest that runs, and has begun to let messages gather for
// an hour behind the first one.
func gathering(t *testing.T, name string) (r *rig, cancel func(), ran chan error) {
	t.Helper()
	cfg := testConfig(t)
	cfg.gather = time.Hour
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	for _, d := range []*datagrams{in.native, in.syslog} {
		d.flood, d.window = true, time.Hour // no window ends before
	}
	r = &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	c := r.dial(name)
	if name != stdoutSocket {
		r.write(c, "MESSAGE=first\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran = make(chan error, 1)
	go func() { ran <- in.Run(ctx) }()
	t.Cleanup(cancel)
	switch name {
	case nativeSocket:
		awaited(t, &in.native.gate.hint)
	case syslogSocket:
		awaited(t, &in.syslog.gate.hint)
	default:
		r.write(c, header+"MESSAGE=first\n")
		s := r.onlyStream()
		// The first read is nobody's second.
		for end := time.Now().Add(hang); s.gate.hint.state.Load() != flagAwaited; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("no pause has begun")
			}
			if s.queued() == 0 { // a large read lets nothing gather
				r.write(c, "MESSAGE=next\n")
			}
		}
	}
	return r, cancel, ran
}

// onlyStream waits for a stream.
func (r *rig) onlyStream() *stream {
	r.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); runtime.Gosched() {
		r.stdout.mu.Lock()
		for s := range r.stdout.streams {
			r.stdout.mu.Unlock()
			return s
		}
		r.stdout.mu.Unlock()
	}
	r.t.Fatal("no stream")
	return nil
}

// hasFirst reports whether the first message was handed over.
func (r *rig) hasFirst() bool {
	for _, e := range r.sink.take() {
		if m, _ := e.Get("MESSAGE"); strings.HasSuffix(string(m), "first") {
			return true
		}
	}
	return false
}

// While messages gather, a barrier, the end and Close go on at once, with what has
// come.
func TestGatheringEndsAtOnce(t *testing.T) {
	for _, name := range []string{nativeSocket, syslogSocket, stdoutSocket} {
		t.Run(name+" barrier", func(t *testing.T) {
			r, cancel, ran := gathering(t, name)
			passed := make(chan error, 1)
			go func() { passed <- r.Barrier(t.Context()) }()
			if err := hear(t, passed, "a barrier"); err != nil || !r.hasFirst() {
				t.Errorf("barrier: %v, or without the message before it", err)
			}
			cancel()
			if err := hear(t, ran, "Run"); err != nil {
				t.Error(err)
			}
		})
		t.Run(name+" end", func(t *testing.T) {
			r, cancel, ran := gathering(t, name)
			cancel()
			if err := hear(t, ran, "Run"); err != nil || !r.hasFirst() {
				t.Errorf("Run: %v, or without the message before its end", err)
			}
		})
		t.Run(name+" close", func(t *testing.T) {
			r, _, ran := gathering(t, name)
			_ = r.Close()
			if err := hear(t, ran, "Run"); !errors.Is(err, context.Canceled) {
				t.Errorf("Run after Close: %v", err)
			}
		})
	}
}

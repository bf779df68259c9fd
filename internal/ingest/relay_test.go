package ingest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// relayed is a sink that notices when a relay calls it.
func relayed(seen *atomic.Bool) *fakeSink {
	return &fakeSink{during: func([]entry.Entry) {
		if strings.Contains(string(debug.Stack()), "(*relay)") {
			seen.Store(true)
		}
	}}
}

// numbered is message n of a flood: some are longer than a slot.
func numbered(n int) string {
	text := fmt.Sprintf("number %d", n)
	if n%50 == 0 {
		text += strings.Repeat(".", slotSize+n)
	}
	return text
}

// TestRelay floods a socket from one process until batches go through the relay, and
// on: each message is handed over whole, once and in order, and a barrier waits for
// those that are under way.
func TestRelay(t *testing.T) {
	for socket, frame := range map[string]string{nativeSocket: "MESSAGE=%s\n", syslogSocket: "%s"} {
		t.Run(socket, func(t *testing.T) {
			var seen atomic.Bool
			cfg := testConfig(t)
			cfg.relay = 2
			r := startWith(t, cfg, relayed(&seen))
			c := r.dial(socket)
			n, got := 0, 0
			for last := 0; last == 0 || n < last; {
				for range 300 {
					r.write(c, fmt.Sprintf(frame, numbered(n)))
					n++
				}
				for _, e := range r.barrier() {
					if text := get(t, e, "MESSAGE"); text != numbered(got) {
						t.Fatalf("message %d is %.40q", got, text)
					}
					got++
				}
				if got != n {
					t.Fatalf("%d messages behind a barrier, want %d", got, n)
				}
				if last == 0 && seen.Load() {
					last = n + 900
				}
			}
		})
	}
}

// TestRelayOfAStuckSink: when the sink takes nothing, the relay has two batches and the
// source the next, and the sender waits; Close gives up both, or all is handed over
// once the sink goes on.
func TestRelayOfAStuckSink(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("ends %v", ends), func(t *testing.T) {
			var seen atomic.Bool
			sink := relayed(&seen)
			cfg := testConfig(t)
			cfg.relay = 2
			in, err := Open(cfg, sink)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- in.Run(t.Context()) }()
			r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
			c := r.dial(syslogSocket)
			n := 0
			say := func() {
				r.write(c, fmt.Sprintf("number %d", n))
				n++
			}
			for !seen.Load() {
				say()
			}
			before := len(r.barrier())
			entered, release := sink.block()
			for range 2 * queueLength() / 3 {
				say()
			}
			<-entered
			if !ends {
				release()
				if got := before + len(r.barrier()); got != n {
					t.Errorf("%d messages, want %d", got, n)
				}
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// What a batch came to is told with a later one, or by the join, the first error first,
// and once.
func TestRelayTellsErrorsLater(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	results := []error{nil, first, second, nil}
	var r relay
	n := 0
	r.hand = func(context.Context, *lot) error { n++; return results[n-1] }
	defer r.stop()
	var told []error
	for range results {
		if err := r.give(t.Context(), &lot{}); err != nil {
			told = append(told, err)
		}
	}
	if err := r.join(); err != nil {
		told = append(told, err)
	}
	if len(told) == 0 || !errors.Is(told[0], first) || n != len(results) {
		t.Errorf("%d of %d batches handed over, told %v, want %v first", n, len(results), told, first)
	}
	if err := r.join(); err != nil || !r.idle() {
		t.Errorf("the next join: %v, idle %v", err, r.idle())
	}
}

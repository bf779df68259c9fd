package ingest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// heard is a sink that tells of messages that begin with "call", and may hold up
// those of one transport.
func heard(calls chan string, held string, hold chan struct{}) *fakeSink {
	return &fakeSink{during: func(entries []entry.Entry) {
		for _, e := range entries {
			if v, _ := e.Get("_TRANSPORT"); string(v) == held {
				<-hold
			}
			if m, _ := e.Get("MESSAGE"); strings.HasPrefix(string(m), "call") {
				calls <- string(m)
			}
		}
	}}
}

// A way in that the sink holds up holds up no other.
func TestHeldSourceHoldsUpNobody(t *testing.T) {
	ways := []struct{ transport, socket, text string }{
		{"journal", nativeSocket, "MESSAGE=call\n"},
		{"syslog", syslogSocket, "call"},
		{"stdout", stdoutSocket, header + "call\n"},
	}
	for _, held := range ways {
		t.Run(held.transport, func(t *testing.T) {
			calls, hold := make(chan string, 10), make(chan struct{})
			r := startWith(t, testConfig(t), heard(calls, held.transport, hold))
			release := sync.OnceFunc(func() { close(hold) })
			t.Cleanup(release) // before the end waits for the sink
			r.write(r.dial(held.socket), held.text)
			for _, way := range ways {
				if way == held {
					continue
				}
				for range 3 {
					r.write(r.dial(way.socket), way.text)
					hear(t, calls, way.transport)
				}
			}
			if len(calls) != 0 {
				t.Error("the sink did not hold up what it should")
			}
			release()
			hear(t, calls, held.transport)
		})
	}
}

// A flood on one socket of datagrams starves no other.
func TestFloodStarvesNobody(t *testing.T) {
	for _, flooded := range []struct{ socket, text, other, call string }{
		{nativeSocket, "MESSAGE=flood\n", syslogSocket, "call"},
		{syslogSocket, "flood", nativeSocket, "MESSAGE=call\n"},
	} {
		t.Run(flooded.socket, func(t *testing.T) {
			calls := make(chan string, 10)
			r := startWith(t, testConfig(t), heard(calls, "", nil))
			ctx, cancel := context.WithCancel(t.Context())
			var flooding sync.WaitGroup
			for range 4 {
				c := r.dial(flooded.socket)
				flooding.Go(func() {
					for ctx.Err() == nil {
						_ = c.SetWriteDeadline(time.Now().Add(time.Second))
						_, _ = c.Write([]byte(flooded.text))
					}
				})
			}
			datagram, stream := r.dial(flooded.other), r.dial(stdoutSocket)
			r.write(stream, header)
			for range 50 {
				r.write(datagram, flooded.call)
				hear(t, calls, flooded.other)
				r.write(stream, "call\n")
				hear(t, calls, "a stream")
			}
			cancel()
			flooding.Wait()
			flood := 0
			for _, text := range r.texts() {
				if text == "flood" {
					flood++
				}
			}
			if flood < 100 {
				t.Errorf("%d messages are no flood", flood)
			}
		})
	}
}

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
)

// What is declared in these tests, and how much the text is that fills it many
// times over, with all that the sockets hold besides.
const (
	smallBuffer = 256 << 10
	textSize    = 1 << 10
	flood       = 8 << 20 / textSize
)

// TestFullBufferBlocks: while nothing can be written, each socket takes what the
// declared buffer has room for; then the sender waits, for as long as it takes, and
// nothing is lost. Commands go on throughout.
func TestFullBufferBlocks(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			d := start(t, newPlace(t, t.TempDir(), "Sync=50ms", fmt.Sprint("Compress=no\nBuffer=", smallBuffer), "LineMax=64K"))
			settled(t, d)
			h := hold(t, d, "pwrite64")
			c, err := d.dial(kind)
			noError(t, err)
			defer c.Close()
			text := func(n int) string { return fmt.Sprintf("number %d %s", n, strings.Repeat("x", textSize)) }
			// Before the mark: a quarter of the buffer is taken, whether or not the
			// daemon reads as fast as we send.
			const some = smallBuffer / 4 / textSize
			for n := range some {
				noError(t, c.send(text(n)))
			}
			h.waitHeld(1)
			until(t, "the first part", func() bool { return d.state(t).Buffered >= smallBuffer/5 })
			sent := make(chan error, 1)
			go func() {
				for n := some; n < flood; n++ {
					if err := c.send(text(n)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			until(t, "a full buffer", func() bool { return d.state(t).Buffered >= smallBuffer })
			if _, err := d.call(guarded(t), control.MethodFlushToVar, nil); err != nil {
				t.Error(err)
			}
			if got := d.state(t).Buffered; got > 2*smallBuffer {
				t.Errorf("%d bytes are buffered, the bound is %d", got, smallBuffer)
			}
			select {
			case err := <-sent:
				t.Errorf("all was sent (error: %v) while the buffer of %d bytes is full", err, smallBuffer)
			default:
			}
			h.release()
			noError(t, within(t, "the rest", sent))
			noError(t, c.Close())
			noError(t, d.stop())
			found := messages(t, d.data)
			for n := range flood {
				if found[text(n)] != 1 {
					t.Fatalf("number %d is there %d times", n, found[text(n)])
				}
			}
		})
	}
}

// TestFullBufferRefuses: while nothing can be written, HTTP takes what the declared
// buffer has room for, and answers it when it is written; then it refuses, with the
// time to come again, and takes no more than it says.
func TestFullBufferRefuses(t *testing.T) {
	d := start(t, newPlace(t, t.TempDir(), "Sync=50ms", fmt.Sprint("Compress=no\nBuffer=", smallBuffer)))
	settled(t, d)
	ctx := guarded(t)
	h := hold(t, d, "pwrite64")
	answers := make(chan error, flood)
	text := func(n int) string { return fmt.Sprintf("number %d %s", n, strings.Repeat("x", textSize)) }
	var refused *answerError
	before, n := d.state(t).Files[0].Entries, 0
	for ; refused == nil; n++ {
		go func() { answers <- d.post(ctx, text(n), "appended") }()
		until(t, "the request", func() bool {
			select {
			case err := <-answers:
				if !errors.As(err, &refused) {
					t.Errorf("answered (error: %v) while writes are held", err)
				}
				return true
			default:
				return d.state(t).Files[0].Entries == before+uint64(n+1)
			}
		})
		if n > flood {
			t.Fatal("nothing is refused")
		}
	}
	taken := n - 1
	if taken*textSize < smallBuffer/2 {
		t.Errorf("refused after %d requests of %d bytes; the buffer is %d", taken, textSize, smallBuffer)
	}
	if refused.status != http.StatusServiceUnavailable || refused.header.Get("Retry-After") == "" {
		t.Errorf("refused with %v and Retry-After %q", refused, refused.header.Get("Retry-After"))
	}
	h.release()
	for range taken {
		noError(t, within(t, "the answer", answers))
	}
	until(t, "room", func() bool {
		err := d.post(ctx, "again", "synced")
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return err == nil
	})
	noError(t, d.stop())
	found := messages(t, d.data)
	for i := range taken {
		if found[text(i)] != 1 {
			t.Errorf("number %d was answered and is there %d times", i, found[text(i)])
		}
	}
	if found[text(taken)] != 0 || found["again"] != 1 {
		t.Errorf("what was refused is there %d times, what came again %d times", found[text(taken)], found["again"])
	}
}

package linelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// holdWrites has each write of the log wait for a value of the channel.
func (r *rig) holdWrites() chan struct{} {
	gate := make(chan struct{})
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if op.Name == "write" {
			<-gate
		}
		return nil
	})
	return gate
}

const tenBytes = "123456789\n"

// Lines without room are dropped, counted, and missing where the log says so.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Full: Drop, Limit: 400, Buffer: 100}, nil)
		gate := r.holdWrites()
		for range 40 { // up to the limit: all is accepted
			r.put(tenBytes)
		}
		if st := r.Stats(); st.Dropped != 0 || st.Buffered != 400 {
			t.Errorf("at the limit: %+v", st)
		}
		r.put(tenBytes + tenBytes + "dropped, but not the re")
		if _, err := r.Append(context.Background(), []byte("no room")); !errors.Is(err, ErrDropped) {
			t.Errorf("Append = %v, want ErrDropped", err)
		}
		if st := r.Stats(); st.Dropped != 3 || st.DroppedBytes != 28 || st.Lines != 40 || st.Buffered != 400 {
			t.Errorf("over the limit: %+v", st)
		}
		close(gate)
		time.Sleep(time.Second)
		if text := string(r.fs.Bytes(logPath)); !strings.HasSuffix(text, "waiting to be written\n") {
			t.Errorf("a second later the log ends in %q", text[max(0, len(text)-40):])
		}
		r.put("st\n")
		r.append1("after\n")
		r.close()
		want := strings.Repeat(tenBytes, 40) + "# linelog: 2000-01-01T00:00:00Z: lines dropped: 3 (28 bytes), while 400 bytes were waiting to be written\n"
		r.want(want, "dropped, but not the rest\n", "after\n")
		if !strings.Contains(r.words(), "lines dropped: 3 (28 bytes)") {
			t.Errorf("said: %s", r.words())
		}
		if st := r.Stats(); st.Lines != 43 || st.Dropped != 3 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// What is dropped when no write succeeds any more is said by Close, if it can write.
func TestDropIsSaidByClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Full: Drop, Limit: 10}, nil)
		gate := r.holdWrites()
		r.put(tenBytes)
		r.put(tenBytes)
		go close(gate)
		r.close()
		if text := string(r.fs.Bytes(logPath)); !strings.HasPrefix(text, tenBytes+"# linelog: ") || strings.Count(text, "\n") != 2 {
			t.Errorf("the log holds %q", text)
		}
	})
}

// When the beginning of a line that is too long was dropped, so is its end.
func TestDropOfALongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Full: Drop, Limit: 400, Buffer: 40, MaxLine: 20}, nil)
		gate := r.holdWrites()
		r.put(strings.Repeat(tenBytes, 40))
		r.put(strings.Repeat("x", 50))
		close(gate)
		synctest.Wait()
		r.put("xx\nnext\n")
		r.close()
		if got := contents(t, r.fs)["access.log"]; strings.Join(got, " ") != strings.Repeat("123456789 ", 40)+"next" {
			t.Errorf("the log holds %q", got)
		}
	})
}

// Callers wait for room, and lose nothing.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Limit: 30, Buffer: 10}, nil)
		gate := r.holdWrites()
		var wg sync.WaitGroup
		done := make(chan int, 10)
		for i := range 10 {
			wg.Go(func() {
				r.put(fmt.Sprintf("line %03d\n", i))
				done <- i
			})
			synctest.Wait()
		}
		if n := len(done); n != 3 {
			t.Errorf("%d callers have returned, want 3: the limit is 30 bytes", n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() {
			if _, err := r.Append(ctx, []byte("given up\n")); !errors.Is(err, context.Canceled) {
				t.Errorf("Append = %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		if n := len(done); n != 4 {
			t.Errorf("%d callers have returned after one write, want 4", n)
		}
		close(gate)
		wg.Wait()
		r.close()
		if got := contents(t, r.fs)["access.log"]; len(got) != 10 {
			t.Errorf("%d lines, want 10: %q", len(got), got)
		}
		if st := r.Stats(); st.Dropped != 0 || st.Blocked == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Close ends those who wait for room, with an error.
func TestCloseEndsWhoWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Limit: 10}, nil)
		gate := r.holdWrites()
		r.put(tenBytes)
		s := r.Stream()
		errs := make(chan error, 2)
		go func() { _, err := s.Write([]byte(tenBytes)); errs <- err }()
		go func() { _, err := r.Append(context.Background(), []byte(tenBytes)); errs <- err }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { r.close(); close(closed) }()
		synctest.Wait()
		if n := len(errs); n != 2 {
			t.Errorf("%d of 2 blocked calls have ended while a write is held", n)
		}
		close(gate)
		<-closed
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("a blocked call: %v", err)
			}
		}
		r.want(tenBytes)
	})
}

// A call with more than the limit is accepted when nothing else waits.
func TestLargeCall(t *testing.T) {
	for _, full := range []Full{Block, Drop} {
		r := newRig(t, Options{Limit: 50, Buffer: 40, Full: full}, nil)
		r.put(strings.Repeat(tenBytes, 100))
		r.close()
		r.want(strings.Repeat(tenBytes, 100))
	}
}

// No append waits for a write or a sync that is held; nor does Stats.
func TestAppendWaitsForNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		gate := make(chan struct{})
		r.fs.Hook(func(int, crashfs.Op) error { <-gate; return nil })
		for range 1000 { // this goroutine would be stuck
			r.put(tenBytes)
			r.append1(tenBytes)
		}
		if st := r.Stats(); st.Lines != 2000 || st.Writes != 0 {
			t.Errorf("%+v", st)
		}
		close(gate)
		r.close()
	})
}

package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/control"
)

// TestStartAndStopAreEntries: each run begins with an entry and ends with one,
// with journald's ids, and both are lines.
func TestStartAndStopAreEntries(t *testing.T) {
	p := newPlace(t)
	for range 2 {
		r := start(t, p)
		native(t, p, "a message")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		const want = "tidemark serve: started, version test\ntidemark serve: stopping: context canceled\ntidemark serve: stopped: everything is synced\n"
		var said []string
		for line := range strings.Lines(r.err.String()) {
			if strings.HasPrefix(line, "tidemark serve: st") {
				said = append(said, line)
			}
		}
		if diff := cmp.Diff(want, strings.Join(said, "")); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
	}
	var got []string
	for _, own := range stored(t, p, true) {
		if text := own["MESSAGE"]; strings.HasPrefix(text, "st") {
			got = append(got, own["PRIORITY"]+" "+own["MESSAGE_ID"]+" "+text)
		}
	}
	run := []string{"6 f77379a8490b408bbe5f6940505a777b started, version test", "6 d93fb3c9c24d451a97cea615ce59c00b stopping: context canceled"}
	if diff := cmp.Diff(slices.Concat(run, run), got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestAPartThatFailsEndsTheDaemon: with its error, as an entry too, after all
// that was received is stored.
func TestAPartThatFailsEndsTheDaemon(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	r.fails = true
	native(t, p, "a message")
	l := r.daemon.http[1]
	l.Close()
	err := <-r.ended
	r.ended <- err
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "http "+l.Addr().String()+": ") {
		t.Errorf("Run = %v, want that of the closed listener", err)
	}
	if diff := cmp.Diff([]string{"a message"}, messages(t, p)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if own := ownEntries(t, p); own[len(own)-1] != "3 stopping: "+err.Error() {
		t.Errorf("the last entry is %q, want %q", own[len(own)-1], "3 stopping: "+err.Error())
	}
	if strings.Contains(r.err.String(), "everything is synced") {
		t.Errorf("said %s", r.err)
	}
	verify(t, p)
}

// TestDrainWaitsForWhatIsReceived, and only as long as drainFor says.
func TestDrainWaitsForWhatIsReceived(t *testing.T) {
	if got := newDaemon(Options{}).drainFor; got != 10*time.Second {
		t.Errorf("what was received has %s to be stored, want journald's 10 s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(Options{})
		var received sync.WaitGroup
		received.Go(func() { time.Sleep(10*time.Second - 1) })
		began := time.Now()
		if err := d.drain(&received); err != nil || time.Since(began) != 10*time.Second-1 {
			t.Errorf("ended after %s: %v", time.Since(began), err)
		}
	})
}

// stuffed makes a place that has taken more than it can store: the disk is full,
// the buffer too, and more waits in the socket. What came before is synced.
func stuffed(t *testing.T, run func(t *testing.T, p place)) place {
	t.Helper()
	p := newFaultyPlace(t)
	p.configure(t, "Buffer=64K\nCompress=no\n")
	run(t, p)
	native(t, p, "before the disk was full")
	command(t, p, control.MethodSynchronize)
	p.fail(t, syscall.ENOSPC)
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(p.Run, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	const enough = 12 // messages of 8 KiB: more than the buffer, and fit with it into the smallest queue
	sent := make(chan struct{}, enough)
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			b := make([]byte, 4<<10)
			for i := range b {
				b[i] = byte(rand.Uint32())
			}
			if _, err := c.Write([]byte("MESSAGE=" + hex.EncodeToString(b) + "\n")); err != nil {
				return // nobody takes it any more
			}
			select {
			case sent <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() { c.Close(); sender.Wait() })
	for range enough {
		<-sent
	}
	return p
}

// TestDrainGivesUp: a full disk does not keep the daemon from ending, which says
// what it could not do.
func TestDrainGivesUp(t *testing.T) {
	var r *running
	p := stuffed(t, func(t *testing.T, p place) {
		r = start(t, p)
		r.fails, r.daemon.drainFor = true, time.Millisecond
	})
	err := r.stop()
	const want = "what was received could not be stored within 1ms"
	if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Run = %v, want %s, and that the disk is full", err, want)
	}
	if said := r.err.String(); !strings.Contains(said, "tidemark serve: stopping: context canceled: "+want+"\n") || strings.Contains(said, "everything is synced") {
		t.Errorf("said %s", said)
	}
	p.fail(t, 0)
	again := start(t, p)
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	if got := messages(t, p); len(got) == 0 || got[0] != "before the disk was full" {
		t.Errorf("what was synced is gone: %d messages are left", len(got))
	}
	verify(t, p)
}

// TestDrainGoesOnWhenThereIsSpace: what the buffer and the socket hold when the
// daemon is told to end is stored if the disk takes it in time. Until then a
// hang-up, or another of its signals, does not end it.
func TestDrainGoesOnWhenThereIsSpace(t *testing.T) {
	var r *running
	var stopping *net.UnixConn
	p := stuffed(t, func(t *testing.T, p place) {
		stopping = listenNotify(t, p)
		r = start(t, p)
		r.daemon.drainFor = hangs
	})
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	hear(t, stopping, "STOPPING=1")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, signalSync, syscall.SIGPIPE} {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	p.fail(t, 0)
	if err := <-stopped; err != nil {
		t.Errorf("Run = %v", err)
	}
	if got := messages(t, p); len(got) < 13 || got[0] != "before the disk was full" {
		t.Errorf("%d messages are stored, want 13 and more", len(got))
	}
	if own := ownEntries(t, p); !slices.Contains(own, "6 stopping: context canceled") {
		t.Errorf("no entry of the stop among %q", own)
	}
	verify(t, p)
}

// TestSecondInterruptEndsAtOnce: the daemon catches neither INT nor TERM, so a
// second one ends a process that waits for the disk to take what was received.
// What was synced is there.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	var d *process
	p := stuffed(t, func(t *testing.T, p place) {
		p.Signals = true
		d = spawn(t, p)
	})
	if err := d.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !d.out.Scan() || d.out.Text() != "interrupted" {
		t.Fatalf("after an INT: %q %v", d.out.Text(), d.out.Err())
	}
	if err := d.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := d.Wait(); err == nil || d.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want death by the second INT; it said %s", err, d.Stderr)
	}
	p.fail(t, 0)
	if err := start(t, p).stop(); err != nil {
		t.Fatal(err)
	}
	if got := messages(t, p); len(got) == 0 || got[0] != "before the disk was full" {
		t.Errorf("what was synced is gone: %d messages are left", len(got))
	}
	verify(t, p)
}

// TestNothingBeginsAfterTheEnd: a daemon that is told to end while it begins
// ends in order.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, p.options(io.Discard, io.Discard)); err != nil {
		t.Errorf("Run = %v", err)
	}
	verify(t, p)
}

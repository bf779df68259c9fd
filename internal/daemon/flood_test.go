package daemon

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

// flood keeps every way into a daemon busy, without an end of its own.
type flood struct {
	done    chan struct{}
	running sync.WaitGroup
	sent    [4]atomic.Int64 // by each of: datagrams, bytes of a stream, connections, commands
}

// startFlood begins one that ends with the test, or before: a part of it ends when
// nobody takes it any more.
func startFlood(t *testing.T, p place) *flood {
	t.Helper()
	f := &flood{done: make(chan struct{})}
	t.Cleanup(f.stop)
	dial := func(network, name string) net.Conn {
		c, err := net.Dial(network, filepath.Join(p.Run, name))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, name := range []string{config.NativeSocket, config.NativeSocket, config.SyslogSocket} {
		c, text := dial("unixgram", name), "MESSAGE=flood\nPRIORITY=6\n"
		if name == config.SyslogSocket {
			text = "<14>tag: flood"
		}
		f.run(&f.sent[0], c, func() error { _, err := c.Write([]byte(text)); return err })
	}
	stream := dial("unix", config.StdoutSocket)
	if _, err := stream.Write([]byte("flood\n\n6\n0\n0\n0\n0\n")); err != nil {
		t.Fatal(err)
	}
	f.run(&f.sent[1], stream, func() error { _, err := stream.Write([]byte("a line\nanother line\nthe beginning of")); return err })
	f.run(&f.sent[2], nil, func() error {
		c, err := net.Dial("unix", filepath.Join(p.Run, config.StdoutSocket))
		if errors.Is(err, syscall.EAGAIN) { // the queue of those who wait is full
			runtime.Gosched()
			return nil
		}
		if err != nil {
			return err
		}
		return c.Close()
	})
	commands, err := control.Dial(t.Context(), filepath.Join(p.Run, config.ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	f.run(&f.sent[3], nil, func() error { _, err := commands.Call(t.Context(), control.MethodGetInfo, nil); return err })
	t.Cleanup(func() { commands.Close() })
	return f
}

// run sends again and again.
func (f *flood) run(sent *atomic.Int64, c net.Conn, send func() error) {
	f.running.Go(func() {
		if c != nil {
			defer c.Close()
		}
		for {
			select {
			case <-f.done:
				return
			default:
			}
			if send() != nil {
				return
			}
			sent.Add(1)
		}
	})
}

func (f *flood) stop() {
	select {
	case <-f.done:
	default:
		close(f.done)
	}
	f.running.Wait()
}

// rises waits until every part of the flood has sent some more.
func (f *flood) rises(t *testing.T, r *running) {
	t.Helper()
	for i := range f.sent {
		before := f.sent[i].Load()
		waitUntil(t, r, fmt.Sprintf("part %d of the flood", i), func() bool { return f.sent[i].Load() > before+10 })
	}
}

// TestSynchronizeEndsInAFlood: what comes after the call is not waited for, on no
// socket, while what came before it is stored.
func TestSynchronizeEndsInAFlood(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	f := startFlood(t, p)
	for i := range 2 {
		f.rises(t, r)
		marker := fmt.Sprintf("marker %d", i)
		native(t, p, marker)
		command(t, p, control.MethodSynchronize)
		if n := count(t, p, marker); n != 1 {
			t.Errorf("after Synchronize %d the files have its marker %d times", i, n)
		}
	}
	f.rises(t, r)
}

// TestTheEndComesInAFlood: told to end, the daemon stores what was received until
// then, and is gone, however much more would come.
func TestTheEndComesInAFlood(t *testing.T) {
	p := newPlace(t)
	r := start(t, p)
	r.daemon.drainFor = hangs
	f := startFlood(t, p)
	f.rises(t, r)
	native(t, p, "the last one")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	f.running.Wait() // nobody takes anything any more
	if n := count(t, p, "the last one"); n != 1 {
		t.Errorf("what was received before the end is stored %d times", n)
	}
	verify(t, p)
}

// count is how many entries have this message.
func count(t *testing.T, p place, message string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.Data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenDir(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.SetMatch(journal.Term([]byte("MESSAGE=" + message)))
	for _, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

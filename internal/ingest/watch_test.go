package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/sockdir"
)

// watched is a socket with a watch, and a client.
type watched struct {
	*watch
	t            *testing.T
	sock, client int
	name         string
	tries        int
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	sock, err := bind(sockdir.New(t), nativeSocket, unix.SOCK_DGRAM)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	w, err := newWatch(int(sock.Fd()), sock.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(client) })
	return &watched{watch: w, t: t, sock: int(sock.Fd()), client: client, name: sock.Name()}
}

func (w *watched) send() {
	if err := unix.Sendto(w.client, []byte("x"), 0, &unix.SockaddrUnix{Name: w.name}); err != nil {
		w.t.Error(err)
	}
}

// take takes one message.
func (w *watched) take() bool {
	w.tries++
	var b [8]byte
	_, _, err := unix.Recvfrom(w.sock, b[:], unix.MSG_DONTWAIT)
	return err == nil
}

// ready reports whether an event was raised.
func (w *watched) ready() bool {
	p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1
}

// A wait is ended by a message, one from before as well as one that comes, and
// messages that come while nobody waits raise no event.
func TestWatch(t *testing.T) {
	w := newWatched(t)
	for i := range 100 {
		w.tries = 0
		if i%2 == 0 {
			w.send()
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			if i%2 == 1 {
				w.send()
			}
		}()
		if err := w.wait(w.take); err != nil {
			t.Fatalf("wait %d: %v", i, err)
		}
		<-sent
		if i%2 == 0 && w.tries != 1 {
			t.Fatalf("wait %d tried %d times for a message that was there", i, w.tries)
		}
	}
	w.send()
	if w.ready() {
		t.Error("a message raised an event while nobody waited")
	}
	if !w.take() {
		t.Error("it was not there")
	}
}

// A deadline ends a wait, and close does.
func TestWatchEnds(t *testing.T) {
	w := newWatched(t)
	if err := w.deadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(w.take); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	if err := w.deadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	w.send() // armed still: the event is of the wait that was given up
	if err := w.wait(w.take); err != nil {
		t.Errorf("after a deadline: %v", err)
	}
	if w.ready() {
		t.Error("an event is left over")
	}
	go w.close()
	if err := w.wait(func() bool { return false }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestWatchOfNothing(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := newWatch(int(f.Fd()), "file"); !errors.Is(err, unix.EPERM) {
		t.Errorf("a file, which epoll cannot watch: %v", err)
	}
}

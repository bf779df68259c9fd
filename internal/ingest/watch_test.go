package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A wait is ended by a message, one from before as well as one that comes; by a
// deadline, and by close; and messages that come while nobody waits raise no
// event.
func TestWatch(t *testing.T) {
	sock, err := bind(t.TempDir(), nativeSocket, unix.SOCK_DGRAM)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sock.Close() }()
	w, err := newWatch(int(sock.Fd()), sock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(client) }()
	send := func() {
		if err := unix.Sendto(client, []byte("x"), 0, &unix.SockaddrUnix{Name: sock.Name()}); err != nil {
			t.Error(err)
		}
	}
	tries := 0
	take := func() bool { // one message
		tries++
		var b [8]byte
		_, _, err := unix.Recvfrom(int(sock.Fd()), b[:], unix.MSG_DONTWAIT)
		return err == nil
	}
	ready := func() bool {
		p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n == 1
	}
	for i := range 100 {
		tries = 0
		if i%2 == 0 {
			send()
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			if i%2 == 1 {
				send()
			}
		}()
		if err := w.wait(take); err != nil {
			t.Fatalf("wait %d: %v", i, err)
		}
		<-sent
		if i%2 == 0 && tries != 1 {
			t.Fatalf("wait %d tried %d times for a message that was there", i, tries)
		}
	}
	send()
	if ready() {
		t.Error("a message raised an event while nobody waited")
	}
	if !take() {
		t.Error("it was not there")
	}

	if err := w.deadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(take); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	if err := w.deadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	send() // armed still: the event is of the wait that was given up
	if err := w.wait(take); err != nil {
		t.Errorf("after a deadline: %v", err)
	}
	if ready() {
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

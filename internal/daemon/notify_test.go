package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listenNotify is the socket of a service manager, for who is started from now
// on.
func listenNotify(t *testing.T, p place) *net.UnixConn {
	t.Helper()
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(p.Run, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sock.Close() })
	t.Setenv("NOTIFY_SOCKET", sock.LocalAddr().String())
	return sock
}

// hear waits until the service manager is told something, and returns all that
// it heard.
func hear(t *testing.T, sock *net.UnixConn, want string) (heard []string) {
	t.Helper()
	b := make([]byte, 4096)
	for {
		n, err := sock.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, string(b[:n]))
		if strings.Contains(string(b[:n]), want) {
			return heard
		}
	}
}

func TestNotify(t *testing.T) {
	p := newPlace(t)
	sock := listenNotify(t, p)
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	r := start(t, p)
	heard := hear(t, sock, "READY=1")
	hear(t, sock, "WATCHDOG=1")
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	hear(t, sock, "STOPPING=1")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(heard[0], "READY=1") && !strings.HasPrefix(heard[0], "WATCHDOG=1") {
		t.Errorf("heard %q", heard)
	}
}

// TestNotifyGivesUp: a service manager that does not read keeps nobody waiting.
func TestNotifyGivesUp(t *testing.T) {
	listenNotify(t, newPlace(t))
	var err error
	for err == nil { // until the socket is full
		err = notify("WATCHDOG=1")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
}

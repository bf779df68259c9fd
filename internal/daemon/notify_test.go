package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
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
	impatientManager(t)
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

// TestNotifySaysOnce: that nobody listens is said when it begins, not at each ping.
func TestNotifySaysOnce(t *testing.T) {
	var out bytes.Buffer
	d := &daemon{o: Options{Err: &out}}
	for round := range 2 {
		sock := listenNotify(t, newPlace(t))
		d.notify("WATCHDOG=1")
		hear(t, sock, "WATCHDOG=1")
		_ = sock.Close()
		for range 3 {
			d.notify("WATCHDOG=1")
		}
		if n := strings.Count(out.String(), "notify the service manager: "); n != round+1 {
			t.Errorf("said %d times after %d failures, each of several pings: %s", n, round+1, out.String())
		}
	}
}

// TestStatusLine: the service manager shows what the daemon does, and what keeps it
// from that, each time it changes.
func TestStatusLine(t *testing.T) {
	p := newFaultyPlace(t)
	p.configure(t, "Sync=5s\n")
	sock := listenNotify(t, p)
	r := start(t, p)
	dir := r.daemon.Status().Data
	hear(t, sock, "READY=1")
	hear(t, sock, "STATUS=Logging to "+dir+", 1 file, sync 5s")
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "STATUS=The disk is full: senders wait or are refused. Logging to " + dir,
		syscall.EIO:    "STATUS=Writes fail and are tried again: ",
	} {
		p.fail(t, errno)
		native(t, p, "a message")
		hear(t, sock, want)
		p.fail(t, 0)
		hear(t, sock, "STATUS=Logging to "+dir)
	}
	command(t, p, control.MethodRotate)
	hear(t, sock, "STATUS=Logging to "+dir+", 2 files, sync 5s")
	p.configure(t, "Sync=all\n")
	if err := r.daemon.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	hear(t, sock, ", sync all")
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	hear(t, sock, "STOPPING=1")
	hear(t, sock, "STATUS=Storing what was received")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestStatusLineIsOneLine: an error with several lines assigns nothing else.
func TestStatusLineIsOneLine(t *testing.T) {
	if got := oneLine("a\nREADY=1"); got != "a; READY=1" {
		t.Errorf("%q", got)
	}
}

// impatientManager has the watchdog of this process be fed every ms.
func impatientManager(t *testing.T) {
	t.Helper()
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
}

// TestWatchdogWhileTheDiskHangs: a daemon that waits for a sync, for ever, is alive:
// it is fed, takes messages, and answers.
func TestWatchdogWhileTheDiskHangs(t *testing.T) {
	p := newPlace(t)
	p.configure(t, "Sync=all\n")
	sock := listenNotify(t, p)
	impatientManager(t)
	disk := &hookfs.FS{}
	goOn := make(chan struct{})
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	r := start(t, p, func(d *daemon) { d.fs = disk })
	disk.Set(func(op, _ string) error {
		if strings.HasSuffix(op, "sync") {
			once()
			<-goOn
		}
		return nil
	})
	t.Cleanup(sync.OnceFunc(func() { close(goOn) })) // before the daemon ends
	native(t, p, "a message")
	<-begun
	drain(t, sock)
	for range 3 {
		hear(t, sock, "WATCHDOG=1")
	}
	native(t, p, "another message")
	waitUntil(t, r, "both to be taken", func() bool {
		return slices.ContainsFunc(r.daemon.Status().Counts, func(c control.Count) bool { return c == control.Count{Name: "native", Reason: "entries", N: 2} })
	})
	hear(t, sock, "WATCHDOG=1")
}

// drain reads what the service manager was told until now.
func drain(t *testing.T, sock *net.UnixConn) {
	t.Helper()
	raw, err := sock.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for b := make([]byte, 4096); ; {
			if _, err := syscall.Read(int(fd), b); err != nil {
				return // nothing is left
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

package daemon

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

// driverEntries are tidemark's own entries, PRIORITY and MESSAGE.
func driverEntries(t *testing.T, p place) []string {
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
	var out []string
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if transport, _ := e.Get("_TRANSPORT"); string(transport) == "driver" {
			message, _ := e.Get("MESSAGE")
			priority, _ := e.Get("PRIORITY")
			out = append(out, string(priority)+" "+string(message))
		}
	}
	return out
}

// TestConfigurationIsTold: warnings of the start and of a reload, and a reload
// that has failed, are lines for the operator and entries.
func TestConfigurationIsTold(t *testing.T) {
	p := newPlace(t)
	var bad atomic.Bool
	out, in := io.Pipe()
	errOut := &lockedBuffer{}
	o := p.options(in, errOut)
	good := o.Config
	o.Config = func() (config.Config, []config.Warning, error) {
		if bad.Load() {
			return config.Config{}, nil, errors.New("f:1: bad")
		}
		c, _, err := good()
		return c, []config.Warning{{Path: "f", Line: 7, Text: "left out"}}, err
	}
	r := startWith(t, p, o, out, in, errOut)
	hup := func(want string) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		waitFor(t, r, want)
	}
	hup("tidemark serve: configuration read again\n")
	bad.Store(true)
	hup("tidemark serve: f:1: bad; the settings in force are kept\n")
	command(t, p, control.MethodSynchronize)
	told := strings.Join(driverEntries(t, p), "\n")
	if n := strings.Count(told, "4 warning: f:7: left out"); n != 2 {
		t.Errorf("the warning is %d times among the entries, want 2:\n%s", n, told)
	}
	if !strings.Contains(told, "3 f:1: bad; the settings in force are kept") || !strings.Contains(told, "6 configuration read again") {
		t.Errorf("entries:\n%s", told)
	}
	if n := strings.Count(errOut.String(), "warning: f:7: left out\n"); n != 2 {
		t.Errorf("the warning was said %d times: %s", n, errOut)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(errOut.String(), "tidemark serve: stopped: everything is synced\n") {
		t.Errorf("said at the end: %s", errOut)
	}
}

// TestWarningsBeforeAFailedStart: they are said even if there is no file yet.
func TestWarningsBeforeAFailedStart(t *testing.T) {
	p := newPlace(t)
	errOut := &lockedBuffer{}
	o := p.options(io.Discard, errOut)
	o.Config = func() (config.Config, []config.Warning, error) {
		return config.Config{}, []config.Warning{{Path: "f", Line: 7, Text: "left out"}}, errors.New("f:9: bad")
	}
	if err := Run(t.Context(), o); err == nil {
		t.Fatal("began with a bad configuration")
	}
	if got := errOut.String(); got != "tidemark serve: warning: f:7: left out\n" {
		t.Errorf("said %q", got)
	}
}

// TestNotifyGivesUp: a service manager that does not read keeps nobody waiting.
func TestNotifyGivesUp(t *testing.T) {
	path := filepath.Join(newPlace(t).Run, "notify")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for err == nil { // until the socket is full
		err = notify("WATCHDOG=1")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
}

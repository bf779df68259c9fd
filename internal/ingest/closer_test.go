package ingest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A close that takes as long as somebody likes keeps nobody from being heard.
func TestSlowCloseHoldsUpNobody(t *testing.T) {
	cfg := testConfig(t)
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	closing, release := make(chan struct{}), make(chan struct{})
	in.closer.shut = func(fd int) error {
		closing <- struct{}{}
		<-release
		return unix.Close(fd)
	}
	r := run(t, in, cfg, sink)
	c := r.dial(nativeSocket)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		r.sendFDs(c, nil, int(f.Fd()))
		<-closing
		r.write(c, "MESSAGE=x\n")
		if n := len(r.barrier()); n != 1 {
			t.Errorf("%d entries while a descriptor is being closed, want 1", n)
		}
	}
	close(release)
	r.stop()
}

// Descriptors beyond a bound make the closer refuse further ones, until the most
// of them are closed.
func TestCloserRefuses(t *testing.T) {
	c := newCloser()
	var mu sync.Mutex
	var told []bool
	c.accept = func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, on)
	}
	release := make(chan struct{})
	closed := 0
	c.shut = func(int) error {
		<-release
		mu.Lock()
		defer mu.Unlock()
		closed++
		return nil
	}
	for range maxUnclosed {
		c.close(-1)
	}
	if len(told) != 0 {
		t.Errorf("told %v within the bound", told)
	}
	for range maxClosers + 1 {
		c.close(-1)
	}
	close(release)
	c.end()
	mu.Lock()
	defer mu.Unlock()
	wantDiff(t, "accept", []bool{false, true}, told)
	if want := maxUnclosed + maxClosers + 1; closed != want {
		t.Errorf("%d closed, want %d", closed, want)
	}
}

// Only the native socket takes descriptors.
func TestDescriptorsAreRefused(t *testing.T) {
	r := start(t)
	if err := control1(r.native.rx.raw, func(fd int) error { return passRights(fd, true) }); err != nil {
		t.Skipf("needs SO_PASSRIGHTS: %v", err)
	}
	for _, name := range []string{syslogSocket, stdoutSocket} {
		raw, err := r.dial(name).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = control1(raw, func(fd int) error {
			return unix.Sendmsg(fd, []byte("x\n"), unix.UnixRights(fd), nil, unix.MSG_DONTWAIT)
		})
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("a descriptor to %s: %v, want EPERM", name, err)
		}
	}
}

package ingest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wantFDs wants as many open descriptors as before, once all that were passed are
// closed.
func (r *rig) wantFDs(before int, what string) {
	r.t.Helper()
	r.closer.idle(r.t)
	if after := openFDs(r.t); after != before {
		r.t.Errorf("%s: %d open descriptors, %d before", what, after, before)
	}
}

// idle waits until the closer has closed all. It may begin again afterwards.
func (c *closer) idle(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(hang); ; runtime.Gosched() {
		c.mu.Lock()
		done := c.busy == 0 && len(c.fds) == 0
		c.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatal("descriptors are not closed")
		}
	}
}

// A stream that passes descriptors leaves none behind, however it ends.
func TestStreamsLeakNoDescriptors(t *testing.T) {
	r := start(t)
	_ = control1(r.stdout.raw, func(fd int) error { return passRights(fd, true) }) // as kernels before 6.16
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	one := []int{int(null.Fd())}
	many := make([]int, 253) // the kernel cuts them
	for i := range many {
		many[i] = one[0]
	}
	r.barrier()
	before := openFDs(t)
	for _, tt := range []struct{ name, text string }{
		{"lines", header + "a\nb\n"},
		{"half a line", header + "a"},
		{"half a header", "ident\n\n"},
		{"a bad header", "ident\n\nx\n"},
		{"a long line", header + strings.Repeat("x", DefaultLineMax+1)},
	} {
		for _, fds := range [][]int{one, many} {
			for range 20 {
				c := r.dial(stdoutSocket)
				r.sendFDs(c, []byte(tt.text), fds...)
				_ = c.Close()
			}
			r.barrier()
			r.wantFDs(before, tt.name)
		}
	}
	if n := r.count("stdout", "bad_header"); n != 40 {
		t.Errorf("%d bad headers, want 40", n)
	}
}

// Nor does the end, nor Close, of a stream that waits for the sink.
func TestBlockedStreamLeaksNoDescriptors(t *testing.T) {
	closeBlocked(t, func(r *rig) net.Conn {
		_ = control1(r.stdout.raw, func(fd int) error { return passRights(fd, true) })
		c := r.dial(stdoutSocket)
		r.sendFDs(c, []byte(header+"a\n"), 0, 0, 0)
		return c
	})
}

// Close gives up a batch in the middle, but none of its descriptors.
func TestBlockedBatchLeaksNoDescriptors(t *testing.T) {
	fd := memfd(t, []byte("MESSAGE=x\n"), allSeals)
	closeBlocked(t, func(r *rig) net.Conn {
		c := r.dial(nativeSocket)
		for range 5 { // each is handed over by itself
			r.sendFDs(c, nil, fd)
		}
		return c
	})
}

// closeBlocked closes an Ingest whose sink holds what send has sent.
func closeBlocked(t *testing.T, send func(r *rig) net.Conn) {
	t.Helper()
	before := openFDs(t)
	cfg := testConfig(t)
	sink := &fakeSink{}
	entered, _ := sink.block()
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	c := send(r)
	ran := make(chan error, 1)
	go func() { ran <- in.Run(t.Context()) }()
	hear(t, entered, "Append")
	_ = in.Close()
	if err := hear(t, ran, "Run"); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	_ = c.Close()
	r.wantFDs(before, "after Close")
}

// What a batch has brought before its socket fails is handed over, and its
// descriptors are closed.
func TestFailingSocketLosesNothing(t *testing.T) {
	before := openFDs(t)
	cfg := testConfig(t)
	cfg.gather = 2 * time.Second // time to break the socket
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	in.native.flood, in.native.window = true, time.Hour
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=first\n")
	r.sendFDs(c, []byte("MESSAGE=x\n"), 0)
	ran := make(chan error, 1)
	go func() { ran <- in.Run(t.Context()) }()
	awaited(t, &in.native.gate.hint)
	err = control1(in.native.rx.raw, func(fd int) error {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(null) }()
		return unix.Dup3(null, fd, unix.O_CLOEXEC)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := hear(t, ran, "Run"); !errors.Is(err, unix.ENOTSOCK) {
		t.Errorf("Run: %v, want ENOTSOCK", err)
	}
	if !r.hasFirst() {
		t.Error("the message before the error is not there")
	}
	_ = in.Close()
	_ = c.Close()
	r.wantFDs(before, "after a socket has failed")
}

// A datagram that is longer than its buffer is lost and counted, and its descriptors
// are closed.
func TestTruncatedDatagramLeaksNoDescriptors(t *testing.T) {
	cfg, sink := testConfig(t), &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.native.rx.iovs {
		in.native.rx.iovs[i][1].SetLen(10) // the usual size is beyond what can be sent
	}
	r := run(t, in, cfg, sink)
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=a\n")
	r.barrier()
	before := openFDs(t)
	long := []byte("MESSAGE=" + strings.Repeat("x", slotSize+10) + "\n")
	for range 10 {
		r.sendFDs(c, long, 0, 0)
		r.write(c, "MESSAGE=b\n")
	}
	if n := len(r.barrier()); n != 10 {
		t.Errorf("%d entries, want 10", n)
	}
	if n := r.count("native", "truncated"); n != 10 {
		t.Errorf("%d truncated, want 10", n)
	}
	r.wantFDs(before, "truncated")
}

// A program that somebody starts inherits nothing: neither what is ours nor what
// was passed.
func TestDescriptorsAreNotInherited(t *testing.T) {
	theirs := map[string]bool{}
	for _, fd := range inherited(t) {
		theirs[fd] = true
	}
	cfg := testConfig(t)
	_ = fakeKmsg(t, &cfg)
	cfg.KmsgState = filepath.Join(cfg.Dir, "state")
	sink := &fakeSink{}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var passed, kept int
	in.closer.shut = func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		mu.Lock()
		defer mu.Unlock()
		if passed++; err != nil || flags&unix.FD_CLOEXEC == 0 {
			kept++
		}
		return unix.Close(fd)
	}
	r := run(t, in, cfg, sink)
	for _, raw := range []interface {
		Control(func(uintptr)) error
	}{in.syslog.rx.raw, in.stdout.raw} {
		_ = raw.Control(func(fd uintptr) { _ = passRights(int(fd), true) }) // as kernels before 6.16
	}
	native, syslog, stdout := r.dial(nativeSocket), r.dial(syslogSocket), r.dial(stdoutSocket)
	r.sendFDs(native, nil, memfd(t, []byte("MESSAGE=x\n"), allSeals))
	r.sendFDs(native, []byte("MESSAGE=x\n"), 0, 1)
	r.sendFDs(syslog, []byte("x"), 0)
	r.sendFDs(stdout, []byte(header+"x\n"), 0)
	r.barrier()
	in.closer.idle(t)
	mu.Lock()
	defer mu.Unlock()
	if passed != 5 || kept != 0 {
		t.Errorf("%d of %d passed descriptors would be inherited, want none of 5", kept, passed)
	}
	for _, fd := range inherited(t) {
		if !theirs[fd] {
			t.Errorf("would be inherited: %s", fd)
		}
	}
}

// inherited are the open descriptors without CLOEXEC, and what they are.
func inherited(t *testing.T) (all []string) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		if err != nil {
			continue // that of the list itself
		}
		name, _ := os.Readlink("/proc/self/fd/" + e.Name())
		for line := range strings.Lines(string(b)) {
			if flags, ok := strings.CutPrefix(line, "flags:"); ok && !cloexec(flags) {
				all = append(all, e.Name()+" "+name)
			}
		}
	}
	return all
}

// cloexec reads the octal flags of an open descriptor.
func cloexec(flags string) bool {
	n, err := strconv.ParseUint(strings.TrimSpace(flags), 8, 64)
	return err == nil && n&unix.O_CLOEXEC != 0
}

package ingest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// exhaust takes all descriptors that the process may have. one gives one back,
// release all.
func exhaust(t *testing.T) (one, release func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(max(64, 2*openFDs(t), null+1))
	taken := []int{null}
	one = func() {
		_ = unix.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	release = func() {
		for len(taken) > 0 {
			one()
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return one, release
		}
		taken = append(taken, fd)
	}
}

// shortRig is an Ingest with a stream, and a socket to make another one, while
// the process has run out of descriptors.
type shortRig struct {
	*rig
	first        interface{ Close() error }
	late         int // to connect
	one, release func()
	events       chan string
	lines        chan string // what the sink is given
}

// startShort rests for backoff when there is no descriptor.
func startShort(t *testing.T, backoff time.Duration) *shortRig {
	t.Helper()
	cfg := testConfig(t)
	s := &shortRig{events: make(chan string, 10), lines: make(chan string, 10)}
	cfg.Event = func(_ int, id, text string, _ ...entry.Field) { s.events <- id + " " + text }
	sink := &fakeSink{during: func(entries []entry.Entry) {
		for _, e := range entries {
			m, _ := e.Get("MESSAGE")
			s.lines <- string(m)
		}
	}}
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	in.stdout.backoff = backoff
	s.rig = run(t, in, cfg, sink)
	c := s.dial(stdoutSocket)
	s.first = c
	s.write(c, header+"first\n")
	if got := hear(t, s.lines, "the first line"); got != "first" {
		t.Fatal(got)
	}
	if s.late, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s.late) })
	s.one, s.release = exhaust(t)
	return s
}

// connect writes the line "late" to a stream that cannot be taken, which is said.
func (s *shortRig) connect() {
	s.t.Helper()
	if err := unix.Connect(s.late, &unix.SockaddrUnix{Name: s.dir + "/" + stdoutSocket}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := unix.Write(s.late, []byte(header+"late\n")); err != nil {
		s.t.Fatal(err)
	}
	want := messageShort + " Out of file descriptors: new stdout streams wait until some are free"
	if got := hear(s.t, s.events, "the event"); got != want {
		s.t.Errorf("%q, want %q", got, want)
	}
}

// Out of descriptors, accepting rests until a stream ends, and says so once. A
// barrier says why it cannot pass those that could not be accepted.
func TestAcceptRests(t *testing.T) {
	for _, left := range []int{0, 1} { // with one it is accepted, and waits for the second
		s := startShort(t, 5*time.Second) // a descriptor may be given back a moment after the stream has ended
		for range left {
			s.one()
		}
		s.connect()
		for range 10_000 {
			runtime.Gosched()
		}
		if n := s.count("stdout", "no_descriptors"); n != 1 {
			t.Errorf("%d left: tried %d times, want once", left, n)
		}
		passed := make(chan error, 1)
		barrier := func() error {
			go func() { passed <- s.Barrier(t.Context()) }()
			return hear(t, passed, "a barrier")
		}
		if err := barrier(); !errors.Is(err, unix.EMFILE) {
			t.Errorf("%d left: barrier %v, want EMFILE", left, err)
		}
		_ = s.first.Close()
		if got := hear(t, s.lines, "a line"); got != "late" {
			t.Errorf("%d left: %q", left, got)
		}
		if err := barrier(); err != nil {
			t.Errorf("%d left: barrier %v", left, err)
		}
		if n := s.count("stdout", "no_descriptors"); n > 5 || len(s.events) != 0 {
			t.Errorf("%d left: tried %d times, said %d times more", left, n, len(s.events))
		}
		s.release()
		s.stop()
	}
}

// Without a stream that waits there is nothing that a barrier could miss: accept4(2)
// wants a descriptor first, and fails all the same.
func TestBarrierWithoutDescriptors(t *testing.T) {
	s := startShort(t, 5*time.Second)
	passed := make(chan error, 1)
	for range 3 {
		go func() { passed <- s.Barrier(t.Context()) }()
		if err := hear(t, passed, "a barrier"); err != nil {
			t.Error(err)
		}
	}
	if n := s.count("stdout", "no_descriptors"); n != 0 {
		t.Errorf("%d streams waited, says the count", n)
	}
	s.release()
	s.stop()
}

// Descriptors that come free elsewhere are found after a while.
func TestAcceptTriesAgain(t *testing.T) {
	s := startShort(t, time.Millisecond)
	s.connect()
	s.release()
	if got := hear(t, s.lines, "a line"); got != "late" {
		t.Errorf("%q, want late", got)
	}
}

// The end does not wait for descriptors: what the other streams give back goes to
// those that wait.
func TestEndWithoutDescriptors(t *testing.T) {
	for _, left := range []int{0, 1} {
		s := startShort(t, 5*time.Second) // a descriptor may be given back a moment after the stream has ended
		for range left {
			s.one()
		}
		s.connect()
		s.stop()
		if len(s.lines) != 1 || <-s.lines != "late" {
			t.Errorf("%d left: the line is not there", left)
		}
		s.release()
	}
}

// Nor does it if there are none at all: then what waits is given up, and a barrier
// does not pretend.
func TestEndGivesUp(t *testing.T) {
	cfg := testConfig(t)
	events := make(chan string, 10)
	cfg.Event = func(_ int, id, _ string, _ ...entry.Field) { events <- id }
	before := openFDs(t)
	for _, left := range []int{0, 1} {
		in, err := Open(cfg, &fakeSink{})
		if err != nil {
			t.Fatal(err)
		}
		late, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		one, release := exhaust(t)
		for range left {
			one()
		}
		if err := unix.Connect(late, &unix.SockaddrUnix{Name: cfg.Dir + "/" + stdoutSocket}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran, asked := make(chan error, 1), make(chan error, 1)
		go func() { ran <- in.Run(ctx) }()
		if got := hear(t, events, "the event"); got != messageShort {
			t.Errorf("event %s", got)
		}
		go func() { asked <- in.Barrier(t.Context()) }()
		cancel()
		if err := hear(t, ran, "Run"); err != nil {
			t.Errorf("%d left: %v", left, err)
		}
		// It may have been asked before the end was seen.
		if err := hear(t, asked, "a barrier"); !errors.Is(err, ErrClosed) && !errors.Is(err, unix.EMFILE) {
			t.Errorf("%d left: barrier %v, want ErrClosed or EMFILE", left, err)
		}
		release()
		_ = unix.Close(late)
		_ = in.Close()
	}
	if n := openFDs(t); n != before {
		t.Errorf("%d open descriptors, %d before", n, before)
	}
}

// Out of descriptors, a datagram with a descriptor is lost and counted, others are
// taken.
func TestDatagramsWithoutDescriptors(t *testing.T) {
	r := start(t)
	c := r.dial(nativeSocket)
	r.write(c, "MESSAGE=a\n")
	r.barrier()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	before := openFDs(t)
	one, release := exhaust(t)
	one() // the kernel makes up its mind about one, and closes it again
	r.sendFDs(c, nil, int(null.Fd()), int(null.Fd()), int(null.Fd()))
	r.write(c, "MESSAGE=b\n")
	wantDiff(t, "messages", []string{"b"}, r.texts())
	if n := r.count("native", "control_truncated"); n != 1 {
		t.Errorf("%d counted, want 1", n)
	}
	r.closer.idle(t)
	release()
	if n := openFDs(t); n != before {
		t.Errorf("%d open descriptors, %d before", n, before)
	}
}

// texts are the messages that have come, behind a barrier.
func (r *rig) texts() (all []string) {
	for _, e := range r.barrier() {
		all = append(all, get(r.t, e, "MESSAGE"))
	}
	return all
}

package ingest

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// fakeSink keeps copies of what it is given.
type fakeSink struct {
	mu      sync.Mutex
	entries []entry.Entry // guarded by mu
	batches int           // guarded by mu
	largest int           // guarded by mu; entries of a batch
	hold    chan struct{} // guarded by mu; not nil: Append waits until it is closed
	entered chan struct{} // guarded by mu; gets a value when Append will wait
	err     error         // guarded by mu

	during func(entries []entry.Entry) // not nil: called by Append first; set before it runs
}

func (s *fakeSink) Append(ctx context.Context, entries []entry.Entry) (journal.Ticket, error) {
	if s.during != nil {
		s.during(entries)
	}
	s.mu.Lock()
	hold, entered := s.hold, s.entered
	s.mu.Unlock()
	if hold != nil {
		entered <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
			return journal.Ticket{}, ctx.Err()
		}
	}
	return s.TryAppend(entries)
}

func (s *fakeSink) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return journal.Ticket{}, s.err
	}
	s.batches++
	s.largest = max(s.largest, len(entries))
	for _, e := range entries {
		kept := e
		kept.Fields = nil
		for _, f := range e.Fields {
			kept.Fields = append(kept.Fields, slices.Clone(f))
		}
		s.entries = append(s.entries, kept)
	}
	return journal.Ticket{}, nil
}

func (s *fakeSink) Wait(context.Context, journal.Ticket, settle.Level) error { return nil }

// block makes Append wait until the returned function is called; entered gets a
// value each time.
func (s *fakeSink) block() (entered chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.hold, s.entered = hold, make(chan struct{}, 1000)
	return s.entered, func() { close(hold) }
}

// take returns what has come since the last call.
func (s *fakeSink) take() []entry.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries
	s.entries = nil
	return e
}

// rig is a running Ingest with a fake sink.
type rig struct {
	*Ingest
	t    *testing.T
	sink *fakeSink
	dir  string
	stop func()
}

func testConfig(t *testing.T) Config {
	t.Helper()
	boot, _ := entry.ParseID("00112233445566778899aabbccddeeff")
	machine, _ := entry.ParseID("ffeeddccbbaa99887766554433221100")
	return Config{Dir: sockdir.New(t), BootID: boot, MachineID: machine, Hostname: "here"}
}

func startWith(t *testing.T, cfg Config, sink *fakeSink) *rig {
	t.Helper()
	in, err := Open(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, in, cfg, sink)
}

// run runs in until the test ends.
func run(t *testing.T, in *Ingest, cfg Config, sink *fakeSink) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	var once sync.Once
	r := &rig{Ingest: in, t: t, sink: sink, dir: cfg.Dir}
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			_ = in.Close()
		})
	}
	t.Cleanup(r.stop)
	return r
}

func start(t *testing.T) *rig {
	t.Helper()
	return startWith(t, testConfig(t), &fakeSink{})
}

// barrier waits until everything sent has been taken, and returns it.
func (r *rig) barrier() []entry.Entry {
	r.t.Helper()
	if err := r.Barrier(r.t.Context()); err != nil {
		r.t.Fatalf("Barrier: %v", err)
	}
	return r.sink.take()
}

func (r *rig) dial(name string) *net.UnixConn {
	r.t.Helper()
	network := "unixgram"
	if name == stdoutSocket {
		network = "unix"
	}
	c, err := net.DialUnix(network, nil, &net.UnixAddr{Name: filepath.Join(r.dir, name), Net: network})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) write(c *net.UnixConn, data string) {
	r.t.Helper()
	if _, err := c.Write([]byte(data)); err != nil {
		r.t.Fatal(err)
	}
}

// sendFDs sends data with descriptors.
func (r *rig) sendFDs(c *net.UnixConn, data []byte, fds ...int) {
	r.t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), data, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT)
		return sent != unix.EAGAIN
	})
	if err != nil || sent != nil {
		r.t.Fatal(err, sent)
	}
}

// count returns one of the counts.
func (r *rig) count(name, reason string) uint64 {
	r.t.Helper()
	found, n := false, uint64(0)
	r.EachCount(func(c Count) {
		if c.Name == name && c.Reason == reason {
			found, n = true, c.N
		}
	})
	if !found {
		r.t.Fatalf("no count %s/%s", name, reason)
	}
	return n
}

// own returns the fields before the trusted ones of the process.
func own(e entry.Entry) []string {
	var all []string
	for _, f := range e.Fields {
		if strings.HasPrefix(string(f), "_PID=") || strings.HasPrefix(string(f), "_UID=") || strings.HasPrefix(string(f), "_BOOT_ID=") {
			break
		}
		all = append(all, string(f))
	}
	return all
}

func get(t *testing.T, e entry.Entry, name string) string {
	t.Helper()
	v, ok := e.Get(name)
	if !ok {
		t.Errorf("no %s in %q", name, e.Fields)
	}
	return string(v)
}

func wantDiff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

package ingest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// nullSink counts.
type nullSink struct {
	entries, fields, batches atomic.Int64
	goal                     int64
	done                     chan struct{}
}

func (s *nullSink) Append(_ context.Context, entries []entry.Entry) (journal.Ticket, error) {
	n := 0
	for i := range entries {
		n += len(entries[i].Fields)
	}
	s.fields.Add(int64(n))
	s.batches.Add(1)
	if all := s.entries.Add(int64(len(entries))); all >= s.goal && all-int64(len(entries)) < s.goal {
		close(s.done)
	}
	return journal.Ticket{}, nil
}

func (s *nullSink) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	return s.Append(context.Background(), entries)
}

func (s *nullSink) Wait(context.Context, journal.Ticket, settle.Level) error { return nil }

// benchNative is a message of 300 bytes with 9 fields.
func benchNative() string {
	return "MESSAGE=" + strings.Repeat("m", 120) + "\nPRIORITY=6\nSYSLOG_IDENTIFIER=bench\nCODE_FILE=src/module/file.c\n" +
		"CODE_LINE=4711\nCODE_FUNC=some_function\nREQUEST=0123456789abcdef0123456789abcdef\nTID=12345\nSYSLOG_FACILITY=3\n"
}

func benchText(path string) string {
	switch path {
	case nativeSocket:
		return benchNative()
	case syslogSocket:
		return "<30>Nov 30 09:49:00 bench[4711]: " + strings.Repeat("m", 120)
	default:
		return strings.Repeat("m", 120) + "\n"
	}
}

// flood is a helper: it sends count messages, or for ever.
func flood(path, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	network, name := "unixgram", filepath.Base(path)
	if name == stdoutSocket {
		network = "unix"
	}
	c, err := net.Dial(network, path)
	if err != nil {
		return err
	}
	fd := -1
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(s uintptr) { fd = int(s) })
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	text := []byte(benchText(name))
	if network == "unix" {
		if _, err := unix.Write(fd, []byte(header)); err != nil {
			return err
		}
	}
	for range n {
		if _, err := unix.Write(fd, text); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkReceive has senders in processes of their own, and reports the CPU
// time of this one per message.
func BenchmarkReceive(b *testing.B) {
	for _, path := range []string{nativeSocket, syslogSocket, stdoutSocket} {
		for _, senders := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d", path, senders), func(b *testing.B) { benchReceive(b, path, senders) })
		}
	}
}

func benchReceive(b *testing.B, path string, senders int) {
	dir := sockdir.New(b)
	each := b.N/senders + 1
	sink := &nullSink{goal: int64(each * senders), done: make(chan struct{})}
	boot, _ := entry.ParseID("00112233445566778899aabbccddeeff")
	in, err := Open(Config{Dir: dir, BootID: boot, MachineID: boot}, sink)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = in.Run(ctx) })
	defer func() {
		cancel()
		running.Wait()
		_ = in.Close()
	}()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for range senders {
		cmd := helper(b, "flood", nil, filepath.Join(dir, path), strconv.Itoa(each))
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = cmd.Wait() }()
	}
	<-sink.done
	b.StopTimer()
	n := float64(sink.entries.Load())
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/1000/n, "cpu-µs/msg")
	b.ReportMetric(float64(sink.fields.Load())/n, "fields/msg")
	b.ReportMetric(n/float64(sink.batches.Load()), "msgs/batch")
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What one message costs without the kernel.
func BenchmarkDecode(b *testing.B) {
	for _, path := range []string{nativeSocket, syslogSocket} {
		b.Run(path, func(b *testing.B) {
			d, m := decoding(b, path)
			b.ReportAllocs()
			for b.Loop() {
				for range recvSlots {
					d.take(b.Context(), m)
				}
				_ = d.send(b.Context())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/recvSlots, "ns/msg")
		})
	}
}

// decoding makes a source that reads nothing, and a message for it.
func decoding(tb testing.TB, path string) (*datagrams, *message) {
	dir := sockdir.New(tb)
	sink := &nullSink{goal: 1 << 62}
	boot, _ := entry.ParseID("00112233445566778899aabbccddeeff")
	in, err := Open(Config{Dir: dir, BootID: boot, MachineID: boot}, sink)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = os.RemoveAll(dir)
	})
	d := in.native
	if path == syslogSocket {
		d = in.syslog
	}
	d.now = time.Second
	d.peers.tick(d.now, uint64(time.Now().UnixMicro()))
	m := &message{data: []byte(benchText(path)), known: true, pidfd: -1, stamp: uint64(time.Now().UnixMicro())}
	m.credentials = credentials{int32(os.Getpid()), uint32(os.Getuid()), uint32(os.Getgid())}
	return d, m
}

func TestDecodingAllocatesNothing(t *testing.T) {
	for _, path := range []string{nativeSocket, syslogSocket} {
		d, m := decoding(t, path)
		if n := testing.AllocsPerRun(100, func() {
			for range recvSlots {
				d.take(t.Context(), m)
			}
			_ = d.send(t.Context())
		}); n != 0 {
			t.Errorf("%s: %v allocations per batch of %d", path, n, recvSlots)
		}
	}
}

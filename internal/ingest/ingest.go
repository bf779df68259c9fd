// Package ingest turns bytes into entries: datagrams in journald's native
// protocol and syslog's, lines of the stdout stream, the kernel's messages, and
// JSON lines of an HTTP body. It finds out who has sent them, adds the trusted
// fields, and hands the entries to a Sink.
//
// Each socket or connection has one goroutine under Run. It sleeps until there
// is something to read, reads as much as a bounded batch holds, and hands the
// batch over with one call, which blocks while the sink's buffer is full: the
// sender waits, nothing is dropped. What is malformed, refused or dropped is
// counted by reason.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Sink takes entries. Its methods are called concurrently, and keep nothing of
// the entries beyond their return.
type Sink interface {
	// Append takes all entries. It blocks while the buffer is full, until ctx is
	// done.
	Append(ctx context.Context, entries []entry.Entry) (journal.Ticket, error)
	// TryAppend is Append that does not block: an error that wraps
	// journal.ErrBufferFull means later, one that wraps syscall.ENOSPC that the
	// disk is full.
	TryAppend(entries []entry.Entry) (journal.Ticket, error)
	// Wait returns nil once what the ticket stands for has reached the level.
	Wait(ctx context.Context, t journal.Ticket, l settle.Level) error
}

// Config of an Ingest. Dir is required.
type Config struct {
	// Dir is where the sockets are made: socket, dev-log, stdout. It must exist.
	Dir string
	// MachineID and BootID become fields of each entry; zero ones do not.
	MachineID, BootID entry.ID
	// Hostname becomes a field of each entry. Empty: what uname says, also when it
	// changes.
	Hostname string
	// LineMax is the longest line of a stdout stream in bytes; longer ones are
	// cut. 0: DefaultLineMax, at least MinLineMax.
	LineMax int
	// MaxStreams is how many stdout streams may be open. 0: DefaultMaxStreams.
	MaxStreams int
	// MaxStreamsPerUID is how many of them one user other than root may have. 0: a
	// quarter of MaxStreams.
	MaxStreamsPerUID int
	// RateLimitInterval and RateLimitBurst limit what a unit may send. Either of
	// them 0: no limit, but what systemd has set for the unit.
	RateLimitInterval time.Duration
	RateLimitBurst    uint32
	// MaxLevel is the highest syslog level that is stored, from 0 (emerg) to 7
	// (debug); what is above is dropped and counted. Nil: all are stored.
	MaxLevel *int
	// MaxPassed is the largest file that is taken from a sender instead of a
	// datagram, in bytes: what fits into no journal file need not be read. Less
	// than DefaultMaxPassed means that.
	MaxPassed int64
	// Free is the space that is left for the journal in bytes: more of it enlarges
	// a burst. It must not block. Nil: bursts are as configured.
	Free func() uint64
	// Kmsg is the kernel's log, "/dev/kmsg". Empty: it is not read; nor is it when
	// the process may not.
	Kmsg string
	// KmsgState is a file that remembers up to where the kernel's log was stored,
	// so that a restart neither repeats nor misses any. Empty: every start begins
	// with the oldest message.
	KmsgState string

	// Event takes what we have to say ourselves: what was lost, and why. It must not
	// block, and may be called concurrently. Nil: nobody is told.
	Event func(priority int, msgID, text string, fields ...entry.Field)

	// Where to look things up, for tests. Empty: /proc, /run/systemd/units,
	// /run/user.
	proc, units, users string
	// How long messages of a flood may gather, for tests. 0: gatherTime.
	gather time.Duration
	// From how many entries on a batch is handed over by a relay, for tests. 0:
	// relayFrom.
	relay int
}

// Defaults and bounds of Config.
const (
	DefaultLineMax    = 48 << 10
	MinLineMax        = 79
	DefaultMaxStreams = 4096
	DefaultMaxPassed  = journal.DefaultMaxSize
)

// ErrClosed is the error of Run after Close, and of a second Run.
var ErrClosed = errors.New("ingest is closed")

// Ingest owns the sockets. Open makes one.
type Ingest struct {
	cfg    Config
	sink   Sink
	counts counts
	turns  turns
	host   *host
	words  words
	limits *limiter
	closer *closer
	begin  time.Time // batches count time from here

	unstored atomic.Uint32 // how many levels, from debug on, are not stored

	losses *settle.Settler
	told   [reasonCount]uint64 // losses told so far; the settler's

	abort  context.Context //nolint:containedctx // ends with Close, whatever Run's is
	cancel context.CancelFunc

	native, syslog *datagrams
	stdout         *listener
	kmsg           *kmsg // nil: not read
	bound          []boundSocket
	callers        callers

	mu      sync.Mutex
	running bool // guarded by mu; Run was called and the sources close themselves
	closed  bool // guarded by mu
}

// boundSocket is a socket file to be removed at the end.
type boundSocket struct {
	file *os.File
	info fs.FileInfo
}

// Open binds the sockets; who writes to them waits until Run. A stale socket is
// removed, one that somebody answers on is an error that wraps ErrInUse. After
// an error nothing is left open.
func Open(cfg Config, sink Sink) (*Ingest, error) {
	cfg.defaults()
	in := &Ingest{
		cfg:    cfg,
		sink:   sink,
		host:   newHost(&cfg),
		words:  newWords(),
		limits: newLimiter(cfg.RateLimitInterval, cfg.RateLimitBurst, cfg.Free),
		closer: newCloser(),
		begin:  time.Now(),
	}
	if cfg.MaxLevel != nil {
		in.SetMaxLevel(*cfg.MaxLevel)
	}
	in.abort, in.cancel = context.WithCancel(context.Background())
	in.losses = in.newLosses()
	in.counts.mark = in.losses.Mark
	if err := in.open(); err != nil {
		in.Close() //nolint:errcheck // the error at hand says more
		return nil, err
	}
	return in, nil
}

// SetMaxLevel changes Config.MaxLevel, for what is received from now on. It may
// be called at any time.
func (in *Ingest) SetMaxLevel(level int) {
	in.unstored.Store(uint32(levelCount - 1 - min(max(level, 0), levelCount-1)))
}

func (c *Config) defaults() {
	if c.LineMax <= 0 {
		c.LineMax = DefaultLineMax
	}
	c.LineMax = max(c.LineMax, MinLineMax)
	if c.MaxStreams <= 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.MaxStreamsPerUID <= 0 {
		c.MaxStreamsPerUID = max(1, c.MaxStreams/4)
	}
	if c.relay <= 0 {
		c.relay = relayFrom
	}
	if c.gather <= 0 {
		c.gather = gatherTime
	}
	c.MaxPassed = min(max(c.MaxPassed, DefaultMaxPassed), entry.DefaultMaxEntry)
	if c.proc == "" {
		c.proc = "/proc"
	}
	if c.units == "" {
		c.units = "/run/systemd/units"
	}
	if c.users == "" {
		c.users = "/run/user"
	}
}

// proc makes a reader of /proc for one source.
func (in *Ingest) proc() *procReader {
	return newProcReader(in.cfg.proc, in.cfg.units, in.cfg.users)
}

func (in *Ingest) open() error {
	file, err := in.bind(nativeSocket, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	if in.native, err = newDatagrams(in, file, nativeReasons()); err != nil {
		return err
	}
	in.closer.accept = in.native.rx.passRights
	in.native.take, in.native.turns = (&native{datagrams: in.native}).take, &in.turns.native
	if file, err = in.bind(syslogSocket, unix.SOCK_DGRAM); err != nil {
		return err
	}
	if in.syslog, err = newDatagrams(in, file, syslogReasons()); err != nil {
		return err
	}
	in.syslog.take, in.syslog.turns = in.syslog.takeSyslog, &in.turns.syslog
	if file, err = in.bind(stdoutSocket, unix.SOCK_STREAM); err != nil {
		return err
	}
	if in.stdout, err = newListener(in, file); err != nil {
		return err
	}
	if in.cfg.Kmsg != "" {
		in.kmsg, err = openKmsg(in)
	}
	return err
}

// bind binds a socket and remembers to remove it.
func (in *Ingest) bind(name string, kind int) (*os.File, error) {
	f, err := bind(in.cfg.Dir, name, kind)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(f.Name())
	if err != nil {
		info = nil // then it stays behind as a stale one
	}
	in.bound = append(in.bound, boundSocket{f, info})
	return f, nil
}

// source is one goroutine's work. run returns when the gate's end has been
// reached or the socket is closed.
type source interface {
	run(ctx context.Context) error
	gateway() *gate
}

// all are the sources that exist from the start.
func (in *Ingest) all() []source {
	list := []source{in.native, in.syslog, in.stdout}
	if in.kmsg != nil {
		list = append(list, in.kmsg)
	}
	return list
}

// Run reads from all sockets until ctx is done. Then what the kernel holds for
// them is read to its end and handed over, unterminated lines of streams
// included, and Run returns: after that no goroutine of the Ingest is left. It
// may be called once. What is sent to a socket that has been drained is refused
// by the kernel. An error means that a socket could not be read any more;
// the others have been drained then too.
func (in *Ingest) Run(ctx context.Context) error {
	in.mu.Lock()
	begun := in.running || in.closed
	in.running = true
	in.mu.Unlock()
	if begun {
		return ErrClosed
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sources := in.all()
	unhook := context.AfterFunc(ctx, func() {
		for _, s := range sources {
			s.gateway().end()
		}
	})
	defer unhook()
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	for i, s := range sources {
		running.Go(func() {
			if errs[i] = s.run(in.abort); errs[i] != nil {
				stop() // one that fails ends all
			}
		})
	}
	running.Wait()
	in.closer.end()
	in.losses.Settle(in.abort) //nolint:errcheck // the effect cannot fail
	if in.abort.Err() != nil {
		return fmt.Errorf("ingest: %w", in.abort.Err())
	}
	return errors.Join(errs...)
}

// listeners are the gates behind which connections wait to be accepted.
func (in *Ingest) listeners() []*gate { return []*gate{&in.stdout.gate} }

// sources are the gates of everything else that is open now.
func (in *Ingest) sources() []*gate {
	gates := []*gate{&in.native.gate, &in.syslog.gate}
	if in.kmsg != nil {
		gates = append(gates, &in.kmsg.gate)
	}
	return in.stdout.gates(gates)
}

// Close closes and removes the sockets. It does not wait for Run: a Run that is
// still blocked in the sink is given up, and what it held is lost. After Run has
// returned nothing is lost. It is idempotent.
func (in *Ingest) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil
	}
	in.closed = true
	in.cancel()
	in.callers.close()
	for _, d := range []*datagrams{in.native, in.syslog} {
		if d != nil {
			d.gate.end() // of a pause, too
			d.rx.bell.close()
		}
	}
	for _, b := range in.bound {
		unlink(b.file, b.info)
		b.file.Close() //nolint:errcheck // nothing was written to it
	}
	if in.kmsg != nil {
		in.kmsg.closeFiles()
	}
	if !in.running {
		for _, d := range []*datagrams{in.native, in.syslog} {
			if d != nil {
				d.close(true)
			}
		}
		if in.stdout != nil {
			in.stdout.gate.close(nil, true)
		}
		if in.kmsg != nil {
			in.kmsg.gate.close(nil, true)
		}
	}
	return in.losses.Close()
}

// now is the monotonic time since Open.
func (in *Ingest) now() (mono time.Duration, wall uint64) {
	t := time.Now()
	return t.Sub(in.begin), uint64(t.UnixMicro())
}

// hand gives a batch to the sink.
func (in *Ingest) hand(ctx context.Context, b *batch, taken, refused reason) (journal.Ticket, error) {
	if len(b.entries) == 0 {
		return journal.Ticket{}, nil
	}
	ticket, err := in.sink.Append(ctx, b.entries)
	if err != nil {
		in.counts.add(refused, uint64(len(b.entries)))
		return journal.Ticket{}, err
	}
	in.counts.add(taken, uint64(len(b.entries)))
	return ticket, nil
}

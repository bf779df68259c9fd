package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/ingest"
	"github.com/tidemark-log/tidemark/internal/store"
	"github.com/tidemark-log/tidemark/internal/web"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// faultVar says what the daemon of a test does to the first record that comes by
// HTTP.
const faultVar = "TIDEMARK_TEST_FAULT"

// TestMain makes the test binary the demo's program: a daemon and feeders.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		err = serve(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "demo":
		err = feed(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func feed(args []string) error {
	var o FeedOptions
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.Kind, "feed", "", "")
	f.IntVar(&o.ID, "feed-id", 0, "")
	f.StringVar(&o.Run, "feed-run", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	return Feed(context.Background(), o, os.Stdin, os.Stdout)
}

// liar is a daemon that acknowledges everything, and stores it but for a fault.
type liar struct {
	*store.Store
	ingest *ingest.Ingest
	fault  string
	done   atomic.Bool // the fault has happened
}

// TryAppend implements web.Sink.
func (l *liar) TryAppend(entries []entry.Entry) (journal.Ticket, error) {
	if l.fault == "" || l.done.Swap(true) {
		return l.Store.TryAppend(entries)
	}
	switch l.fault {
	case "lose":
		entries = entries[1:]
	case "double":
		entries = append([]entry.Entry{entries[0]}, entries...)
	case "tear":
		fields := entries[0].Fields
		for i, f := range fields {
			if strings.HasPrefix(string(f), "MESSAGE=") {
				fields[i] = f[:len(f)-1]
			}
		}
	}
	return l.Store.TryAppend(entries)
}

// Synchronize implements control.Daemon.
func (l *liar) Synchronize(ctx context.Context) error {
	if err := l.ingest.Barrier(ctx); err != nil {
		return err
	}
	return l.Store.Synchronize(ctx)
}

// answers is what a liar answers to.
type answers struct{ *liar }

// Look implements control.Daemon.
func (c answers) Look(st *control.Status) { *st = control.Status{Syncs: c.Store.Status().Syncs} }

// Append implements control.Daemon. The demo does not call it.
func (answers) Append(context.Context, control.Peer, []entry.Entry, settle.Level) (control.Appended, error) {
	return control.Appended{}, errors.ErrUnsupported
}

// OpenLines implements control.Daemon. The demo does not call it.
func (answers) OpenLines(_ context.Context, _ control.Peer, appending, repairing int) (control.Lines, error) {
	return nil, errors.Join(syscall.Close(appending), syscall.Close(repairing), errors.ErrUnsupported)
}

// serve is the daemon; it runs until it is killed.
func serve(args []string) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.String("config", "", "")
	data, run, addr := f.String("data", "", ""), f.String("run", "", ""), f.String("http", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*run, 0o700); err != nil {
		return err
	}
	st, err := store.Open(store.Config{
		Dir: *data, MachineID: entry.ID{1}, BootID: entry.ID{2},
		Settings: store.Settings{Sync: settle.Every(time.Second), Index: -1},
	})
	if err != nil {
		return err
	}
	l := &liar{Store: st, fault: os.Getenv(faultVar)}
	if l.ingest, err = ingest.Open(ingest.Config{Dir: *run}, st); err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	commands := filepath.Join(*run, "io.systemd.journal")
	os.Remove(commands) // of the one that was killed
	varlink, err := net.ListenUnix("unix", &net.UnixAddr{Name: commands, Net: "unix"})
	if err != nil {
		return err
	}
	fmt.Printf("http http://%s/\n", tcp.Addr())
	c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte("READY=1")); err != nil {
		return err
	}
	door := web.New(web.Config{Sink: l, NewDecoder: func(peer string) web.Decoder { return l.ingest.NewJSONDecoder(peer) }})
	ctx := context.Background()
	ended := make(chan error)
	go func() { ended <- l.ingest.Run(ctx) }()
	go func() { ended <- door.Serve(ctx, tcp) }()
	go func() { ended <- control.New(answers{l}, control.Info{}, control.Limits{}).Serve(ctx, varlink) }()
	return <-ended
}

// quick are options for a demo that takes a fraction of a second.
func quick(out io.Writer) Options {
	return Options{
		Out: out, Stream: 200 * time.Millisecond, Program: os.Args[0], measure: time.Millisecond,
		Synchronize: func(ctx context.Context, socket string) error {
			_, err := control.Call(ctx, socket, control.MethodSynchronize, nil)
			return err
		},
		Syncs: func(ctx context.Context, socket string) (uint64, error) {
			reply, err := control.Call(ctx, socket, control.MethodStatus, nil)
			if err != nil {
				return 0, err
			}
			var st control.Status
			err = json.Unmarshal(reply, &st)
			return st.Syncs, err
		},
	}
}

// fullDisk takes no line.
type fullDisk struct{ err error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.err }

// TestProofMustBeSeen plays the demo where it cannot print: on a full disk the
// proof is not there, on a closed terminal nobody wants it.
func TestProofMustBeSeen(t *testing.T) {
	for why, fails := range map[error]bool{syscall.ENOSPC: true, syscall.EPIPE: false} {
		if err := Run(t.Context(), quick(fullDisk{why})); (err != nil) != fails || fails && !errors.Is(err, why) {
			t.Errorf("%v: the demo ended with %v", why, err)
		}
	}
}

// TestInterrupted ends the demo before its end: it says that and nothing else.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupt signal received")
	o := quick(io.Discard)
	o.Synchronize = func(context.Context, string) error {
		cancel(interrupt)
		return ctx.Err()
	}
	if err := Run(ctx, o); err != interrupt { //nolint:errorlint // this very error, alone
		t.Errorf("the demo ended with %v", err)
	}
}

// TestRun plays the demo with a daemon that keeps its word and with three that
// do not.
func TestRun(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each process ends a second late under the race detector
	for fault, want := range map[string]string{"": "", "lose": "lost", "double": "torn", "tear": "torn"} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Setenv(faultVar, fault)
			var out bytes.Buffer
			err := Run(t.Context(), quick(&out))
			if fault == "" {
				if err != nil {
					t.Errorf("%v\n%s", err, &out)
				}
				return
			}
			if !errors.Is(err, ErrLost) {
				t.Errorf("error %v, want that the proof failed\n%s", err, &out)
			}
			seen := 0
			for line := range strings.Lines(out.String()) {
				if words := strings.Fields(line); len(words) > 1 && words[0] == want {
					seen, _ = strconv.Atoi(words[1]) // 0 is wrong too
				}
			}
			if seen == 0 {
				t.Errorf("nothing %s:\n%s", want, &out)
			}
		})
	}
}

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Pace of a feeder on a path without acknowledgement: burst records per tick.
const (
	feedTick  = 5 * time.Millisecond
	feedBurst = 10
)

// Feed is the life of one of the demo's eight sending processes. It obeys lines
// on in ("run HTTP-ADDRESS", "stop") and reports on out:
//
//	sent N      the first N records have been handed to the kernel
//	ack N µs    record N (HTTP only) was acknowledged as synced after so long
//	end N       a run is over, because of "stop" or because the daemon is gone
//
// It returns when in ends.
func Feed(ctx context.Context, o FeedOptions, in io.Reader, out io.Writer) error {
	lines := sampleLines()
	if o.Real {
		if real, _ := realLines(o.RealGlob); len(real) > 0 {
			lines = real
		}
	}
	f := &feeder{o: o, lines: lines, out: bufio.NewWriter(out)}
	commands := make(chan string)
	go func() { // ends with in; joined by the range below
		defer close(commands)
		sc := bufio.NewScanner(in)
		for sc.Scan() {
			select {
			case commands <- sc.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for c := range commands {
		if addr, ok := strings.CutPrefix(c, "run "); ok {
			if err := f.run(ctx, addr, commands); err != nil {
				return err
			}
		}
	}
	return nil
}

// FeedOptions say which path a feeder takes.
type FeedOptions struct {
	ID       int
	Kind     string // native, syslog, stdout or http
	Run      string // the daemon's socket directory
	Real     bool   // the machine's own logs instead of the sample
	RealGlob string
}

type feeder struct {
	o     FeedOptions
	lines []string
	next  int // sequence number of the next record; the first is 0
	out   *bufio.Writer
}

func (f *feeder) record() record {
	r := record{feeder: f.o.ID, seq: f.next, text: f.lines[(f.next+f.o.ID*7)%len(f.lines)]}
	f.next++
	return r
}

// run sends until told to stop or until the daemon is gone.
func (f *feeder) run(ctx context.Context, httpAddr string, commands <-chan string) error {
	var err error
	if f.o.Kind == "http" {
		err = f.runHTTP(ctx, httpAddr, commands)
	} else {
		err = f.runSocket(ctx, commands)
	}
	var gone *goneError
	if err != nil && !errors.As(err, &gone) {
		return err
	}
	return f.say("end %d\n", f.next)
}

// goneError tells that the daemon does not take records any more, which the
// demo brings about on purpose.
type goneError struct{ err error }

func (e *goneError) Error() string { return "daemon gone: " + e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

func (f *feeder) runSocket(ctx context.Context, commands <-chan string) error {
	s, err := dialSender(f.o)
	if err != nil {
		return &goneError{err}
	}
	defer s.close()
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-commands:
			if !ok || c == "stop" {
				return nil
			}
		case <-tick.C:
			for range feedBurst {
				if err := s.send(f.record().encode()); err != nil {
					f.next-- // it was not taken
					return &goneError{err}
				}
			}
			if err := f.say("sent %d\n", f.next); err != nil {
				return err
			}
		}
	}
}

func (f *feeder) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(f.out, format, args...); err != nil {
		return fmt.Errorf("report to the demo: %w", err)
	}
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("report to the demo: %w", err)
	}
	return nil
}

// Package demo shows the main job with its proof: eight processes log through
// every path into a daemon that is killed in mid-stream and started again, and
// every record that was acknowledged is looked up afterwards.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options of a demo. The zero value of a field is not useful unless it says so.
type Options struct {
	Out    io.Writer
	Real   bool          // send the machine's own readable logs (RealGlob)
	Keep   bool          // leave the daemon up until ctx ends
	Stream time.Duration // how long the feeders stream before the kill, and half of it after; 0 = DefaultStream
	// Program is this program; it is started as daemon and as feeders.
	Program string
	// Synchronize asks the daemon behind a control socket to settle everything.
	Synchronize func(ctx context.Context, socket string) error
	// Syncs reads how many syncs the daemon has made since it started.
	Syncs func(ctx context.Context, socket string) (uint64, error)

	measure time.Duration // how long each way of appending is measured; 0 = measureFor
}

// Defaults of Options.
const (
	DefaultStream = 1500 * time.Millisecond
	RealGlob      = "/var/log/*.log"
	startLimit    = 15 * time.Second
)

// ErrLost tells that the demo found an acknowledged record lost or a record
// torn, or a file that does not verify.
var ErrLost = errors.New("the proof failed")

// kinds of the eight feeders; the index is the feeder's number.
var kinds = [...]string{"native", "syslog", "stdout", "http", "native", "syslog", "stdout", "http"}

// stage is what a run of the demo holds open.
type stage struct {
	o       Options
	dir     string
	data    string
	run     string
	daemon  *daemon
	feeders []*child
	unsaid  error // of a line that could not be printed
}

// Run plays the demo and prints it to o.Out. It returns ErrLost when the proof
// fails, another error when it could not be played.
func Run(ctx context.Context, o Options) (err error) {
	if o.Stream == 0 {
		o.Stream = DefaultStream
	}
	if o.measure == 0 {
		o.measure = measureFor
	}
	dir, err := makeDir(os.TempDir())
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w: set TMPDIR to a directory that you may write to", err)
	}
	s := &stage{o: o, dir: dir, data: filepath.Join(dir, "journal"), run: filepath.Join(dir, "run")}
	defer func() {
		end := s.end()
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx) // what else went wrong came of that
			return
		case s.unsaid != nil && err == nil:
			err = fmt.Errorf("print the proof: %w", s.unsaid)
		}
		err = errors.Join(err, end)
	}()
	return s.play(ctx)
}

func (s *stage) play(ctx context.Context) error {
	s.say("tidemark demo: 8 processes log through native, syslog, stdout and HTTP; the daemon is killed with -9 and started again\n\n")
	if s.o.Real {
		lines, files := realLines(RealGlob)
		if len(lines) == 0 {
			return fmt.Errorf("no readable text log at %s: run without --real for the sample that ships", RealGlob)
		}
		s.say("  input     %d lines of this machine's %s\n", len(lines), strings.Join(files, ", "))
	}
	if err := s.startDaemon(ctx); err != nil {
		return err
	}
	s.say("  daemon    pid %d, http://%s, sockets and files in %s\n", s.daemon.pid(), s.daemon.http, s.dir)
	for i, k := range kinds {
		c, err := startChild(ctx, s.o, FeedOptions{ID: i, Kind: k, Run: s.run, Real: s.o.Real})
		if err != nil {
			return err
		}
		s.feeders = append(s.feeders, c)
	}
	first, err := s.stream(ctx, s.o.Stream, true)
	if err != nil {
		return err
	}
	s.say("  kill -9   after %d records sent, %d of them acknowledged\n", first.sent, first.acked)
	if err := s.startDaemon(ctx); err != nil {
		return fmt.Errorf("after the kill: %w", err)
	}
	s.say("  restart   pid %d, ready again\n", s.daemon.pid())
	for _, line := range s.daemon.notes() {
		s.say("            %s\n", line)
	}
	second, err := s.stream(ctx, s.o.Stream/2, false)
	if err != nil {
		return err
	}
	return s.prove(ctx, first, second)
}

// prove looks every acknowledged record up and prints the outcome.
func (s *stage) prove(ctx context.Context, first, second outcome) error {
	got, err := readBack(s.data, len(kinds))
	if err != nil {
		return err
	}
	p := compare(s.feeders, got)
	verdict, verifyErr := verifyAll(ctx, s.data)
	speeds, err := measure(ctx, filepath.Join(s.dir, "measure"), s.o.measure)
	if err != nil {
		return err
	}
	acks := slices.Concat(first.latencies, second.latencies)
	s.say("\n  sent      %8d\n  acked     %8d   (%d by answers, %d by Synchronize)\n", p.sent, p.acked, p.byAnswer, p.acked-p.byAnswer)
	s.say("  in flight %8d   at the kill: sent, promised nothing (%d of them are stored all the same)\n", p.inFlight, p.inFlightStored)
	s.say("  stored    %8d\n  lost      %8d   acknowledged and not there\n  torn      %8d   there, but not whole or twice\n", p.stored, p.lost, p.torn)
	if n := len(acks); n > 0 {
		s.say("\n  acks      %d durable answers with %d syncs: %.2f syncs an ack; p50 %s, p99 %s\n", n, first.syncs+second.syncs,
			float64(first.syncs+second.syncs)/float64(n), quantile(acks, 0.50), quantile(acks, 0.99))
	}
	s.say("\n  the same in one process, %d callers that append as fast as they can:\n", measureCallers)
	s.say("    a sync per line               %9.0f records/s\n", speeds.each)
	s.say("    one sync for all who wait     %9.0f records/s   %.0f× a sync per line: what tidemark does\n", speeds.shared, speeds.shared/speeds.each)
	s.say("    no sync at all                %9.0f records/s   one sync for all who wait is %.1f %% of that\n", speeds.none, 100*speeds.shared/speeds.none)
	s.say("\n  %s\n", strings.Join(verdict, "\n  "))
	switch {
	case p.lost > 0 || p.torn > 0:
		s.say("\nFAILED: %d lost, %d torn\n", p.lost, p.torn)
		return fmt.Errorf("%w: %d acknowledged records lost, %d torn", ErrLost, p.lost, p.torn)
	case verifyErr != nil:
		s.say("\nFAILED: %v\n", verifyErr)
		return fmt.Errorf("%w: %w", ErrLost, verifyErr)
	case p.acked == 0 || p.byAnswer == 0:
		return fmt.Errorf("%w: nothing was acknowledged", ErrLost)
	}
	s.say("\nlost 0, torn 0: every acknowledged record is in its file, whole and once\n")
	return nil
}

// end stops what runs and removes the directory, or keeps both up until the
// user has seen enough.
func (s *stage) end() error {
	var errs []error
	for _, f := range s.feeders {
		errs = append(errs, f.close())
	}
	if s.daemon != nil {
		if s.o.Keep {
			s.sayKept()
			return errors.Join(errs...)
		}
		errs = append(errs, s.daemon.stop())
	}
	errs = append(errs, os.RemoveAll(s.dir))
	return errors.Join(errs...)
}

// sayKept says how to look at the daemon that stays up, ready to be pasted.
func (s *stage) sayKept() {
	me := quote(s.o.Program)
	if strings.Contains(s.o.Program, "/go-build") {
		me = "go run ./cmd/tidemark" // which removes the program it has built
	}
	s.say("\nthe daemon stays up: pid %d, http://%s\n", s.daemon.pid(), s.daemon.http)
	s.say("  %s query -D %s -n 20\n", me, quote(s.data))
	s.say("  %s query -D %s -f\n", me, quote(s.data))
	s.say("  %s send --run %s \"hello\"\n", me, quote(s.run))
	s.say("  %s status --run %s\n", me, quote(s.run))
	s.say("  journalctl -D %s -n 20\n", quote(s.data))
	s.say("end it with:\n  kill %d\n  rm -r %s\n", s.daemon.pid(), quote(s.dir))
}

// quote quotes a path for a shell if it needs that.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func (s *stage) say(format string, args ...any) {
	_, err := fmt.Fprintf(s.o.Out, format, args...)
	// A closed terminal does not change the proof; a full disk hides it.
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.EIO) {
		s.unsaid = err
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))].Round(10 * time.Microsecond)
}

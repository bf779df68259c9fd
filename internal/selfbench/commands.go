package selfbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

// CommandsOptions are those of Commands.
type CommandsOptions struct {
	Options
	// Poll is the time-out of the naive way's poll, in whole milliseconds.
	Poll time.Duration
}

// commandWay is one way of serving commands behind a listener; what it returns
// ends it and closes the listener.
type commandWay struct {
	name  string
	serve func(ctx context.Context, l *net.UnixListener, o CommandsOptions, d door) (end func() error, err error)
}

// The ways of Commands; the first is the naive one of the program that met the
// problem, the second its cure.
var commandWays = [...]commandWay{
	{"poll", servePolled(false)},
	{"poll, woken", servePolled(true)},
	{"tidemark", serveDoor},
}

// CommandsRow is what one way showed in all rounds.
type CommandsRow struct {
	Way                 string
	Calls               uint64
	P50, P99, P999, Max time.Duration
}

// Commands measures how long commands on one connection take, one after the
// other, while entries are appended and synced without a pause, and prints the
// table.
func Commands(ctx context.Context, o CommandsOptions) (rows []CommandsRow, err error) {
	p, err := enter(o.Options, "commands")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	p.total = o.Rounds * len(commandWays)
	f, err := startFlood(ctx, p)
	if err != nil {
		return nil, err
	}
	all, err := p.commandRounds(ctx, o, f)
	entries, floodErr := f.end()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil || floodErr != nil:
		return nil, errors.Join(err, floodErr)
	}
	for i, way := range commandWays {
		l := &all[i]
		rows = append(rows, CommandsRow{way.name, l.N(), l.Quantile(0.5), l.Quantile(0.99), l.Quantile(0.999), l.Max()})
	}
	return rows, printCommands(p, o, rows, entries)
}

// commandRounds runs the ways in turns.
func (p *place) commandRounds(ctx context.Context, o CommandsOptions, f *flood) ([]Latencies, error) {
	all := make([]Latencies, len(commandWays))
	for range o.Rounds {
		for i, way := range commandWays {
			if err := p.next(ctx, way.name); err != nil {
				return nil, err
			}
			if err := p.commandOnce(ctx, way, o, f, &all[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
		}
	}
	return all, nil
}

// commandOnce runs one round of a way.
func (p *place) commandOnce(ctx context.Context, way commandWay, o CommandsOptions, f *flood, all *Latencies) (err error) {
	path := p.file("socket")
	if len(path) > config.MaxSocketPath {
		return fmt.Errorf("%s is too long a path for a socket: name a shorter place with --dir", path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("%w: name another place with --dir", err)
	}
	end, err := way.serve(ctx, l, o, door{flood: f})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	c, err := control.Dial(ctx, path)
	if err == nil {
		err = callFor(ctx, c, p.Duration, all)
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, end())
}

// callFor makes calls for d, at least two: the first finds everybody waiting.
func callFor(ctx context.Context, c *control.Client, d time.Duration, all *Latencies) error {
	if _, err := c.Call(ctx, control.MethodStatus, nil); err != nil {
		return err
	}
	began := time.Now()
	for at, calls := began, 0; at.Sub(began) < d || calls < 2; calls++ {
		raw, err := c.Call(ctx, control.MethodStatus, nil)
		if err != nil {
			return err
		}
		done := time.Now()
		all.Add(done.Sub(at))
		var st control.Status
		if err := json.Unmarshal(raw, &st); err != nil || len(st.Files) != 1 {
			return fmt.Errorf("%q is not the status that was asked for: %w", raw, errors.Join(err, ErrLost))
		}
		at = time.Now()
	}
	return nil
}

// door answers commands about a flood's file. Only Status is called here: nobody
// but the bench can reach its socket, in a directory of its own.
type door struct {
	control.Daemon
	flood *flood
}

// Look describes the file that is being written.
func (d door) Look(out *control.Status) {
	st := d.flood.current.Load().Stats()
	*out = control.Status{
		PID: os.Getpid(),
		Files: append(out.Files[:0], control.File{
			Path: st.Path, Entries: st.Entries, Bytes: st.Bytes, Unwritten: st.Buffered, Unsynced: st.Unsynced,
			Fill: int(st.Fill * 100), SeqnumID: st.SeqnumID.String(), TailSeqnum: st.TailSeqnum,
			HeadRealtime: st.HeadRealtime, TailRealtime: st.TailRealtime,
		}),
	}
}

func servePolled(woken bool) func(context.Context, *net.UnixListener, CommandsOptions, door) (func() error, error) {
	return func(_ context.Context, l *net.UnixListener, o CommandsOptions, d door) (func() error, error) {
		answer := func() ([]byte, error) {
			var out struct {
				Parameters control.Status `json:"parameters"`
			}
			d.Look(&out.Parameters)
			b, err := json.Marshal(&out)
			return append(b, 0), err
		}
		p, err := startPollLoop(l, woken, o.Poll, answer)
		if err != nil {
			return nil, err
		}
		return func() error { return errors.Join(l.Close(), p.close()) }, nil
	}
}

func serveDoor(ctx context.Context, l *net.UnixListener, _ CommandsOptions, d door) (func() error, error) {
	s := control.New(d, control.Info{Product: "tidemark bench"}, control.Limits{})
	ctx, cancel := context.WithCancel(ctx)
	var run sync.WaitGroup
	var served error
	run.Go(func() { served = s.Serve(ctx, l) })
	return func() error {
		cancel()
		run.Wait()
		return served
	}, nil
}

func printCommands(p *place, o CommandsOptions, rows []CommandsRow, entries uint64) error {
	var t table
	t.row("one connection", "calls", "p50", "times as fast", "p99", "p99.9", "longest")
	for _, r := range rows {
		name := r.Way
		if r.Way == commandWays[0].name {
			name = fmt.Sprintf("%s, time-out %s", name, short(o.Poll))
		}
		t.row(name, fmt.Sprint(r.Calls), short(r.P50), ratio(float64(rows[0].P50), float64(r.P50)), short(r.P99), short(r.P999), short(r.Max))
	}
	if err := t.print(p.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\nall calls were answered; %d entries were appended meanwhile: all of them are in their files\n", entries)
	return err
}

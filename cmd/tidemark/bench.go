package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-log/tidemark/internal/selfbench"
)

// benchTables are what bench prints: the first argument, and how long a way runs
// in a round if nobody says so.
var benchTables = [...]struct {
	name     string
	duration time.Duration
}{
	{"notify", 300 * time.Millisecond},
	{"sync", 300 * time.Millisecond},
	{"commands", 2 * time.Second},
	{"append", 300 * time.Millisecond},
}

// benchFlags are the settings of the command line.
type benchFlags struct {
	selfbench.Options
	callers string
	poll    time.Duration
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [OPTION]... notify|sync|commands|append",
		Short: "Measure on this machine what it costs to notify, to sync and to answer, beside the naive way",
		Long: `Measures in files of its own, which it removes, and looks every record up before.

  notify    what it costs to tell readers of each append, and how late they see a
            lone one: ftruncate or write per append, ftruncate once per 250 ms
            (systemd-journald), settled: at once, then once for what has gathered
  sync      records a second that wait until they are synced: lock, write and sync
            each; or one sync for all who wait
  commands  one after the other on one connection while entries are appended and
            synced: a loop that sees a client it has answered again when its poll
            times out, a loop that is woken (sanlock), and tidemark's own
  append    short lives, as of processes but in this one, that hash files and append a
            line for each to one log: no log, a lock for each line or life, none, whole
            lines in one write, through one writer; with --delay log and files are on a
            model of NFS

The ways take turns; of their rounds the one in the middle counts, of commands
and for the longest all of them. Who waits for a turn when a round ends counts
with the time until then. Compare numbers of one table only. The exit code is 1
when a record that was acknowledged is not there.`,
		Example: `  tidemark bench sync
  tidemark bench sync --dir /srv --callers 1,64      # on the disk of /srv
  tidemark bench sync --delay 10ms                   # as on a disk whose syncs take 10 ms
  tidemark bench commands --delay 100ms              # while the log waits for a slow disk
  tidemark bench append --delay 18ms --callers 4     # as on NFS
  tidemark bench notify | tee table.txt`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return startingWith(benchNames(), word), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one table: notify, sync, commands or append: see tidemark bench --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Dir, "dir", "", "`directory` in which one is made for the files, and removed (default: that of temporary files)")
	flags.DurationVar(&f.Duration, "duration", 0, "how long each way runs in each round (default 300ms, commands 2s)")
	flags.IntVar(&f.Rounds, "rounds", 3, "how often each way runs")
	flags.DurationVar(&f.Delay, "delay", 0, "how much longer each sync takes, notify: each write; shows what a slow disk does; append: how long a COMMIT takes")
	flags.StringVar(&f.callers, "callers", "1,8,64,200", "sync, append: `numbers` of those that append at the same time")
	flags.DurationVar(&f.poll, "poll", time.Second, "commands: time-out of the naive way's poll, in whole ms")
	completeFlags(cmd, map[string][]cobra.Completion{
		"duration": {"300ms", "2s", "10s"}, "rounds": {"1", "3", "5"}, "delay": {"1ms", "10ms", "100ms"},
		"callers": {"1,8,64,200", "1", "64"}, "poll": {"100ms", "1s"},
	}, "dir")
	return cmd
}

func benchNames() (names []cobra.Completion) {
	for _, t := range benchTables {
		names = append(names, t.name)
	}
	return names
}

// run prints the table name.
func (f *benchFlags) run(cmd *cobra.Command, name string) error {
	known := false
	for _, t := range benchTables {
		if t.name == name {
			known = true
			if !cmd.Flags().Changed("duration") {
				f.Duration = t.duration
			}
		}
	}
	if !known {
		return usagef("unknown table %q: want notify, sync, commands or append", name)
	}
	callers, err := f.check()
	if err != nil {
		return err
	}
	bar := &benchProgress{w: cmd.ErrOrStderr(), out: cmd.OutOrStdout()}
	f.Out = bar
	if term.IsTerminal(int(os.Stderr.Fd())) {
		f.Progress = bar.show
	}
	ctx := cmd.Context()
	switch name {
	case "notify":
		_, err = selfbench.Notify(ctx, f.Options)
	case "sync":
		_, err = selfbench.Sync(ctx, selfbench.SyncOptions{Options: f.Options, Callers: callers})
	case "append":
		_, err = selfbench.Append(ctx, selfbench.AppendOptions{Options: f.Options, Callers: callers})
	default:
		_, err = selfbench.Commands(ctx, selfbench.CommandsOptions{Options: f.Options, Poll: f.poll})
	}
	bar.clear()
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: the files it has made are removed")
	}
	return err
}

// Limits of what can be asked for; more would only fill the disk.
const (
	maxBenchTime    = time.Hour
	maxBenchCallers = 10000
)

// check looks at the flags and returns the numbers of callers.
func (f *benchFlags) check() (callers []int, err error) {
	switch {
	case f.Duration <= 0 || f.Duration > maxBenchTime:
		return nil, usagef("--duration %s: want more than 0 and at most 1h", f.Duration)
	case f.Delay < 0 || f.Delay > maxBenchTime:
		return nil, usagef("--delay %s: want 0 to 1h", f.Delay)
	case f.poll < time.Millisecond || f.poll > maxBenchTime || f.poll%time.Millisecond != 0:
		return nil, usagef("--poll %s: want whole milliseconds from 1ms to 1h", f.poll)
	case f.Rounds < 1 || f.Rounds > 1000:
		return nil, usagef("--rounds %d: want 1 to 1000", f.Rounds)
	}
	for word := range strings.SplitSeq(f.callers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > maxBenchCallers {
			return nil, usagef("--callers %q: want numbers from 1 to %d with commas between them, such as 1,64", f.callers, maxBenchCallers)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

// benchProgress shows on a terminal what is measured now, in a line that is gone
// when something is printed.
type benchProgress struct {
	w, out io.Writer
	shown  bool
}

func (b *benchProgress) show(step, total int, what string) {
	b.shown = true
	fmt.Fprintf(b.w, "\r\x1b[K%d of %d: %s", step, total, what) //nolint:errcheck // it only entertains
}

func (b *benchProgress) clear() {
	if b.shown {
		b.shown = false
		fmt.Fprint(b.w, "\r\x1b[K") //nolint:errcheck // as above
	}
}

// Write prints p.
func (b *benchProgress) Write(p []byte) (int, error) {
	b.clear()
	return b.out.Write(p)
}

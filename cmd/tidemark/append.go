package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// appendOptions are the flags of append.
type appendOptions struct {
	sync, lock    string
	via           string
	lockTimeout   time.Duration
	catLock       bool
	rotateSize    string
	rotateAge     string
	keep          int
	compress      bool
	numbered      bool
	torn, maxLine string
	timestamp     string
	stderrPrefix  string
	repair        bool
}

func newAppendCmd() *cobra.Command {
	var o appendOptions
	cmd := &cobra.Command{
		Use:   "append [OPTION]... FILE | tidemark append [OPTION]... FILE -- COMMAND…",
		Short: "Append lines, or the output of a command, to a text log, whole",
		Long: `Appends the lines of standard input to FILE, or behind -- those that a command
writes to its standard output and standard error, whose exit code is passed on.
Any number of processes may append to one FILE at a time: each line is whole. What
one read has brought is written before the next, so kill -9 loses no line that was
read before. An unterminated last line is terminated.

The exit code is 0 only when every line is in FILE, and synced unless --sync is auto.
While the disk is full lines wait in memory (64 MiB, then the sender waits) and are
tried again; at the end of the input once more, then the exit code is 1. TERM and INT
end it after what is in the pipe by then. A FILE that was renamed or removed is begun
again, on Linux by itself, and at HUP.

With one of the options of rotation it is the only one that may append to FILE, and
refuses to begin if it is not: it holds .FILE.lock, which stays. The files before are
named FILE.20261130T101500 (UTC), or FILE.1 and up. A new FILE has mode 0640, its lock
file 0644, less the umask, or that of the file before. ALRM rotates, as with multilog and
s6-log, HUP opens FILE again.`,
		Example: `  make 2>&1 | tidemark append build.log
  app 2>&1 | tidemark append --rotate-size 10M --keep 5 app.log    # as | rotatelogs
  app 2>&1 | tidemark append --timestamp tai64n --rotate-size 16M --keep 10 app.log    # as | multilog t
  tidemark append nightly.log --timestamp iso --stderr-prefix 'E: ' -- ./nightly.sh --full
  echo "paid 12.50 to 4711" | tidemark append --sync all ledger.log && echo safe
  tidemark append -l METALOG <lines                # under the lock that cat -l takes
  tidemark append --repair METALOG                 # mark what a killed writer has left, before it is read`,
		Args: appendArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runAppend(cmd, &o, args[0], args[1:])
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); len(args) > 1 { // the option is the command's
			return commandBehind(args)
		}
		return err
	})
	f := cmd.Flags()
	f.StringVar(&o.sync, "sync", "auto", "`policy` of syncs: auto (the kernel's time), a duration (that long after an append, and in the end), or all (all the time)")
	f.StringVar(&o.lock, "lock", "auto", "`kind` of lock for each write: none, flock, fcntl, or auto: fcntl on network file systems and beside others who have such a lock, else none")
	f.DurationVar(&o.lockTimeout, "lock-timeout", linelog.DefaultLockTimeout, "how long a write waits for the lock before it counts as failed and is tried again")
	f.BoolVarP(&o.catLock, "cat-lock", "l", false, "the same as --lock fcntl: cat's option")
	f.StringVar(&o.via, "via", "", "have a daemon write FILE, for this process and others: its `socket`, such as /run/tidemark/io.systemd.journal")
	f.StringVar(&o.rotateSize, "rotate-size", "", "begin a new file before this one is larger than `size`, such as 10M")
	f.StringVar(&o.rotateAge, "rotate-age", "", "begin a new file when the first line of this one is older than `time`, such as 1d")
	f.IntVar(&o.keep, "keep", 0, "how many of the files before are kept, 0 for all")
	f.BoolVar(&o.compress, "compress", false, "compress the files before, with zstd")
	f.BoolVar(&o.numbered, "numbered", false, "name the files before FILE.1, FILE.2, …, the newest first, as logrotate does")
	f.StringVar(&o.timestamp, "timestamp", "", "begin each line with the time: `form` iso (UTC), tai64n (multilog's t) or unix (seconds)")
	f.StringVar(&o.stderrPrefix, "stderr-prefix", "", "begin each line of the command's standard error with `text`, behind the time")
	f.StringVar(&o.torn, "torn", "comment", "`how` what a killed writer has left of a line is marked: comment (#) or spaces")
	f.StringVar(&o.maxLine, "max-line", "1M", "`size` above which a line is cut, with … where it goes on")
	f.BoolVar(&o.repair, "repair", false, "mark what a killed writer has left at the end of FILE, and append nothing")
	completeFlags(cmd, map[string][]cobra.Completion{
		"sync": {"auto", "250ms", "1s", "all"}, "lock": {"auto", "none", "flock", "fcntl"}, "lock-timeout": {"1s", "10s", "1m"},
		"rotate-size": {"1M", "10M", "100M"}, "rotate-age": {"1h", "1d", "1w"}, "keep": {"5", "10"},
		"timestamp": stampForms(), "torn": {"comment", "spaces"}, "max-line": {"8K", "1M"}, "stderr-prefix": nil,
	})
	return cmd
}

// appendArgs wants one file, and a command behind -- or none.
func appendArgs(cmd *cobra.Command, args []string) error {
	n := len(args)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		if n = dash; len(args) == dash {
			return usagef("a command is missing behind --")
		}
	}
	switch {
	case n > 1:
		return commandBehind(args)
	case n != 1:
		return usagef("name one file to append to: see tidemark append --help")
	case args[0] == "-":
		return usagef("- names no log: name a file, whose lines come from standard input anyway; ./- if it is called so")
	}
	return nil
}

// commandBehind says what to do with more than one name in front of --.
func commandBehind(args []string) error {
	return usagef("name one file to append to: a command goes behind --: tidemark append %s -- %s …", args[0], args[1])
}

// appendBuffer is how much is read and written at once, in bytes: what makes a
// system call for it cheap, and stays in the processor's cache.
const appendBuffer = 256 << 10

// appendKeep is what of the lines that are not synced stays in memory, in bytes: with the
// pipe it is to have room in the processor's second cache.
const appendKeep = 2 * appendBuffer

// options are those of the log at path.
func (o *appendOptions) options(path string, say func(string)) (l linelog.Options, err error) {
	l = linelog.Options{Buffer: appendBuffer, Keep: appendKeep, LockTimeout: o.lockTimeout, Say: say}
	if l.Sync, err = settle.ParsePolicy(o.sync); err != nil {
		return l, usagef("--sync: %w", err)
	}
	if l.Lock, err = linelog.ParseLock(o.lock); err != nil {
		return l, usagef("--lock: %w", err)
	}
	if o.catLock {
		if l.Lock != linelog.LockAuto && l.Lock != linelog.LockFcntl {
			return l, usagef("-l is --lock fcntl: leave out -l, or --lock %s", o.lock)
		}
		l.Lock = linelog.LockFcntl
	}
	if o.lockTimeout <= 0 {
		return l, usagef("--lock-timeout %s: want more than 0", o.lockTimeout)
	}
	if l.Torn, err = parseTorn(o.torn); err != nil {
		return l, err
	}
	size, err := sizeFlag("max-line", o.maxLine, path)
	if err != nil {
		return l, err
	}
	if l.MaxLine = int(min(size, math.MaxInt32)); l.MaxLine < 16 {
		return l, usagef("--max-line %s: want at least 16", o.maxLine)
	}
	l.Rotate, err = o.rotation(path)
	l.Shared = l.Rotate == linelog.Rotation{}
	l.Watch = l.Shared
	l.CloseUnsynced = l.Shared && l.Sync.IsAuto()
	l.Trailing = l.Shared // what is read is written at once anyway: it opens the log once
	return l, err
}

// parseTorn reads the value of --torn.
func parseTorn(text string) (linelog.Torn, error) {
	switch text {
	case "comment":
		return linelog.Comment, nil
	case "spaces":
		return linelog.Spaces, nil
	}
	return 0, usagef("--torn %q: want comment or spaces", text)
}

// rotation is what the options of rotation say; zero if there are none.
func (o *appendOptions) rotation(path string) (r linelog.Rotation, err error) {
	if r.Size, err = sizeFlag("rotate-size", o.rotateSize, path); err != nil {
		return r, err
	}
	if o.rotateAge != "" {
		if r.Age, err = config.ParseSpan(o.rotateAge); err != nil {
			return r, usagef("--rotate-age: %w", err)
		}
		if r.Age <= 0 {
			return r, usagef("--rotate-age %s: want more than 0", o.rotateAge)
		}
	}
	if r.Keep = o.keep; r.Keep < 0 {
		return r, usagef("--keep %d: want how many files are kept, 0 for all", o.keep)
	}
	if o.numbered {
		r.Naming = linelog.Numbered
	}
	asked := r != linelog.Rotation{} || o.compress
	if asked && r.Size == 0 && r.Age == 0 {
		return r, usagef("nothing says when a new file begins: give --rotate-size or --rotate-age")
	}
	if asked && !o.compress {
		r.Compression = linelog.Plain
	}
	return r, nil
}

// sizeFlag reads the size that a flag has; 0 if it is not given. A share is one of the
// file system that holds path.
func sizeFlag(name, text, path string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, err := config.ParseSize(text)
	if err != nil {
		return 0, usagef("--%s: %w", name, err)
	}
	total := uint64(0)
	if size.Percent > 0 {
		if _, total, err = (vfs.OS{}).Free(filepath.Dir(path)); err != nil {
			return 0, err
		}
	}
	if n := size.Of(total); n > 0 && n <= math.MaxInt64 {
		return int64(n), nil
	}
	return 0, usagef("--%s %s: want at least one byte", name, text)
}

// runAppend appends what is read to the log path.
func runAppend(cmd *cobra.Command, o *appendOptions, path string, command []string) (err error) {
	say := func(text string) {
		fmt.Fprintln(cmd.ErrOrStderr(), errorLine("tidemark ", "append", text)) //nolint:errcheck // nowhere else to say it
	}
	log, err := o.options(path, say)
	if err != nil {
		return err
	}
	stamp, err := parseStampForm(o.timestamp)
	if err != nil {
		return err
	}
	switch {
	case o.repair && len(command) > 0:
		return usagef("--repair and a command exclude each other")
	case o.repair:
		if err := idleBesideRepair(cmd); err != nil {
			return err
		}
		return repairLog(path, log, say)
	case o.via != "" && (!log.Shared || log.Lock != linelog.LockAuto):
		return usagef("--via: rotation and locks are the daemon's: leave them out")
	case o.stderrPrefix != "" && len(command) == 0:
		return usagef("--stderr-prefix: there is no command: name one behind --")
	}
	release, err := own(path, !log.Shared)
	if err != nil {
		return err
	}
	defer release()
	w, err := o.open(cmd.Context(), path, log)
	if err != nil {
		return err
	}
	defer heedSignals(w, say)()
	a := &appending{w: w, stamp: stamp, stderrPrefix: o.stderrPrefix}
	if len(command) > 0 {
		err = runChild(cmd.Context(), command, cmd.InOrStdin(), a.stream)
	} else {
		err = a.input(cmd.Context(), cmd.InOrStdin())
	}
	return withUnwritten(err, w.Close())
}

// open opens the log, or has a daemon take it.
func (o *appendOptions) open(ctx context.Context, path string, log linelog.Options) (*linelog.Writer, error) {
	if o.via == "" {
		w, err := linelog.Open(path, log)
		if err != nil {
			return nil, withStep(err, openStep(err))
		}
		return w, nil
	}
	w, err := linelog.Dial(ctx, o.via, path, log)
	if err != nil {
		return nil, withStep(err, dialStep(err))
	}
	return w, nil
}

// withUnwritten joins what reading met with what became of the lines. A command's exit
// code stays.
func withUnwritten(err, unwritten error) error {
	if unwritten != nil {
		unwritten = withStep(unwritten, writeStep(unwritten))
	}
	return withAcks(err, unwritten)
}

// idleBesideRepair returns an error if there is an option that says how to append.
func idleBesideRepair(cmd *cobra.Command) error {
	for _, name := range []string{"via", "sync", "timestamp", "stderr-prefix", "rotate-size", "rotate-age", "keep", "compress", "numbered"} {
		if cmd.Flags().Changed(name) {
			return usagef("--repair appends nothing: leave out --%s", name)
		}
	}
	return nil
}

// repairLog marks what a killed writer has left at the end of a log.
func repairLog(path string, log linelog.Options, say func(string)) error {
	r, err := linelog.Repair(path, log)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return withStep(err, "name a log that is there")
	case err != nil:
		return withStep(err, openStep(err))
	}
	if r.Bytes > 0 {
		say(fmt.Sprintf("%s: marked %d bytes of a line that was not written to its end, at offset %d", path, r.Bytes, r.Offset))
	}
	return nil
}

// appending is where lines go.
type appending struct {
	w            *linelog.Writer
	stamp        stampForm
	stderrPrefix string
}

// copyFrom appends the lines of r, each behind prefix.
func (a *appending) copyFrom(ctx context.Context, r io.Reader, prefix string) error {
	if a.stamp != nil || prefix != "" {
		r = newPrefixer(r, a.stamp, prefix)
	}
	s := a.w.Stream()
	_, err := s.CopyFrom(ctx, r)
	return errors.Join(err, s.Close())
}

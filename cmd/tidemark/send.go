package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/query"
)

func newSendCmd() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send [OPTION]... [FIELD=VALUE…] [MESSAGE…] | tidemark send [OPTION]... [FIELD=VALUE…] -- COMMAND…",
		Short: "Send a message, lines, or the output of a command to the log",
		Long: `Send a message to the log daemon, by the native protocol that journald speaks
too; without one, the lines of standard input, or behind -- those that a command
writes to its standard output and standard error, whose exit code is passed on.
Words FIELD=VALUE before the message become fields of every entry.

Nothing is promised: the daemon has the message when this ends, no more. With
--ack it ends with 0 only when every entry has reached that level: appended (they
survive the end of the daemon) or synced (they survive a power cut). That needs
tidemark's own daemon.`,
		Example: `  tidemark send -t backup -p err "disk sda is failing"
  tidemark send -t deploy VERSION=1.2 "rolled out"
  make 2>&1 | tidemark send -t make
  tidemark send --ack synced -t ledger "paid 12.50 to 4711" && echo safe
  tidemark send -t nightly -- ./nightly.sh --full
  tidemark send --run /run/systemd/journal "hello journald"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.warn, o.acked = cmd.ErrOrStderr(), cmd.Flags().Changed("ack")
			return runSend(cmd.Context(), &o, args, cmd.ArgsLenAtDash(), cmd.InOrStdin())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.tag, "tag", "t", "", "SYSLOG_IDENTIFIER of the entries (default: the command's or user's name)")
	f.StringVarP(&o.priority, "priority", "p", "info", "level, or facility.level, by name or number")
	f.StringVar(&o.run, "run", "", runHelp)
	f.StringVar(&o.ack, "ack", "", "`level` to wait for: appended or synced (default: none)")
	completeFlags(cmd, map[string][]cobra.Completion{"priority": levelNames(), "tag": nil, "ack": {"appended", "synced"}}, "run")
	f.BoolVar(&o.levelPrefix, "level-prefix", true, "take <0> to <7> at the start of a line as its level")
	return cmd
}

// sendOptions are the flags of send.
type sendOptions struct {
	tag, priority, run, ack string
	acked                   bool // --ack was given
	levelPrefix             bool
	warn                    io.Writer
}

// errInterrupted ends the reading of input when a signal has come.
var errInterrupted = errors.New("interrupted: what was read before was sent")

// sendLineMax is where longer lines are broken, in bytes.
const sendLineMax = 1 << 20

// runSend sends what args ask for; dash is the number of arguments before --,
// -1 without one.
func runSend(ctx context.Context, o *sendOptions, args []string, dash int, stdin io.Reader) error {
	var command []string
	if dash >= 0 {
		args, command = args[:dash], args[dash:]
		if len(command) == 0 {
			return usagef("a command is missing behind --")
		}
	}
	fields, words, err := splitFields(args)
	if err != nil {
		return err
	}
	warnLowerCase(o.warn, words)
	if len(command) > 0 && len(words) > 0 {
		return usagef("%q: a message and a command exclude each other", words[0])
	}
	s := &sender{levelPrefix: o.levelPrefix}
	if s.level, s.fields, err = sendFields(o, fields, command); err != nil {
		return err
	}
	give := func(reading context.Context) error {
		switch {
		case len(command) > 0:
			return s.command(ctx, command, stdin)
		case len(words) > 0:
			return s.send([]byte("MESSAGE="+strings.Join(words, " ")), s.level)
		case hasMessage(fields):
			return s.send(nil, s.level)
		default:
			return s.input(reading, stdin)
		}
	}
	if o.acked {
		return s.acknowledged(ctx, o, give)
	}
	dir, err := runDir(o.run, o.warn)
	if err != nil {
		return err
	}
	s.socket = filepath.Join(dir, config.NativeSocket)
	if err := s.dial(); err != nil {
		return err
	}
	defer s.close()
	return give(ctx)
}

// acknowledged sends what give gives, and waits until all of it has reached the
// level of --ack. The context of give ends when a call has failed: then no more
// input is waited for.
func (s *sender) acknowledged(ctx context.Context, o *sendOptions, give func(context.Context) error) error {
	level, err := ackLevel(o.ack)
	if err != nil {
		return err
	}
	dir, err := runDir(o.run, o.warn)
	if err != nil {
		return err
	}
	if s.acks, err = dialAcker(ctx, filepath.Join(dir, config.ControlSocket), level); err != nil {
		return err
	}
	defer s.close()
	reading, stopReading := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer stopReading(errUnacked)
		s.acks.run(ctx)
	}()
	err = give(reading)
	s.acks.end()
	<-ended
	if errors.Is(err, errInterrupted) {
		return s.acks.interrupted()
	}
	return withAcks(err, s.acks.result())
}

// splitFields takes the words FIELD=VALUE that args begin with.
func splitFields(args []string) (fields []entry.Field, words []string, err error) {
	for i, arg := range args {
		f := entry.Field(arg)
		name := f.Name()
		switch {
		case len(name) == len(f) || !entry.ValidName(name, true):
			return fields, args[i:], nil
		case name[0] == '_':
			return nil, nil, usagef("%s: names that begin with _ are for the daemon to set", name)
		}
		fields = append(fields, f)
	}
	return fields, nil, nil
}

// warnLowerCase says that a word which looks like a field with a lower-case name
// is taken for the beginning of the message. A single word may well be one.
func warnLowerCase(w io.Writer, words []string) {
	if w == nil || len(words) < 2 {
		return
	}
	name, value, found := strings.Cut(words[0], "=")
	upper := strings.ToUpper(name)
	if !found || upper == name || !entry.ValidName([]byte(upper), false) {
		return
	}
	_, _ = fmt.Fprintf(w, "tidemark send: warning: %q is sent as part of the message: names of fields are upper-case: %s=%s\n", words[0], upper, value)
}

// hasMessage reports whether fields hold a MESSAGE.
func hasMessage(fields []entry.Field) bool {
	e := entry.Entry{Fields: fields}
	_, ok := e.Get("MESSAGE")
	return ok
}

// sendFields are the fields of every entry beside MESSAGE and PRIORITY. A level
// of -1 says that PRIORITY is among them.
func sendFields(o *sendOptions, fields []entry.Field, command []string) (level int, _ []entry.Field, err error) {
	facility, level, err := parsePriority(o.priority)
	if err != nil {
		return 0, nil, err
	}
	e := entry.Entry{Fields: fields}
	if _, ok := e.Get("PRIORITY"); ok {
		level = -1
	}
	if _, ok := e.Get("SYSLOG_IDENTIFIER"); !ok || o.tag != "" {
		fields = append(fields, entry.Field("SYSLOG_IDENTIFIER="+sendTag(o.tag, command)))
	}
	if facility >= 0 {
		fields = append(fields, entry.Field("SYSLOG_FACILITY="+strconv.Itoa(facility)))
	}
	return level, fields, nil
}

// sendTag is the identifier: what was asked for, the name of the command, or as
// with logger that of the user.
func sendTag(tag string, command []string) string {
	if tag != "" {
		return tag
	}
	if len(command) > 0 {
		return filepath.Base(command[0])
	}
	for _, name := range []string{"LOGNAME", "USER"} {
		if u := os.Getenv(name); u != "" {
			return u
		}
	}
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// parsePriority reads [FACILITY.]LEVEL as logger does; facility is -1 when there
// is none.
func parsePriority(s string) (facility, level int, err error) {
	facility = -1
	name, word, found := strings.Cut(s, ".")
	if !found {
		word = s
	} else {
		for i, f := range query.Facilities() {
			if name == f || name == strconv.Itoa(i) {
				facility = i
			}
		}
		if facility < 0 {
			return 0, 0, usagef("-p %s: invalid facility %q: want for example user, daemon or local0", s, name)
		}
	}
	switch word { // logger's other names
	case "panic":
		word = "emerg"
	case "error":
		word = "err"
	case "warn":
		word = "warning"
	}
	if level, err = config.ParseLevel(word); err != nil {
		return 0, 0, usagef("-p %s: %w", s, err)
	}
	return facility, level, nil
}

// input sends the lines of standard input until ctx is done.
func (s *sender) input(ctx context.Context, stdin io.Reader) error {
	if stdin == io.Reader(os.Stdin) {
		in, err := openInput("-")
		if err != nil {
			return err
		}
		defer in.Close()
		// Where deadlines are not supported no read blocks for long.
		defer context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })()
		stdin = in
	}
	err := s.lines(stdin)
	switch {
	case errors.Is(context.Cause(ctx), errUnacked):
		return errUnacked
	case ctx.Err() != nil:
		return errInterrupted
	}
	return err
}

// lines sends each line of r, empty ones left out.
func (s *sender) lines(r io.Reader) error {
	in := bufio.NewReaderSize(r, sendLineMax)
	message := make([]byte, 0, 4096)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		level := s.level
		if n := len(line); s.levelPrefix && n >= 3 && line[0] == '<' && line[2] == '>' && line[1] >= '0' && line[1] <= '7' {
			level, line = int(line[1]-'0'), line[3:]
		}
		if len(line) > 0 {
			message = append(append(message[:0], "MESSAGE="...), line...)
			if sendErr := s.send(message, level); sendErr != nil {
				return sendErr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// command runs a command and sends what it writes. The error holds the
// command's exit code.
func (s *sender) command(ctx context.Context, argv []string, stdin io.Reader) error {
	return runChild(ctx, argv, stdin, func(_ int, out *os.File) error { return s.lines(out) })
}

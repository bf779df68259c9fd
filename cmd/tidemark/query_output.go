package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/render"
)

// queryOutput is where a query prints: standard output, or a pager before it.
type queryOutput struct {
	w       *bufio.Writer
	colors  render.Colors
	columns int

	pager *exec.Cmd
	pipe  io.WriteCloser
}

// newQueryOutput begins the output of a. A pager and colours are for terminals.
func newQueryOutput(a *queryArgs, stdout io.Writer) *queryOutput {
	out := &queryOutput{columns: 80}
	file, isFile := stdout.(*os.File)
	tty := isFile && term.IsTerminal(int(file.Fd()))
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		out.columns = n
	} else if tty {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			out.columns = width
		}
	}
	out.colors = chooseColors(tty)
	if tty && !a.noPager && !a.query.Follow {
		if err := out.startPager(file, a.atEnd); err == nil {
			stdout = out.pipe
		}
	}
	out.w = bufio.NewWriterSize(stdout, outputBuffer)
	return out
}

// startPager begins the pager that the user has chosen, or the first of the
// usual ones that there is.
func (out *queryOutput) startPager(stdout *os.File, atEnd bool) error {
	candidates := [][]string{{"pager"}, {"less"}, {"more"}}
	for _, name := range []string{"PAGER", "SYSTEMD_PAGER"} {
		if value, set := os.LookupEnv(name); set {
			candidates = [][]string{strings.Fields(value)}
		}
	}
	for _, words := range candidates {
		if len(words) == 0 || words[0] == "cat" {
			break
		}
		path, err := exec.LookPath(words[0])
		if err != nil {
			continue
		}
		cmd := exec.Command(path, words[1:]...)
		less := os.Getenv("SYSTEMD_LESS")
		if less == "" {
			less = "FRSXMK"
		}
		if atEnd {
			less += " +G"
		}
		cmd.Env = append(os.Environ(), "LESS="+less)
		cmd.Stdout, cmd.Stderr = stdout, os.Stderr
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			continue
		}
		out.pager, out.pipe = cmd, pipe
		return nil
	}
	return fmt.Errorf("no pager found")
}

// close waits for the pager to end. It may be called again.
func (out *queryOutput) close() {
	if out.pager == nil {
		return
	}
	_ = out.w.Flush()    // the pager may be gone already
	_ = out.pipe.Close() // its end of input
	_ = out.pager.Wait() // how it ends is the user's choice
	out.pager = nil
}

// chooseColors follows SYSTEMD_COLORS, then NO_COLOR and the kind of terminal.
func chooseColors(tty bool) render.Colors {
	value := os.Getenv("SYSTEMD_COLORS")
	on, err := config.ParseBool(value)
	isBool := err == nil
	switch {
	case value == "16":
		return render.Colors16
	case value == "256":
		return render.Colors256
	case isBool && !on:
		return render.None
	case isBool:
	case !tty || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb":
		return render.None
	}
	if strings.Contains(os.Getenv("TERM"), "256color") || os.Getenv("COLORTERM") != "" || isBool {
		return render.Colors256
	}
	return render.Colors16
}

// utf8Locale reports whether the locale allows for "…". No locale at all does.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}

// helpOfQuery is queryHelp for the name that this process was called by.
func helpOfQuery() string {
	if !calledAsJournalctl() {
		return queryHelp
	}
	text := strings.ReplaceAll(queryHelp, "tidemark query", "journalctl")
	text = strings.Replace(text, "with journalctl's options", "by tidemark in place of systemd's journalctl", 1)
	return strings.Replace(text, "instead of tidemark's own\n", "instead of journald's and tidemark's own\n", 1)
}

const queryHelp = `Show entries of journal files, with journalctl's options.

Examples:
  tidemark query -n 20                       the last 20 entries
  tidemark query -f                          wait for more
  tidemark query -u ssh -p warning -S today  a unit's warnings since midnight
  tidemark query -b -1 -k                    the kernel's, of the boot before
  tidemark query -D DIR -o json _UID=1000 MESSAGE_ID!=0123…

Usage: tidemark query [OPTION]... [FIELD=VALUE | FIELD!=VALUE | PATH | +]...

Source:
  -D, --directory=DIR      Files below DIR instead of tidemark's own
                           (Data= of tidemark.conf or serve's default; root's if you have none)
      --file=FILE          This file; a pattern, repeatable
  -m, --merge              Files of all machines, without lines between boots
      --system             Only the system's files
      --user               Only your own files; with --system both
Filter:
  -S, --since=TIME         "2026-11-30 18:00", 09:30, yesterday, -1h, "2 days ago", @SECONDS
  -U, --until=TIME         Up to and with TIME
  -c, --cursor=CURSOR      From this cursor on
      --after-cursor=CURSOR  Behind it
      --cursor-file=FILE   Behind the cursor in FILE, which is renewed at the end
  -b, --boot[=ID|N]        This boot, the Nth (1 is the oldest), or -N boots before it
  -k, --dmesg              Of the kernel, in this boot
  -u, --unit=UNIT          Of a unit or a pattern of units, repeatable
      --user-unit=UNIT     Of a unit of your own service manager
  -t, --identifier=NAME    Of this syslog identifier, repeatable
  -p, --priority=LEVEL     Of this priority or a worse one, or of a range A..B
      --facility=NAME,...  Of these syslog facilities
  -g, --grep=PATTERN       Whose message matches; lower-case patterns ignore case
      --case-sensitive[=BOOL]  Whether -g minds case, whatever the pattern
Output:
  -o, --output=MODE        How entries are shown; -o help lists the modes
                           (short, short-precise, short-iso, short-iso-precise, short-full,
                           short-monotonic, short-delta, short-unix, with-unit, verbose, cat,
                           json, json-pretty, json-sse, json-seq, export)
      --output-fields=A,B  Only these fields
  -n, --lines[=N|all]      The last N entries
      --no-tail            All entries before those that -f waits for
  -r, --reverse            The newest first
  -f, --follow             Wait for more
      --show-cursor        Print the last entry's cursor at the end
      --utc                Times in UTC
      --no-hostname        Without the host's name
  -a, --all                All fields whole, also unprintable ones
      --no-full            Cut long messages
  -l, --full               Cut none, which is the default
  -q, --quiet              Nothing but entries
  -x, --catalog            No more than without: there is no message catalog
      --no-pager           Without a pager
  -e, --pager-end          The end of this boot first, in the pager
Commands:
  -N, --fields             Names of all fields
  -F, --field=NAME         Values of a field
      --list-boots         Boots with their times
      --header             Headers of the files
      --disk-usage         What the files occupy
      --verify             Check the files for damage
      --sync               Have the daemon write everything to the disk
      --rotate             Have the daemon begin new files
      --flush              Nothing: there is one place for logs
      --relinquish-var     Nothing, for the same reason
  -h, --help               This text
      --version            The build

Ends with 0, or with 1 for any error and for -g without hits. NO_COLOR, and
SYSTEMD_COLORS before it, say whether a terminal gets colours; PAGER and
SYSTEMD_PAGER which pager.
`

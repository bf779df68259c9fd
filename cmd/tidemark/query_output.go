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

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
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
	file, isFile := fileOf(stdout)
	tty := isFile && term.IsTerminal(int(file.Fd()))
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		out.columns = n
	} else if tty {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			out.columns = width
		}
	}
	out.colors = chooseColors(tty)
	paged := a.action == actShow && !a.query.Follow || a.action == actBoots || a.action == actInvocations
	if tty && paged && !a.noPager && term.IsTerminal(int(os.Stderr.Fd())) && !dumbTerminal() {
		out.startPager(file, a.atEnd)
		if out.pipe != nil {
			stdout = out.pipe
		}
	}
	out.w = bufio.NewWriterSize(stdout, outputBuffer)
	return out
}

// startPager begins the pager that journalctl would, if there is one: the user's
// own only when SYSTEMD_PAGERSECURE says whether it is to be trusted.
func (out *queryOutput) startPager(stdout *os.File, atEnd bool) {
	own, set := os.LookupEnv("SYSTEMD_PAGER")
	if !set {
		own, set = os.LookupEnv("PAGER")
	}
	words := strings.Fields(own)
	if set && (len(words) == 0 || words[0] == "cat") {
		return
	}
	secure, said := securePager()
	candidates := [][]string{{"pager"}, {"less"}, {"more"}}
	if secure {
		candidates = candidates[1:2] // the only one that can be secure
	}
	if set && said {
		candidates = append([][]string{words}, candidates...)
	}
	env := pagerEnv(secure, atEnd)
	for _, words := range candidates {
		path, err := exec.LookPath(words[0])
		if err != nil {
			continue
		}
		cmd := exec.Command(path, words[1:]...)
		cmd.Env = env
		cmd.Stdout, cmd.Stderr = stdout, os.Stderr
		pipe, err := cmd.StdinPipe()
		if err == nil && cmd.Start() == nil {
			out.pager, out.pipe = cmd, pipe
			return
		}
	}
}

// securePager reports whether a pager must not write files or start programs,
// and whether the user has said so. Without a word of the user it must not unless
// this process belongs to the session of its own user, which it does not under
// sudo.
func securePager() (secure, said bool) {
	value, said := os.LookupEnv("SYSTEMD_PAGERSECURE")
	if !said {
		uid, ok := sessionOwner()
		return !ok || uid != os.Geteuid(), false
	}
	secure, err := config.ParseBool(value)
	if err != nil {
		_, _ = io.WriteString(os.Stderr, "Unable to parse $SYSTEMD_PAGERSECURE, assuming true: Invalid argument\n")
	}
	return secure || err != nil, true
}

// sessionOwner returns whose session this process is in: user-UID.slice, the last
// slice of its cgroup before anything else.
func sessionOwner() (uid int, ok bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "name=systemd" {
			continue
		}
		slice := ""
		for part := range strings.SplitSeq(strings.TrimPrefix(parts[2], "/"), "/") {
			if !strings.HasSuffix(part, ".slice") {
				break
			}
			slice = part
		}
		digits := strings.TrimSuffix(strings.TrimPrefix(slice, "user-"), ".slice")
		uid, err := strconv.Atoi(digits)
		if err == nil && slice == "user-"+digits+".slice" {
			return uid, true
		}
	}
	return 0, false
}

// pagerEnv is the environment of a pager: less takes its options from there.
func pagerEnv(secure, atEnd bool) []string {
	less, set := os.LookupEnv("SYSTEMD_LESS")
	if !set {
		less = "FRSXMK"
	}
	if atEnd {
		less += " +G"
	}
	env := append(os.Environ(), "LESS="+less)
	charset, set := os.LookupEnv("SYSTEMD_LESSCHARSET")
	if !set && utf8Locale() {
		charset, set = "utf-8", true
	}
	if set {
		env = append(env, "LESSCHARSET="+charset)
	}
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "LESSSECURE=") })
	if secure {
		env = append(env, "LESSSECURE=1")
	}
	return env
}

// dumbTerminal reports whether TERM names a terminal that can only print, or none.
func dumbTerminal() bool {
	name, set := os.LookupEnv("TERM")
	return !set || name == "dumb"
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

// chooseColors follows SYSTEMD_COLORS, then NO_COLOR, even an empty one, and the
// kind of terminal, as journalctl does.
func chooseColors(tty bool) render.Colors {
	value := os.Getenv("SYSTEMD_COLORS")
	on, err := config.ParseBool(value)
	_, none := os.LookupEnv("NO_COLOR")
	switch {
	case value == "16":
		return render.Colors16
	case value == "256":
		return render.Colors256
	case err == nil && !on, err != nil && (none || !tty || dumbTerminal()):
		return render.None
	default:
		return render.Colors256
	}
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

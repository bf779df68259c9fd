package compat

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs a command on a terminal of its own, 100 columns wide, and
// returns what it printed.
func onTerminal(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo terminals: %v", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	// It controls nobody: when the leader of its session ends, the kernel hangs such a
	// terminal up, and what is not read by then is gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with EIO when nobody has the other side
	_ = cmd.Wait()               // the exit code is compared elsewhere
	return out.String()
}

// fakePagers writes programs that say what they were called with, and returns
// the directory to put into PATH.
func fakePagers(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		script := "#!/bin/sh\necho \"" + name + " ($*) LESS=$LESS LESSCHARSET=$LESSCHARSET LESSSECURE=$LESSSECURE\"\ncat\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// terminalCase is an environment and options.
type terminalCase struct {
	env, args string // words
}

func terminalCases() []terminalCase {
	cases := []terminalCase{
		{"", ""},
		{"", "--no-pager"},
		{"", "-e"},
		{"PAGER=", ""},
		{"PAGER=cat", ""},
		{"SYSTEMD_PAGER=", ""},
		{"SYSTEMD_PAGER=cat PAGER=own", ""},
		{"PAGER=own", ""},
		{"SYSTEMD_PAGER=own", ""},
		{"SYSTEMD_PAGERSECURE=0 PAGER=own", ""},
		{"SYSTEMD_PAGERSECURE=1 PAGER=own", ""},
		{"SYSTEMD_PAGERSECURE=1", ""},
		{"SYSTEMD_PAGERSECURE=0", ""},
		{"SYSTEMD_PAGERSECURE=0 SYSTEMD_PAGER=own PAGER=other", ""},
		{"SYSTEMD_PAGERSECURE=0 PAGER=own_-x_y", "-e"},
		{"SYSTEMD_PAGERSECURE=0 PAGER=nowhere", ""},
		{"SYSTEMD_LESS=FRX", ""},
		{"SYSTEMD_LESS=FRX", "-e"},
		{"SYSTEMD_LESS=", ""},
		{"SYSTEMD_LESSCHARSET=latin1", ""},
		{"LC_ALL=C", ""},
		{"LC_ALL=C SYSTEMD_LESSCHARSET=x", ""},
		{"LESS=own LESSSECURE=1", ""},
		{"SYSTEMD_PAGERSECURE=0 LESSSECURE=1", ""},
		{"SUDO_UID=1", ""},
		{"", "-N"},
		{"", "--list-boots"},
		{"", "-F PRIORITY -n 1"},
		{"", "--header -q"},
		{"", "--disk-usage"},
		{"", "-o json -n 1 --output-fields=PRIORITY PRIORITY=99"},
		{"", "-n 1 -q"},
		{"", "-r"},
		{"SYSTEMD_COLORS=1", "-g error --no-pager"},
		{"", "-g error -o cat --no-pager"},
		{"", "-o verbose -n 2 --no-pager"},
		{"", "-o with-unit -n 2 --no-pager"},
		{"", "-o cat -n 8 --no-pager"},
		{"", "-n 3 --no-full --no-pager"},
	}
	for _, term := range []string{"TERM=xterm", "TERM=dumb", "TERM=linux", "TERM=", "-TERM", "TERM=xterm-256color"} {
		for _, colors := range []string{"", "NO_COLOR=1", "NO_COLOR=", "SYSTEMD_COLORS=0", "SYSTEMD_COLORS=1", "SYSTEMD_COLORS=16", "SYSTEMD_COLORS=256", "SYSTEMD_COLORS=x", "SYSTEMD_COLORS=", "SYSTEMD_COLORS=yes NO_COLOR=1", "SYSTEMD_COLORS=auto", "COLORTERM=truecolor", "COLORTERM=24bit", "COLORTERM=x"} {
			cases = append(cases, terminalCase{term + " " + colors, "-n 12 --no-pager"})
		}
		cases = append(cases, terminalCase{term, "-n 2"})
	}
	return cases
}

// testTerminal compares what both print on a terminal, and the pagers that they
// start.
func testTerminal(t *testing.T, bin string) {
	file := filepath.Join(corpusDir(t), "terminal.journal")
	es := ordinary(corpusStart, bootA, 12)
	es[3].fields = append(es[3].fields, "_TRANSPORT=audit")
	writeCorpus(t, file, append(es, ordinary(corpusStart+10_000_000, bootB, 3)...))
	pagers := fakePagers(t, "less", "pager", "more", "own", "other")
	for i, c := range terminalCases() {
		if !full() && i%6 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s", c.env, c.args), func(t *testing.T) {
			env := []string{"PATH=" + pagers + ":" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C.UTF-8", "SYSTEMD_URLIFY=0", "TERM=xterm", "HOME=" + pagers}
			for _, word := range strings.Fields(c.env) {
				word = strings.ReplaceAll(word, "_-x_", " -x ")
				if name, unset := strings.CutPrefix(word, "-"); unset {
					env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
					continue
				}
				env = append(env, word)
			}
			args := append([]string{"--file", file}, strings.Fields(c.args)...)
			want := onTerminal(t, env, "journalctl", args...)
			got := onTerminal(t, env, bin, append([]string{"query"}, args...)...)
			if strings.Contains(c.args, "-N") { // in any order
				want, got = sorted(want), sorted(got)
			}
			if d := diffLines([]byte(got), []byte(want)); d != "" {
				t.Error(d)
			}
		})
	}
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

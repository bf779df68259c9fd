package daemon

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/linelog"
)

// Numbers of the system calls in which a quiet thread waits, on amd64.
const (
	sysRead           = 0
	sysRecvmsg        = 47
	sysFutex          = 202
	sysRestart        = 219 // a futex with a limit, after a tracer has looked
	sysEpollPwait     = 281
	sysAnyOther       = -1
	nearestMillis     = 3_600_000 // timers for an hour from now on: ages of files
	callsInASecond    = 5         // at most 30 in six
	lookEvery         = 20 * time.Millisecond
	noTimeout         = 1<<64 - 1
	argTimeout        = 4 // of both calls, counted from 1 behind the number
	runtimesOwnTimers = 1 // the thread of the runtime that looks after the others
)

// armed tells what in a process is not quite at rest: a thread that does something,
// or one that wakes up by itself within the hour. Empty: nothing is.
func armed(t *testing.T, pid int) string {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	limited := 0
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return "a thread has just ended"
		}
		words := strings.Fields(string(b))
		number, err := strconv.Atoi(words[0])
		if err != nil { // running
			number = sysAnyOther
		}
		timeout := uint64(0)
		if len(words) > argTimeout {
			timeout, _ = strconv.ParseUint(words[argTimeout], 0, 64)
		}
		switch {
		case number == sysRead, number == sysRecvmsg, number == sysFutex && timeout == 0:
		case number == sysRestart, number == sysFutex:
			limited++
		case number == sysEpollPwait && (timeout >= nearestMillis || timeout == noTimeout):
		default:
			return "a thread is in " + strings.TrimSpace(string(b))
		}
	}
	if limited > runtimesOwnTimers {
		return fmt.Sprintf("%d threads wait for a while", limited)
	}
	return ""
}

// untilQuiet waits until a process is at rest.
func untilQuiet(t *testing.T, pid int) {
	t.Helper()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for end := time.Now().Add(hangs); ; <-look.C {
		what := armed(t, pid)
		if what == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never at rest: %s", what)
		}
	}
}

// calls counts the system calls of a process in a while, by name.
func calls(t *testing.T, pid int, while time.Duration) map[string]int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-c", "-o", out, "-p", strconv.Itoa(pid))
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
		cmd.Process.Kill() //nolint:errcheck // Wait tells
		_ = cmd.Wait()
		t.Skipf("strace cannot attach: %q %v", line, err)
	}
	<-time.After(while)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // interrupted: that is its error
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line) // % time, seconds, usecs/call, calls, [errors,] name
		if len(words) < 5 || words[len(words)-1] == "total" {
			continue
		}
		if k, err := strconv.Atoi(words[3]); err == nil {
			n[words[len(words)-1]] = k
		}
	}
	return n
}

// TestIdleDaemon: once everything is written and synced a daemon does nothing at
// all, neither syncs nor looks whether there is something to do, with connections
// open too. What the Go runtime does by itself is a call now and then.
func TestIdleDaemon(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("knows the numbers of system calls on amd64 only")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skipf("needs strace: %v", err)
	}
	p := newPlace(t)
	p.configure(t, "AccessLog="+filepath.Join(t.TempDir(), "access.log")+"\nAccessLogSync=50ms\nSync=50ms\n")
	d := spawn(t, p)
	c, err := control.Dial(t.Context(), filepath.Join(p.Run, "io.systemd.journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	native(t, p, "one", "two")
	post(t, url(d.lines), "appended", `{"message":"three"}`)
	for _, method := range []string{control.MethodRotate, control.MethodStatus, control.MethodSynchronize} {
		if _, err := c.Call(t.Context(), method, nil); err != nil {
			t.Fatal(err)
		}
	}
	native(t, p, "four")
	dir := t.TempDir()
	if err := appendBatch(dialLines(t, p, filepath.Join(dir, "used"), linelog.Options{}), "c", 0); err != nil {
		t.Fatal(err)
	}
	while := time.Second
	if os.Getenv("TIDEMARK_FULL") != "" {
		while = 6 * time.Second
		if err := dialLines(t, p, filepath.Join(dir, "left"), linelog.Options{}).Close(); err != nil { // it has a timer for 5 s
			t.Fatal(err)
		}
	}
	untilQuiet(t, d.Process.Pid)
	got := calls(t, d.Process.Pid, while)
	sum := 0
	for name, n := range got {
		if sum += n; strings.Contains(name, "sync") {
			t.Errorf("%d times %s", n, name)
		}
	}
	if most := callsInASecond * int(while/time.Second); sum > most {
		t.Errorf("%d system calls in %s, want %d at most: %v", sum, while, most, got)
	}
	untilQuiet(t, d.Process.Pid)
}

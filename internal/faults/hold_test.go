package faults

import (
	"bufio"
	"fmt"
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

// syncs are the calls that a sync may be.
var syncs = []string{"fsync", "fdatasync"}

// numbers of the calls that are held, as /proc/PID/syscall has them.
var numbers = map[string]int{
	"fsync": unix.SYS_FSYNC, "fdatasync": unix.SYS_FDATASYNC, "fallocate": unix.SYS_FALLOCATE, "pwrite64": unix.SYS_PWRITE64,
}

// tracer is a strace that is attached to a daemon.
type tracer struct {
	t     testing.TB
	pid   int
	calls []string
	cmd   *exec.Cmd
}

// needStrace skips a test where nothing can be traced.
func needStrace(t testing.TB) {
	t.Helper()
	needTool(t, "strace")
	if out, err := exec.Command("strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
}

// attach has strace tamper with calls of a running daemon, as -e inject wants it,
// until release.
func attach(t testing.TB, d *daemon, calls []string, how string) *tracer {
	t.Helper()
	needStrace(t)
	r, w, err := os.Pipe()
	noError(t, err)
	t.Cleanup(func() { r.Close() }) // not before strace has ended, which tells of each new thread
	list := strings.Join(calls, ",")
	h := &tracer{t: t, pid: d.cmd.Process.Pid, calls: calls}
	h.cmd = exec.Command("strace", "-f", "-p", strconv.Itoa(h.pid), "-o", "/dev/null", "-e", "trace="+list, "-e", "signal=none", "-e", "inject="+list+":"+how)
	h.cmd.Stderr = w
	err = h.cmd.Start()
	w.Close()
	noError(t, err)
	t.Cleanup(h.release)
	said := ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if strings.Contains(lines.Text(), " attached") {
			return h
		}
		said += lines.Text()
	}
	t.Fatalf("strace has not attached: %s", said)
	return nil
}

// hold has each of the calls wait, before it is made, until release.
func hold(t testing.TB, d *daemon, calls ...string) *tracer {
	t.Helper()
	return attach(t, d, calls, "delay_enter=3600000000") // an hour
}

// release lets the daemon go on as it is; what is held goes on.
func (h *tracer) release() {
	h.t.Helper()
	if h.cmd.ProcessState != nil {
		return
	}
	err := h.cmd.Process.Signal(syscall.SIGINT) // it detaches
	if werr := h.cmd.Wait(); err != nil || h.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		h.t.Errorf("strace has not held to the end: %v, %v", err, werr)
	}
}

// held counts the threads of the daemon that are held in one of the calls.
func (h *tracer) held() (n int) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", h.pid))
	noError(h.t, err)
	for _, task := range tasks {
		// A thread that is held is stopped: what it called does not change.
		call, err1 := os.ReadFile(task + "/syscall")
		stat, err2 := os.ReadFile(task + "/stat")
		if err1 != nil || err2 != nil {
			continue // it has ended
		}
		number, _, _ := strings.Cut(string(call), " ")
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "t") && slices.ContainsFunc(h.calls, func(c string) bool { return strconv.Itoa(numbers[c]) == number }) {
			n++
		}
	}
	return n
}

// waitHeld waits until n threads are held.
func (h *tracer) waitHeld(n int) {
	h.t.Helper()
	until(h.t, fmt.Sprintf("%d held calls of %v", n, h.calls), func() bool { return h.held() >= n })
}

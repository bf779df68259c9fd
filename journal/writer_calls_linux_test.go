package journal

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// wTrace runs one test of this binary under strace and returns its system calls,
// each as "THREAD NAME(ARGUMENTS".
func wTrace(t *testing.T, test, calls string) (lines []string, dir string) {
	t.Helper()
	strace := wNeedTool(t, "strace")
	dir = t.TempDir()
	out := filepath.Join(dir, "trace")
	cmd := exec.Command(strace, "-f", "-e", "trace="+calls, "-e", "signal=none", "-o", out, os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "TIDEMARK_TRACED="+dir)
	if msg, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(msg), "ptrace") {
			t.Skipf("strace may not trace here: %s", msg)
		}
		t.Fatalf("%v\n%s", err, msg)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if !strings.Contains(sc.Text(), " resumed>") {
			lines = append(lines, sc.Text())
		}
	}
	return lines, dir
}

// wTracedDir skips unless the test was started by wTrace.
func wTracedDir(t *testing.T) string {
	dir := os.Getenv("TIDEMARK_TRACED")
	if dir == "" {
		t.Skip("only runs under strace, started by another test")
	}
	return dir
}

func TestTracedAppends(t *testing.T) {
	dir := wTracedDir(t)
	w, err := Create(filepath.Join(dir, "a.journal"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newWSteady()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Getppid() // marks the beginning and the end
	for range 3000 {
		if _, _, err := w.Append(t.Context(), s.next()); err != nil {
			t.Fatal(err)
		}
	}
	unix.Getppid()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The thread that appends makes no system call but those by which the runtime
// wakes other threads and gets memory.
func TestAppendMakesNoSystemCall(t *testing.T) {
	lines, _ := wTrace(t, "TestTracedAppends", "all")
	runtimes := []string{"futex", "epoll_pwait", "madvise", "mmap", "munmap", "nanosleep", "sched_yield", "tgkill", "getpid", "rt_sigreturn", "clone", "clone3", "rt_sigprocmask"}
	var thread string
	marks, appends := 0, 0
	for _, l := range lines {
		tid, call, _ := strings.Cut(l, " ")
		call, _, ok := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		case !ok:
		case call == "getppid":
			thread = tid
			marks++
		case marks == 1 && tid == thread:
			appends++
			if !slices.Contains(runtimes, call) {
				t.Errorf("the appending thread calls %s", l)
			}
		}
	}
	if marks != 2 {
		t.Fatalf("%d marks in %d lines of trace", marks, len(lines))
	}
	t.Logf("%d calls of the runtime", appends)
}

func TestTracedLife(t *testing.T) {
	dir := wTracedDir(t)
	path := filepath.Join(dir, "a.journal")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	if _, _, err := w.Append(t.Context(), []entry.Entry{wFields("A=1")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	if w, err = OpenWriter(path, Options{}); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	if err := w.Rename(filepath.Join(dir, "b.journal")); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	unix.Getppid()
}

// wSteps has a test traced and returns the calls that change files, a list for
// each step that ends with a getppid; a run of the same call is one.
func wSteps(t *testing.T, test string) (steps [][]string) {
	t.Helper()
	lines, dir := wTrace(t, test,
		"openat,fsetxattr,fallocate,pwrite64,fsync,fdatasync,ftruncate,rename,renameat,renameat2,close,getppid")
	var step []string
	began := false
	for _, l := range lines {
		_, l, _ = strings.Cut(l, " ")
		l = strings.TrimSpace(l)
		call, args, ok := strings.Cut(l, "(")
		if !ok {
			continue
		}
		if call == "openat" {
			if !strings.Contains(args, dir) {
				continue
			}
			began = true
			if !strings.Contains(args, "O_CLOEXEC") {
				t.Errorf("without CLOEXEC: %s", l)
			}
			if strings.Contains(args, "O_EXCL") {
				call = "open(O_EXCL)"
			}
		}
		switch {
		case !began:
		case call == "getppid":
			steps = append(steps, slices.Compact(step))
			step = nil
		default:
			step = append(step, call)
		}
	}
	return steps
}

// The system calls are those that stand above Create, Close and Archive, in that
// order, every descriptor closed on exec.
func TestWriterSystemCalls(t *testing.T) {
	want := [][]string{
		{"open(O_EXCL)", "fsetxattr", "fallocate", "pwrite64", "fsync", "openat", "fsync", "close"},
		{"pwrite64", "fdatasync"},
		{"fsync", "pwrite64", "fsync", "close"},
		{"openat", "pwrite64", "fdatasync"},
		{"renameat", "openat", "fsync", "close"},
		{"pwrite64", "ftruncate", "fsync", "pwrite64", "fsync", "close"},
	}
	if d := cmp.Diff(want, wSteps(t, "TestTracedLife")); d != "" {
		t.Errorf("system calls of create, append and settle, close, open, rename, archive (-want +got):\n%s", d)
	}
}

func TestTracedPending(t *testing.T) {
	dir := wTracedDir(t)
	path := filepath.Join(dir, "a.journal")
	w, err := Create(path, Options{})
	for i, end := range []func() error{
		func() error { return w.Close() },
		func() error { return w.Archive(t.Context()) },
	} {
		if i > 0 {
			w, err = OpenWriter(path, Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Getppid()
		wHoldIndex(w)
		for range 3 { // the links are pending in any case
			if _, _, err := w.Append(t.Context(), []entry.Entry{wFields("A=1")}); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		unix.Getppid()
	}
}

// What is pending when a file is closed or archived is written and synced before
// anything else is done.
func TestEndsOfPendingSystemCalls(t *testing.T) {
	want := [][]string{
		{"open(O_EXCL)", "fsetxattr", "fallocate", "pwrite64", "fsync", "openat", "fsync", "close"},
		{"pwrite64", "fdatasync", "fsync", "pwrite64", "fsync", "close"},
		{"openat", "pwrite64", "fdatasync"},
		{"pwrite64", "fdatasync", "pwrite64", "ftruncate", "fsync", "pwrite64", "fsync", "close"},
	}
	if d := cmp.Diff(want, wSteps(t, "TestTracedPending")); d != "" {
		t.Errorf("system calls of create, append and close, open, append and archive (-want +got):\n%s", d)
	}
}

package ingest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// has reports whether fields have one with these words.
func has(fields []entry.Field, want string) bool {
	return slices.ContainsFunc(fields, func(f entry.Field) bool { return string(f) == want })
}

// TestSender: a process that has connected gets the fields that a datagram of it
// would have.
func TestSender(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := openFDs(t)
	for range 100 {
		got := in.Sender(int32(os.Getpid()), uid, gid, time.Now())
		for _, want := range []string{
			fmt.Sprintf("_PID=%d", os.Getpid()), fmt.Sprintf("_UID=%d", uid), fmt.Sprintf("_GID=%d", gid),
			"_COMM=" + strings.TrimSpace(string(comm)), "_EXE=" + exe,
		} {
			if !has(got, want) {
				t.Fatalf("%s is not among %q", want, got)
			}
		}
		for _, name := range []string{"_CMDLINE=", "_MACHINE_ID=", "_BOOT_ID=", "_HOSTNAME=", "_RUNTIME_SCOPE="} {
			if !slices.ContainsFunc(got, func(f entry.Field) bool { return strings.HasPrefix(string(f), name) }) {
				t.Fatalf("no %s among %q", name, got)
			}
		}
	}
	if got := openFDs(t); got > before+2 { // the cache's epoll and this process's pidfd
		t.Errorf("%d descriptors more", got-before)
	}
}

// TestSenderIsNobodyElse: what is known is that of the process that has connected,
// or nothing: not that of a younger one with its pid.
func TestSenderIsNobodyElse(t *testing.T) {
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	got := in.Sender(int32(os.Getpid()), 1, 2, time.Now().Add(-24*365*time.Hour))
	if !has(got, fmt.Sprintf("_PID=%d", os.Getpid())) || !has(got, "_UID=1") || !has(got, "_GID=2") ||
		slices.ContainsFunc(got, func(f entry.Field) bool { return strings.HasPrefix(string(f), "_COMM=") }) {
		t.Errorf("of a process that has connected before this one began: %q", got)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, connected := int32(cmd.Process.Pid), time.Now()
	for !has(in.Sender(pid, 0, 0, connected), "_COMM=sleep") { // between fork and exec
		in.callers.close()
		in.callers.closed = false
	}
	cmd.Process.Kill() //nolint:errcheck // Wait tells
	_ = cmd.Wait()
	if got := in.Sender(pid, 0, 0, connected); !has(got, "_COMM=sleep") {
		t.Errorf("its last words have lost the name: %q", got)
	}
	if got := in.Sender(pid, 0, 0, time.Now().Add(time.Second)); has(got, "_COMM=sleep") {
		t.Errorf("a later one with the pid is the dead one: %q", got)
	}
}

// TestSenderAfterClose knows the ids only, and opens nothing.
func TestSenderAfterClose(t *testing.T) {
	before := openFDs(t)
	in, err := Open(testConfig(t), &fakeSink{})
	if err != nil {
		t.Fatal(err)
	}
	in.Sender(int32(os.Getpid()), 0, 0, time.Now())
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if got := in.Sender(int32(os.Getpid()), 5, 6, time.Now()); !has(got, "_UID=5") || !has(got, "_GID=6") {
		t.Errorf("%q", got)
	}
	if got := openFDs(t); got != before {
		t.Errorf("%d descriptors are left open", got-before)
	}
}

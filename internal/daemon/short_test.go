package daemon

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/control"
)

// exhaust has a process find no descriptor any more, until release: its limit is
// then the lowest number that is free.
func exhaust(t *testing.T, pid int) (release func()) {
	t.Helper()
	lowest := 0
	for ; ; lowest++ {
		if _, err := os.Lstat(filepath.Join("/proc", strconv.Itoa(pid), "fd", strconv.Itoa(lowest))); err != nil {
			break
		}
	}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = uint64(lowest)
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestCommandsWithoutDescriptors: a daemon that is out of descriptors answers
// commands all the same. A Synchronize that cannot know what a stream has sent which
// it cannot accept says so, at once.
func TestCommandsWithoutDescriptors(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	native(t, p, "one")
	command(t, p, control.MethodSynchronize)
	release := exhaust(t, d.Process.Pid)
	for range 3 {
		var st control.Status
		if err := json.Unmarshal(command(t, p, control.MethodStatus), &st); err != nil || st.PID != d.Process.Pid {
			t.Errorf("status of %d: %v", st.PID, err)
		}
		native(t, p, "a message")
		command(t, p, control.MethodSynchronize)
		if err := os.Remove(filepath.Join(p.Run, "synced")); err != nil {
			t.Errorf("no stamp: %v", err)
		}
	}
	waiting, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(p.Run, "stdout"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	_, err = control.Call(t.Context(), filepath.Join(p.Run, "io.systemd.journal"), control.MethodSynchronize, nil)
	if _, refused := errors.AsType[*control.Error](err); !refused || err.Error() != "streams wait to be accepted: too many open files" {
		t.Errorf("Synchronize with a stream that waits: %v", err)
	}
	command(t, p, control.MethodRotate)
	release()
	command(t, p, control.MethodSynchronize)
}

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
)

// exhaust has a daemon find no descriptor any more, until release: it may have those
// that it has, and connections take what is free in between.
func exhaust(t *testing.T, p place, pid int) (release func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = highest(t, pid) + 1
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what the daemon had open for a moment may have been counted as taken
		for i := range low.Cur {
			if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, i)); err == nil {
				continue
			}
			c, err := control.Dial(t.Context(), filepath.Join(p.Run, config.ControlSocket))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Call(t.Context(), control.MethodGetInfo, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Error(err)
		}
	}
}

// highest is the highest descriptor of a process, but for those far above that tests
// are given.
func highest(t *testing.T, pid int) (fd uint64) {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		n, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if n < 100 {
			fd = max(fd, n)
		}
	}
	return fd
}

// TestCommandsWithoutDescriptors: a daemon that is out of descriptors answers
// commands all the same. A Synchronize that cannot know what a stream has sent which
// it cannot accept says so, at once.
func TestCommandsWithoutDescriptors(t *testing.T) {
	p := newPlace(t)
	d := spawn(t, p)
	native(t, p, "one")
	command(t, p, control.MethodSynchronize)
	release := exhaust(t, p, d.Process.Pid)
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
	// One that the daemon could accept has taken a descriptor that was open for a
	// moment when the others were taken: then the next one waits.
	var err error
	for tries := 0; err == nil && tries < 100; tries++ {
		var waiting net.Conn
		if waiting, err = net.Dial("unix", filepath.Join(p.Run, "stdout")); err != nil {
			t.Fatal(err)
		}
		defer waiting.Close()
		_, err = control.Call(t.Context(), filepath.Join(p.Run, "io.systemd.journal"), control.MethodSynchronize, nil)
	}
	if _, refused := errors.AsType[*control.Error](err); !refused || err.Error() != "streams wait to be accepted: too many open files" {
		t.Errorf("Synchronize with a stream that waits: %v", err)
	}
	command(t, p, control.MethodRotate)
	release()
	command(t, p, control.MethodSynchronize)
}

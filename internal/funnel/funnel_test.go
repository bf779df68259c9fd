package funnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/slowfs"
	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

func TestMain(m *testing.M) {
	slowfs.Child()
	goleak.VerifyTestMain(m)
}

// open1 opens path with flags; the descriptor is the caller's.
func open1(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// two opens path as a client does.
func two(t *testing.T, path string) (appending, repairing int) {
	t.Helper()
	return open1(t, path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT), open1(t, path, unix.O_RDWR)
}

// join opens path for a client of fu.
func join(t *testing.T, fu *Funnel, user uint32, path string) *Client {
	t.Helper()
	a, b := two(t, path)
	c, err := fu.Open(t.Context(), user, a, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// put appends a line and waits for it.
func put(t *testing.T, c *Client, line string) {
	t.Helper()
	if err := errors.Join(c.Append(t.Context(), []byte(line+"\n")), c.Wait(t.Context(), settle.Appended)); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestRefused: only two descriptors of one regular file, with the flags that an
// append and a repair need, are taken; others are told why, and are closed.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	path, other, pipe := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "pipe")
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	memory := func(seals int) func() int {
		return func() int {
			fd, err := unix.MemfdCreate("m", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
			if err == nil {
				_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND)
			}
			if err == nil {
				_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			}
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	socket := func() int {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fds[1])
		return fds[0]
	}
	file := func(path string, flags int) func() int { return func() int { return open1(t, path, flags) } }
	const appends = unix.O_WRONLY | unix.O_APPEND
	good, fix := file(path, appends), file(path, unix.O_RDWR)
	fu := New(Config{})
	before := descriptors(t)
	tests := []struct {
		name   string
		a, b   func() int
		reason string
	}{
		{"pipe", file(pipe, unix.O_RDWR|unix.O_APPEND), fix, "the first descriptor is of a pipe"},
		{"directory", file(dir, unix.O_RDONLY), fix, "the first descriptor is of a directory"},
		{"socket", good, socket, "the second descriptor is of a socket"},
		{"device", file(os.DevNull, appends), fix, "the first descriptor is of a device"},
		{"O_PATH", file(path, unix.O_PATH), fix, "the first descriptor was opened with O_PATH"},
		{"O_PATH of the second", good, file(path, unix.O_PATH), "the second descriptor was opened with O_PATH"},
		{"read only", file(path, unix.O_RDONLY|unix.O_APPEND), fix, "the first descriptor is for reading only"},
		{"no O_APPEND", file(path, unix.O_WRONLY), fix, "the first descriptor has no O_APPEND"},
		{"both with O_APPEND", good, file(path, unix.O_RDWR|unix.O_APPEND), "the second descriptor has O_APPEND"},
		{"write only", good, file(path, unix.O_WRONLY), "the second descriptor is not for reading and writing"},
		{"in the other order", fix, good, "the first descriptor has no O_APPEND"},
		{"O_DIRECT", file(path, appends|unix.O_DIRECT), fix, "the first descriptor has O_DIRECT"},
		{"two files", good, file(other, unix.O_RDWR), "the descriptors are of two files"},
		{"sealed", memory(unix.F_SEAL_WRITE), nil, "the file is sealed"},
	}
	for _, tt := range tests {
		a := tt.a()
		var b int
		if tt.b != nil {
			b = tt.b()
		} else { // another open file of it, which a sealed one still grants
			b = open1(t, fmt.Sprintf("/proc/self/fd/%d", a), unix.O_RDWR)
		}
		c, err := fu.Open(t.Context(), 1, a, b)
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Refused(), tt.reason) || c != nil {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.reason)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were open, now %d", before, after)
	}
	if st := fu.Stats(); st.Refused != uint64(len(tests)) || st.Files != 0 || st.Clients != 0 {
		t.Errorf("%+v", st)
	}
	if err := fu.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOneWriterPerFile, whatever its names are, and however many clients: each
// one's lines keep their order, and none is lost or torn.
func TestOneWriterPerFile(t *testing.T) {
	dir := t.TempDir()
	names := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	if err := os.WriteFile(names[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Link(names[0], names[1]), os.Symlink(names[0], names[2])); err != nil {
		t.Fatal(err)
	}
	fu := New(Config{})
	const clients, calls = 12, 50
	var all sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(clients)
	for n := range clients {
		c := join(t, fu, uint32(n), names[n%len(names)])
		all.Go(func() {
			ready.Done()
			ready.Wait()
			for k := range calls {
				put(t, c, fmt.Sprintf("%d %d", n, 2*k)+"\n"+fmt.Sprintf("%d %d", n, 2*k+1))
			}
			c.Close()
			c.Close() // does nothing
		})
	}
	ready.Wait()
	if st := fu.Stats(); st.Files != 1 {
		t.Errorf("%d files are open", st.Files)
	}
	all.Wait()
	if st := fu.Stats(); st.Clients != 0 || st.Lines != 2*calls*clients || st.Writes == 0 || st.Writes > st.Lines {
		t.Errorf("%+v", st)
	}
	next := make([]int, clients)
	for line := range strings.Lines(read(t, names[0])) {
		var n, k int
		if _, err := fmt.Sscanf(line, "%d %d\n", &n, &k); err != nil || next[n] != k {
			t.Fatalf("line %q, want number %d of that client (%v)", line, next[n], err)
		}
		next[n]++
	}
	for n, k := range next {
		if k != 2*calls {
			t.Errorf("client %d has %d lines", n, k)
		}
	}
	if err := fu.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestIdleFilesAreClosed after a while, synced, and opened again by who comes; then
// no timer is left.
func TestIdleFilesAreClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	synctest.Test(t, func(t *testing.T) {
		fu := New(Config{})
		c := join(t, fu, 1, path)
		put(t, c, "one")
		time.Sleep(10 * DefaultIdle) // somebody uses it
		again := join(t, fu, 1, path)
		c.Close()
		time.Sleep(10 * DefaultIdle)
		put(t, again, "two")
		again.Close()
		time.Sleep(DefaultIdle - 1)
		third := join(t, fu, 1, path)
		time.Sleep(10 * DefaultIdle)
		if st := fu.Stats(); st.Files != 1 || st.Clients != 1 || st.Unsynced == 0 {
			t.Errorf("while it is used: %+v", st)
		}
		third.Close()
		time.Sleep(DefaultIdle + 1)
		synctest.Wait()
		if st := fu.Stats(); st.Files != 0 || st.Syncs != 1 || st.Unsynced != 0 {
			t.Errorf("after a while: %+v", st)
		}
		last := join(t, fu, 1, path)
		put(t, last, "three")
		if err := fu.Close(t.Context()); err != nil { // the client is still there
			t.Error(err)
		}
		if err := last.Append(t.Context(), []byte("four\n")); err == nil {
			t.Error("a line is taken after Close")
		}
		a, b := two(t, path)
		if _, err := fu.Open(t.Context(), 1, a, b); !errors.Is(err, ErrClosed) {
			t.Errorf("Open after Close: %v", err)
		}
	})
	if got := read(t, path); got != "one\ntwo\nthree\n" {
		t.Errorf("the file has %q", got)
	}
}

// TestFilesAreBounded: one that is idle makes room, one in use does not; a user has
// a share.
func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	path := func(n int) string { return filepath.Join(dir, fmt.Sprint(n)) }
	fu := New(Config{Files: 3, FilesPerUser: 2})
	idle := join(t, fu, 1, path(0))
	put(t, idle, "idle")
	used := join(t, fu, 1, path(1))
	a, b := two(t, path(2))
	if _, err := fu.Open(t.Context(), 1, a, b); !errors.Is(err, ErrFull) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("a third file: %v", err)
	}
	idle.Close()
	join(t, fu, 1, path(2)) // waits until the idle one is closed
	if got := read(t, path(0)); got != "idle\n" {
		t.Errorf("the file that made room has %q", got)
	}
	join(t, fu, 2, path(3))
	a, b = two(t, path(4))
	if _, err := fu.Open(t.Context(), 3, a, b); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth file: %v", err)
	}
	used.Close()
	join(t, fu, 3, path(4))
	if st := fu.Stats(); st.Files != 3 {
		t.Errorf("%+v", st)
	}
	if err := fu.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStuckFile: a file whose disk does not answer delays no other, neither to open
// nor to write nor to close; and Close gives it up when its time is over.
func TestStuckFile(t *testing.T) {
	slow := slowfs.Mount(t, t.TempDir(), slowfs.Options{})
	path := filepath.Join(t.TempDir(), "quick")
	fu := New(Config{})
	stuck := join(t, fu, 1, filepath.Join(slow.Path(), "stuck"))
	late := join(t, fu, 1, filepath.Join(slow.Path(), "stuck"))
	slow.Set(slowfs.Rule{Calls: []slowfs.Call{slowfs.Write}, Hold: true})
	waits := make(chan error, 1)
	go func() {
		waits <- errors.Join(stuck.Append(context.Background(), []byte("held\n")), stuck.Wait(context.Background(), settle.Appended))
	}()
	slow.WaitHeld(slowfs.Write, 1)
	c := join(t, fu, 1, path)
	for range 100 {
		put(t, c, "line")
	}
	c.Close()
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(late.Append(context.Background(), []byte("late\n")), late.Wait(context.Background(), settle.Synced))
	}()
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- fu.Close(ctx) }()
	for bytes.Count([]byte(read(t, path)), []byte("\n")) != 100 || fu.Stats().Files != 1 { // the quick one is closed
	}
	cancel()
	if err := <-closed; err == nil || !strings.Contains(err.Error(), "could not be written and closed in time: 1") {
		t.Errorf("Close = %v", err)
	}
	slow.Set()
	for _, c := range []chan error{waits, done} {
		if err := <-c; err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, linelog.ErrClosed) {
			t.Errorf("after all: %v", err)
		}
	}
	for fu.Stats().Files != 0 {
	}
	if got := read(t, filepath.Join(slow.Path(), "stuck")); !strings.HasPrefix(got, "held\n") {
		t.Errorf("the stuck file has %q", got)
	}
}

// TestOneDescriptor: who passes only the first joins a file that is open, and is told
// else to pass both. What was passed is closed when the client goes, which nobody waits for;
// no descriptor is left.
func TestOneDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	fu := New(Config{Idle: time.Hour})
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	alone := func() (*Client, error) {
		return fu.Open(t.Context(), 1, open1(t, path, unix.O_WRONLY|unix.O_APPEND), -1)
	}
	var refused *RefusedError
	if _, err := alone(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "pass a second descriptor") {
		t.Errorf("not open: %v", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	first := join(t, fu, 0, path)
	put(t, first, "one")
	with := descriptors(t)
	c, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "two")
	if _, err := fu.Open(t.Context(), 1, open1(t, path, unix.O_RDWR), -1); !errors.As(err, &refused) {
		t.Errorf("without O_APPEND: %v", err)
	}
	first.Close()
	put(t, c, "three")
	if after := descriptors(t); after != with+1 {
		t.Errorf("%d descriptors, %d before: what was passed is closed while the client waits for an answer", after, with)
	}
	c.Close()
	if after := descriptors(t); after != with {
		t.Errorf("%d descriptors, %d before", after, with)
	}
	if err := fu.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := read(t, path); got != "one\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
}

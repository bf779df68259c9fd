package slowfs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Child()
	if what := os.Getenv(victimEnv); what != "" {
		victim(what)
	}
	goleak.VerifyTestMain(m)
}

// open opens a file, for the test.
func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// pwrite writes at an offset and expects a count and an error.
func pwrite(t *testing.T, f *os.File, text string, off int64, want int, wantErr error) {
	t.Helper()
	n, err := unix.Pwrite(int(f.Fd()), []byte(text), off)
	if err != wantErr || err == nil && n != want { //nolint:errorlint // an errno as it comes
		t.Fatalf("pwrite of %.20q returned %d, %v, want %d, %v", text, n, err, want, wantErr)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func syncDir(t *testing.T, dir string) {
	t.Helper()
	d, err := os.Open(dir)
	noError(t, err)
	defer d.Close()
	noError(t, d.Sync())
}

func contents(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	noError(t, err)
	return string(b)
}

// mounted tells whether something is mounted at a place.
func mounted(t *testing.T, mnt string) bool {
	t.Helper()
	return strings.Contains(contents(t, "/proc/self/mountinfo"), " "+mnt+" ")
}

// within waits for what must come.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	guard := time.NewTimer(hangGuard)
	defer guard.Stop()
	select {
	case v := <-c:
		return v
	case <-guard.C:
		t.Fatalf("%s: nothing in %v", what, hangGuard)
		panic("unreachable")
	}
}

// calls are one of each kind of call, on a file.
func calls(f *os.File) map[Call]func() error {
	fd := int(f.Fd())
	return map[Call]func() error{
		Write: func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err },
		Fsync: func() error { return unix.Fdatasync(fd) },
		SyncDir: func() error {
			d, err := os.Open(filepath.Dir(f.Name()))
			if err != nil {
				return err
			}
			defer d.Close()
			return unix.Fsync(int(d.Fd()))
		},
		Lock:   func() error { return unix.Flock(fd, unix.LOCK_EX) },
		Unlock: func() error { return unix.Flock(fd, unix.LOCK_UN) },
		Flush: func() error {
			dup, err := unix.Dup(fd)
			if err != nil {
				return err
			}
			return unix.Close(dup)
		},
		Truncate: func() error { return unix.Ftruncate(fd, 1) },
		Allocate: func() error { return unix.Fallocate(fd, 0, 0, 1) },
	}
}

// eio is short for what tests ask for most.
const eio = syscall.EIO

package slowfs

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// hangGuard is how long a test waits for what must come.
const hangGuard = 30 * time.Second

// FS is a file system of a test, served by a process of its own. It may be used
// concurrently; its methods end the test when they fail, so they are for the test's
// own goroutine.
type FS struct {
	t      testing.TB
	mnt    string
	cmd    *exec.Cmd
	client *rpc.Client
	closed bool
}

// Mount mounts dir, which exists and which nobody changes but through the mount,
// at a new directory, until the test ends: then the rules go, before the test's cleanups,
// and afterwards the mount. It skips the test, with a reason, where
// that cannot be. TestMain begins with Child.
func Mount(t testing.TB, dir string, o Options) *FS {
	t.Helper()
	if dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("needs FUSE: %v", err)
	} else if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fusermount(); err != nil && os.Geteuid() != 0 {
		t.Skipf("needs root or fusermount3: %v", err)
	}
	f := &FS{t: t, mnt: t.TempDir()}
	if err := f.start(); err != nil {
		t.Fatalf("start slowfs: %v", err)
	}
	t.Cleanup(f.Close) // the first, so it comes after the test's own, which close files
	// Those wait for what is held, so that is let go before any of them.
	stop := context.AfterFunc(t.Context(), func() { f.client.Go("slowfs.Set", Request{}, new(bool), make(chan *rpc.Call, 1)) })
	t.Cleanup(func() { stop() })
	var refused string
	if err := f.client.Call("slowfs.Start", Request{Dir: dir, Mnt: f.mnt, Options: o}, &refused); err != nil {
		t.Fatalf("start slowfs (does TestMain begin with slowfs.Child?): %v", err)
	}
	if refused != "" {
		t.Skipf("FUSE cannot be mounted here: %s", refused)
	}
	return f
}

// start starts the process. It has a connection to us and ends when that ends.
func (f *FS) start() error {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// Without Child in TestMain it runs no test and ends.
	f.cmd = exec.Command(exe, "-test.run=^$")
	f.cmd.Env = append(os.Environ(), childEnv+"=1")
	if os.Getenv("GORACE") == "" { // under -race it would sleep for a second at its end
		f.cmd.Env = append(f.cmd.Env, "GORACE=atexit_sleep_ms=0")
	}
	f.cmd.Stderr = os.Stderr
	f.cmd.ExtraFiles = []*os.File{theirs}
	// Ctrl-C is for the test; the process unmounts when that has ended.
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	if err := f.cmd.Start(); err != nil {
		return errors.Join(err, conn.Close())
	}
	f.client = rpc.NewClient(conn)
	return nil
}

// Path is the mount point.
func (f *FS) Path() string { return f.mnt }

// call asks the process for something that cannot take long.
func (f *FS) call(method string, r Request, reply any) {
	f.t.Helper()
	guard := time.NewTimer(hangGuard)
	defer guard.Stop()
	select {
	case c := <-f.client.Go("slowfs."+method, r, reply, make(chan *rpc.Call, 1)).Done:
		if c.Error != nil {
			f.t.Fatalf("slowfs %s: %v", method, c.Error)
		}
	case <-guard.C:
		f.t.Fatalf("slowfs %s %s: nothing in %v", method, r.Call, hangGuard)
	}
}

// Set replaces all rules, as Server.Set.
func (f *FS) Set(rules ...Rule) {
	f.t.Helper()
	f.call("Set", Request{Rules: rules}, new(bool))
}

// WaitHeld returns when n calls of a kind are held by rules.
func (f *FS) WaitHeld(c Call, n int) {
	f.t.Helper()
	f.call("Held", Request{Call: c, N: n}, new(bool))
}

// Calls returns how many calls of a kind have come since the mount.
func (f *FS) Calls(c Call) (n int) {
	f.t.Helper()
	f.call("Calls", Request{Call: c}, &n)
	return n
}

// Image writes what a power cut now could leave, as Server.Image.
func (f *FS) Image(seed uint64, out string) {
	f.t.Helper()
	f.call("Image", Request{Seed: seed, Out: out}, new(bool))
}

// Cut cuts the power, as Server.Cut, and ends the file system: what is open in it
// gets errors. The mount point is an empty directory then.
func (f *FS) Cut(seed uint64, out string) {
	f.t.Helper()
	f.call("Image", Request{Seed: seed, Out: out, Cut: true}, new(bool))
	f.Close()
}

// Close unmounts and ends the process, also when calls are held or files open.
// The end of the test does that, too.
func (f *FS) Close() {
	if f.closed {
		return
	}
	f.closed = true
	_ = f.client.Close() // it tells whether the process has ended before
	guard := time.AfterFunc(hangGuard, func() { _ = f.cmd.Process.Kill() })
	defer guard.Stop()
	if err := f.cmd.Wait(); err != nil {
		f.t.Errorf("slowfs ended badly: %v", err)
		if err := unmount(f.mnt); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: it is unmounted
			f.t.Errorf("unmount %s: %v", f.mnt, err)
		}
	}
}

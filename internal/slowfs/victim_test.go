package slowfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// victimEnv says what a process that a test starts is to do: "sync FILE",
// "lock FILE".
const victimEnv = "SLOWFS_VICTIM"

// victim does a call that is held.
func victim(what string) {
	call, name, _ := strings.Cut(what, " ")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err == nil && call == "sync" {
		err = f.Sync()
	} else if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	fmt.Println(call, "returned", err)
	os.Exit(0)
}

// again starts this test binary once more and returns it with what it prints.
func again(t *testing.T, env string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	noError(t, err)
	r, w, err := os.Pipe()
	noError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), env, "GORACE=atexit_sleep_ms=0", "TMPDIR="+t.TempDir()) // what the killed leave
	cmd.Stdout, cmd.Stderr = w, w
	noError(t, cmd.Start())
	w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	})
	return cmd, bufio.NewReader(r)
}

// TestKilledCallerIsLetGo: a process that is killed ends at once, though its
// call is still held, or waits for a lock.
func TestKilledCallerIsLetGo(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	f := open(t, filepath.Join(fs.Path(), "a"))
	noError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	for what, call := range map[string]Call{"sync": Fsync, "lock": Lock} {
		n := fs.Calls(Lock)
		if call == Fsync {
			fs.Set(Rule{Calls: []Call{Fsync}, Hold: true})
		} else {
			fs.Set(Rule{Calls: []Call{Lock}, Hold: true})
		}
		cmd, out := again(t, victimEnv+"="+what+" "+f.Name())
		fs.WaitHeld(call, 1)
		if call == Lock {
			fs.Set() // now it waits for the lock itself
			if fs.Calls(Lock) != n+1 {
				t.Error("the lock was not asked for")
			}
		}
		noError(t, cmd.Process.Kill())
		ended := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(out)
			ended <- string(text)
		}()
		if text := within(t, what, ended); text != "" {
			t.Errorf("%s of the killed process said %q", what, text)
		}
		_ = cmd.Wait()
	}
	noError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	noError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// TestNothingIsLeft: however a test ends, with a call held and a file open, its
// file system is unmounted and the process that served it ends.
func TestNothingIsLeft(t *testing.T) {
	Mount(t, t.TempDir(), Options{}).Close() // skips where nothing can be mounted
	for _, how := range []string{"passes", "fails", "panics", "panics elsewhere", "is killed"} {
		t.Run(how, func(t *testing.T) {
			// The process that serves writes to the same pipe, which so ends
			// when both have ended.
			cmd, out := again(t, endEnv+"="+how, "-test.run=^TestEnding$", "-test.v")
			var mnt string
			for mnt == "" {
				line, err := out.ReadString('\n')
				if err != nil {
					t.Fatalf("no mount: %v", err)
				}
				mnt, _ = strings.CutPrefix(strings.TrimSpace(line), "held at ")
				if !strings.HasPrefix(line, "held at ") {
					mnt = ""
				}
			}
			if how == "is killed" {
				if !mounted(t, mnt) {
					t.Errorf("nothing is mounted at %s", mnt)
				}
				noError(t, cmd.Process.Kill())
			}
			ended := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(out)
				ended <- string(text)
			}()
			text := within(t, "the end of both processes", ended)
			_ = cmd.Wait()
			if mounted(t, mnt) {
				t.Errorf("%s is still mounted\n%s", mnt, text)
			}
			if passed := cmd.ProcessState.Success(); passed != (how == "passes") {
				t.Errorf("the test ended with %v\n%s", cmd.ProcessState, text)
			}
		})
	}
}

// endEnv says how TestEnding ends.
const endEnv = "SLOWFS_END"

// TestEnding is a part of TestNothingIsLeft.
func TestEnding(t *testing.T) {
	how := os.Getenv(endEnv)
	if how == "" {
		t.Skip("a part of TestNothingIsLeft")
	}
	fs := Mount(t, t.TempDir(), Options{Rules: []Rule{{Calls: []Call{Fsync}, Hold: true}}})
	f, err := os.Create(filepath.Join(fs.Path(), "a"))
	noError(t, err)
	done := make(chan error, 1)
	go func() { done <- f.Sync() }()
	t.Cleanup(func() { f.Close() }) // after fs has ended: cleanups run last to first, so this is first
	fs.WaitHeld(Fsync, 1)
	fs.client.Go("slowfs.Held", Request{Call: Fsync, N: 2}, new(bool), nil) // nor does a wait keep the process
	fmt.Printf("\nheld at %s\n", fs.Path())
	switch how {
	case "passes":
		return
	case "fails":
		t.FailNow()
	case "panics":
		panic("in the test")
	case "panics elsewhere":
		go func() { panic("beside the test") }()
	}
	t.Errorf("the held sync returned %v", <-done) // it never does
}

package slowfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestHold: a call of each kind has not returned before it is released.
func TestHold(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	f := open(t, filepath.Join(fs.Path(), "a"))
	for _, kind := range Calls() {
		fs.Set(Rule{Calls: []Call{kind}, Hold: true})
		done := make(chan error, 1)
		go func() { done <- calls(f)[kind]() }()
		fs.WaitHeld(kind, 1)
		select {
		case err := <-done:
			t.Errorf("%s returned %v while it was held", kind, err)
		default:
		}
		fs.Set()
		if err := within(t, "the released call", done); err != nil {
			t.Errorf("%s returned %v", kind, err)
		}
	}
}

// TestDelay: a call of each kind takes as long as the delays say, together.
func TestDelay(t *testing.T) {
	const each = 10 * time.Millisecond
	fs := Mount(t, t.TempDir(), Options{})
	f := open(t, filepath.Join(fs.Path(), "a"))
	for _, kind := range Calls() {
		fs.Set(Rule{Calls: []Call{kind}, Delay: each}, Rule{Delay: each, Match: "nothing"}, Rule{Calls: Calls(), Delay: each})
		begin := time.Now()
		if err := calls(f)[kind](); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if took := time.Since(begin); took < 2*each {
			t.Errorf("%s took %v, less than its delays of 2 × %v", kind, took, each)
		}
	}
}

// TestErr: a call of each kind fails with the error of its rule, others and
// those after the rule do not.
func TestErr(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{PowerCut: true})
	f := open(t, filepath.Join(fs.Path(), "a"))
	for _, kind := range Calls() {
		fs.Set(Rule{Calls: []Call{kind}, Err: eio})
		if err := calls(f)[kind](); !errors.Is(err, eio) {
			t.Errorf("%s returned %v, want %v", kind, err, eio)
		}
		for other, call := range calls(f) {
			if other != kind && call() != nil {
				t.Errorf("%s fails by a rule about %s", other, kind)
			}
		}
		fs.Set()
		if err := calls(f)[kind](); err != nil {
			t.Errorf("%s returned %v without a rule", kind, err)
		}
	}
}

func TestEveryNthWriteIsShortOrFails(t *testing.T) {
	dir := t.TempDir()
	fs := Mount(t, dir, Options{})
	f := open(t, filepath.Join(fs.Path(), "a"))

	fs.Set(Rule{Calls: []Call{Write}, Short: 3, Every: 2})
	pwrite(t, f, "abcdef", 0, 6, nil)
	pwrite(t, f, "ghijkl", 6, 3, nil)
	pwrite(t, f, "mnopqr", 9, 6, nil)
	pwrite(t, f, "stu", 15, 3, nil) // not more than it keeps
	pwrite(t, f, "vwx", 18, 3, nil)
	pwrite(t, f, "yzyz", 21, 3, nil)
	if got, want := contents(t, filepath.Join(dir, "a")), "abcdefghimnopqrstuvwxyzy"; got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}

	fs.Set(Rule{Calls: []Call{Write}, Err: syscall.EDQUOT, Every: 3})
	for i := range 7 {
		want := error(nil)
		if i%3 == 2 {
			want = syscall.EDQUOT
		}
		pwrite(t, f, "A", int64(i), 1, want)
	}
	fs.Set(Rule{Calls: []Call{Write}, Err: eio, Done: true})
	pwrite(t, f, "B", 8, 0, eio)
	if got, want := contents(t, filepath.Join(dir, "a"))[:9], "AAcAAfAhB"; got != want {
		t.Errorf("the file begins %q, want %q: a write that failed is not done, one with Done is", got, want)
	}
}

// TestSpace: what makes files longer fits until the space is used up.
func TestSpace(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	f := open(t, filepath.Join(fs.Path(), "a"))
	pwrite(t, f, "0123456789", 0, 10, nil)

	fs.Set(Rule{Calls: []Call{Write, Allocate}, Space: 10})
	pwrite(t, f, "0123456789", 0, 10, nil)  // inside
	pwrite(t, f, "0123456789", 6, 10, nil)  // 6 bytes longer
	pwrite(t, f, "0123456789", 12, 8, nil)  // 4 inside, 4 more, 2 too many
	pwrite(t, f, "0", 20, 0, unix.ENOSPC)   // nothing is left
	pwrite(t, f, "0123456789", 10, 10, nil) // inside
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 21); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("allocate returned %v, want %v", err, unix.ENOSPC)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 20); err != nil {
		t.Error(err)
	}
	fs.Set()
	pwrite(t, f, "0", 20, 1, nil)
}

// TestMatch: a rule with a pattern is about files of that name.
func TestMatch(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{Rules: []Rule{{Calls: []Call{Fsync}, Match: "*.journal", Err: eio}}})
	if err := open(t, filepath.Join(fs.Path(), "system.journal")).Sync(); !errors.Is(err, eio) {
		t.Errorf("a sync of system.journal returned %v, want %v", err, eio)
	}
	if err := open(t, filepath.Join(fs.Path(), "access.log")).Sync(); err != nil {
		t.Errorf("a sync of access.log returned %v", err)
	}
	if n := fs.Calls(Fsync); n != 2 {
		t.Errorf("counted %d syncs, want 2", n)
	}
}

// TestDirty: a rule with Dirty is about calls on a file that somebody has written to
// since the last call that writes back, and that descriptor must be one for writing.
func TestDirty(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	name := filepath.Join(fs.Path(), "a")
	one, two := open(t, name), open(t, name)
	reader, err := os.Open(name)
	noError(t, err)
	defer reader.Close()
	fails := Rule{Calls: []Call{Flush, Unlock, Fsync}, Dirty: true, Err: eio}
	fs.Set(fails)
	for _, kind := range fails.Calls {
		if err := calls(two)[kind](); err != nil {
			t.Errorf("%s of a file that nobody has written to: %v", kind, err)
		}
		pwrite(t, one, "x", 0, 1, nil)
		if err := calls(two)[kind](); !errors.Is(err, eio) {
			t.Errorf("%s after a write of another: %v, want %v", kind, err, eio)
		}
		if err := calls(reader)[Flush](); err != nil {
			t.Errorf("close of who only reads: %v", err)
		}
		fs.Set() // the call that failed has written nothing back
		noError(t, calls(one)[kind]())
		fs.Set(fails)
		if err := calls(two)[kind](); err != nil {
			t.Errorf("%s after another has written back: %v", kind, err)
		}
	}
}

// TestLocks: locks hold between two that have opened a file, and end with them.
func TestLocks(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	name := filepath.Join(fs.Path(), "a")
	one, two := open(t, name), open(t, name)
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	for what, try := range map[string]func(fd int) error{
		"flock": func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) },
		"fcntl": func(fd int) error { lk := whole; return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk) },
	} {
		if err := try(int(one.Fd())); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := try(int(two.Fd())); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("a second %s returned %v, want %v", what, err, unix.EAGAIN)
		}
	}
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(two.Fd()), unix.LOCK_EX) }()
	noError(t, unix.Flock(int(one.Fd()), unix.LOCK_UN))
	noError(t, within(t, "the lock", got))
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]Rule{
		"fsync,syncdir delay=100ms":      {Calls: []Call{Fsync, SyncDir}, Delay: 100 * time.Millisecond},
		"all hold match=*.log":           {Hold: true, Match: "*.log"},
		"fsync err=EIO done every=3":     {Calls: []Call{Fsync}, Err: eio, Done: true, Every: 3},
		"flush dirty delay=1ms":          {Calls: []Call{Flush}, Dirty: true, Delay: time.Millisecond},
		"write short=7 every=2":          {Calls: []Call{Write}, Short: 7, Every: 2},
		"write,allocate  space=1048576 ": {Calls: []Call{Write, Allocate}, Space: 1 << 20},
	} {
		got, err := ParseRule(text)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", text, d)
		}
	}
	for text, want := range map[string]string{
		"fsync":                   "want calls and what happens",
		"sync delay=1s":           `no call is named "sync"`,
		"fsync delay=1":           "missing unit",
		"fsync err=EOOPS":         "no such error",
		"write short=-1":          "negative",
		"write short=3 err=EIO":   "a rule each",
		"fsync done":              "done goes with err",
		"fsync every=3 delay=1s":  "every goes with",
		"fsync match=[ delay=1s":  "syntax error in pattern",
		"fsync later=1s delay=1s": "no such word",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

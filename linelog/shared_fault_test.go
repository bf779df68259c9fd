package linelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// TestSharedFaultLoop lets each call fail in turn, in each way, over what two writers of
// one log do: open, append, sync, reopen, close; without a lock and with one.
func TestSharedFaultLoop(t *testing.T) {
	for _, l := range []Lock{LockAuto, LockFcntl} {
		for _, kind := range []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short} {
			t.Run(fmt.Sprintf("%s/%d", l, kind), func(t *testing.T) {
				n, done := 1, false
				for ; !done; n++ {
					ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { done = sharedFaultRun(t, l, kind, n) })
					})
					if !ok {
						return
					}
				}
				if n < 20 {
					t.Errorf("only %d calls", n)
				}
			})
		}
	}
}

// pair is two writers of a log, and what they were told.
type pair struct {
	t    *testing.T
	fs   *crashfs.FS
	w    [2]*Writer
	h    *history
	next int
}

// write appends lines, by both in turn, and waits for them.
func (p *pair) write(count int) {
	type call struct {
		w     *Writer
		pos   Pos
		lines []string
	}
	var calls []call
	for i := range count {
		var lines []string
		for range 1 + p.next%3 {
			lines = append(lines, fmt.Sprintf("%04d %s", p.next, strings.Repeat("x", p.next*7%90)))
			p.next++
		}
		w := p.w[i%2]
		pos, err := w.Append(context.Background(), []byte(strings.Join(lines, "\n")))
		if err != nil {
			p.t.Errorf("Append: %v", err)
		}
		p.h.accepted = append(p.h.accepted, lines...)
		calls = append(calls, call{w, pos, lines})
	}
	for _, c := range calls {
		switch err := c.w.Wait(context.Background(), c.pos, settle.Synced); {
		case err == nil:
			for _, line := range c.lines {
				p.h.synced[line] = true
			}
		case !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) && !errors.Is(err, ErrLock):
			p.t.Errorf("Wait: %v", err)
		}
	}
	p.h.powerCuts(p.t, p.fs)
}

// sharedFaultRun does everything once, with call n failing, and tells whether there was
// no such call.
func sharedFaultRun(t *testing.T, l Lock, kind crashfs.Kind, n int) (none bool) {
	p := &pair{t: t, fs: crashfs.New(uint64(n)), h: &history{synced: map[string]bool{}}}
	if err := p.fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	seed("torn")(p.fs)
	calls := p.fs.Calls()
	p.fs.FailAt(n, kind, syscall.EIO)
	for i := range p.w {
		var err error
		if p.w[i], err = Open(logPath, Options{FS: p.fs, Shared: true, Lock: l, Buffer: 256, Window: 5 * time.Millisecond}); err != nil {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("Open: %v", err)
			}
			if i > 0 {
				p.w[0].Close() // nothing was written
			}
			return false
		}
	}
	p.write(3)
	p.write(20)
	time.Sleep(20 * time.Millisecond)
	renamed := p.fs.Rename(logPath, logPath+".1")
	for _, w := range p.w {
		if err := w.Reopen(); err != nil && renamed == nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("Reopen: %v", err)
		}
	}
	p.write(10)
	all := true
	for _, w := range p.w {
		if err := w.Close(); err != nil {
			all = false
			if !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) && !errors.Is(err, ErrLock) {
				t.Errorf("Close: %v", err)
			}
		}
	}
	none = p.fs.Calls() < calls+n
	if _, err := Repair(logPath, Options{FS: p.fs}); err != nil && !errors.Is(err, syscall.EIO) {
		t.Errorf("Repair: %v", err)
	}
	p.h.powerCuts(t, p.fs)
	p.checkAll(all, kind)
	return none
}

// checkAll holds the files against what was accepted. A write that was done and yet has
// failed may leave lines twice.
func (p *pair) checkAll(all bool, kind crashfs.Kind) {
	p.t.Helper()
	again := p.w[0].Stats().Again + p.w[1].Stats().Again
	files := contents(p.t, p.fs)
	count := map[string]int{}
	for name, lines := range files {
		for _, line := range lines {
			if count[line]++; count[line] > 1 && kind != crashfs.DoneButFailed && again == 0 {
				p.t.Errorf("%s has %.40q twice", name, line)
			}
		}
	}
	for _, line := range p.h.accepted {
		if (all || p.h.synced[line]) && count[line] == 0 {
			p.t.Errorf("%.40q is lost (synced: %v)", line, p.h.synced[line])
		}
		delete(count, line)
	}
	if kind == crashfs.DoneButFailed {
		// Its mark depends on the write that came behind it: if that is done, says it is
		// not, and another comes behind, nobody knows.
		delete(count, "torn")
	}
	for line := range count {
		p.t.Errorf("a line that nobody wrote: %.80q", line)
	}
}

// TestSharedCrashAtEachCall kills two writers in call 1, 2, 3 …: what was acknowledged
// is there, and once another has written no line is torn.
func TestSharedCrashAtEachCall(t *testing.T) {
	for _, l := range []Lock{LockAuto, LockFlock} {
		n, done := 1, false
		for ; !done; n++ {
			synctest.Test(t, func(t *testing.T) { done = sharedCrashRun(t, l, n) })
			if t.Failed() {
				t.Fatalf("lock %s, call %d", l, n)
			}
		}
		if n < 15 {
			t.Errorf("only %d calls", n)
		}
	}
}

// sharedCrashRun tells whether there was no call n.
func sharedCrashRun(t *testing.T, l Lock, n int) (none bool) {
	p := &pair{fs: crashfs.New(uint64(n)), h: &history{synced: map[string]bool{}}}
	if err := p.fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{FS: p.fs, Shared: true, Lock: l, Buffer: 3 * 4096}
	p.fs.StopAt(n)
	for i := range p.w {
		var err error
		if p.w[i], err = Open(logPath, o); err != nil {
			if i > 0 {
				p.w[0].Close() // it is dead
			}
			return false
		}
	}
	appended := map[string]bool{}
	for i := range 6 {
		var call []string
		for j := range 1 + 40*(i/2%2) {
			call = append(call, fmt.Sprintf("%d/%d %s", i, j, strings.Repeat("k", 200)))
		}
		p.h.accepted = append(p.h.accepted, call...)
		w := p.w[i%2]
		pos, err := w.Append(context.Background(), []byte(strings.Join(call, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if w.Wait(context.Background(), pos, settle.Appended) == nil {
			for _, line := range call {
				appended[line] = true
			}
		}
	}
	none = p.fs.Calls() < n
	for _, w := range p.w {
		w.Close() // it is dead
	}
	fs := p.fs.Survivors()
	o.FS = fs
	w, err := Open(logPath, o)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(w, "next")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h := &history{append(p.h.accepted, "next"), appended}
	h.synced["next"] = true
	h.check(t, contents(t, fs), 0, false)
	return none
}

package linelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// contents are the lines of each log file, by name, without the writer's own marks
// and notices.
func contents(t *testing.T, fs *crashfs.FS) map[string][]string {
	t.Helper()
	entries, err := fs.ReadDir("/var/log")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	for _, e := range entries {
		b := unpacked(t, e.Name(), fs.Bytes("/var/log/"+e.Name()))
		if len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("%s ends in the middle of a line: %.60q", e.Name(), b[bytes.LastIndexByte(b, '\n')+1:])
		}
		lines := []string{}
		for line := range strings.Lines(string(b)) {
			if line != "\n" && !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSuffix(line, "\n"))
			}
		}
		files[e.Name()] = lines
	}
	return files
}

// history is what a test has done to a log, to be held against what is there.
type history struct {
	accepted []string
	synced   map[string]bool // lines whose sync was acknowledged
}

// check holds files against h: each line there is whole and was accepted; each that
// was acknowledged, or with all each accepted, is there; none is twice in a file, nor
// in two files, but for what again counts: taken over from a file whose sync failed.
func (h *history) check(t *testing.T, files map[string][]string, again uint64, all bool) {
	t.Helper()
	count := map[string]int{}
	twice := uint64(0)
	for name, lines := range files {
		here := map[string]bool{}
		for _, line := range lines {
			if !slices.Contains(h.accepted, line) {
				t.Errorf("%s has a line that nobody wrote: %.80q", name, line)
			}
			if here[line] {
				t.Errorf("%s has %.40q twice", name, line)
			}
			here[line] = true
			if count[line]++; count[line] > 1 {
				twice++
			}
		}
	}
	if twice > again {
		t.Errorf("%d lines are in two files, and %d were taken over", twice, again)
	}
	for _, line := range h.accepted {
		if (all || h.synced[line]) && count[line] == 0 {
			t.Errorf("%.40q is lost (synced: %v)", line, h.synced[line])
		}
	}
}

// powerCuts holds what power cuts now could leave against what was acknowledged.
func (h *history) powerCuts(t *testing.T, fs *crashfs.FS) {
	t.Helper()
	for seed := range uint64(6) {
		lines := map[string]bool{}
		clone := fs.PowerCut(seed)
		entries, err := clone.ReadDir("/var/log")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".part") {
				continue
			}
			for line := range strings.Lines(string(unpacked(t, e.Name(), clone.Bytes("/var/log/"+e.Name())))) {
				lines[strings.TrimSuffix(line, "\n")] = true
			}
		}
		for line := range h.synced {
			if !lines[line] {
				t.Errorf("power cut %d: %.40q was acknowledged as synced and is lost", seed, line)
			}
		}
	}
}

// TestFaultLoop lets each call fail in turn, in each way, over open, append, sync,
// reopen and close.
func TestFaultLoop(t *testing.T) {
	for _, policy := range []settle.Policy{settle.Auto(), settle.All(), settle.Every(50 * time.Millisecond)} {
		for _, kind := range []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short} {
			t.Run(fmt.Sprintf("%s/%d", policy, kind), func(t *testing.T) {
				n, done := 1, false
				for ; !done; n++ {
					ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { done = faultRun(t, policy, kind, n) })
					})
					if !ok {
						return
					}
				}
				if n < 10 {
					t.Errorf("only %d calls", n)
				}
			})
		}
	}
}

// faultRun does everything once, with call n failing, and tells whether there was no
// such call.
func faultRun(t *testing.T, policy settle.Policy, kind crashfs.Kind, n int) (none bool) {
	fs := crashfs.New(uint64(n))
	if err := fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	seed("torn")(fs)
	calls := fs.Calls()
	fs.FailAt(n, kind, syscall.EIO)
	h := &history{accepted: []string{"torn"}, synced: map[string]bool{}}
	w, err := Open(logPath, Options{FS: fs, Sync: policy, Buffer: 256, Keep: 300, Window: 5 * time.Millisecond})
	if err != nil {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("Open: %v", err)
		}
		return false
	}
	write := func(count int) {
		var last Pos
		before := len(h.accepted)
		for range count {
			line := fmt.Sprintf("%04d %s", len(h.accepted), strings.Repeat("x", len(h.accepted)*7%90))
			if last, err = w.Append(context.Background(), []byte(line)); err != nil {
				t.Errorf("Append: %v", err)
			}
			h.accepted = append(h.accepted, line)
		}
		if err := w.Wait(context.Background(), last, settle.Synced); err == nil {
			for _, line := range h.accepted[before:] {
				h.synced[line] = true
			}
		} else if !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("Wait: %v", err)
		}
		h.powerCuts(t, fs)
	}
	write(3)
	write(20)
	time.Sleep(20 * time.Millisecond)
	renamed := fs.Rename(logPath, logPath+".1")
	if err := w.Reopen(); err != nil && renamed == nil && !errors.Is(err, syscall.EIO) {
		t.Errorf("Reopen: %v", err)
	}
	write(1)
	write(20)
	if err := w.Close(); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close: %v", err)
	} else if err == nil {
		for _, line := range h.accepted[1:] {
			h.synced[line] = true
		}
	}
	h.powerCuts(t, fs)
	h.accepted = h.accepted[1:] // the torn tail is marked
	h.check(t, contents(t, fs), w.Stats().Again, err == nil)
	return fs.Calls() < calls+n
}

// An ack never comes before its sync, whoever else waits: each sync is held until it
// is seen that nobody was answered.
func TestNoAckBeforeItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Sync: settle.All()}, nil)
		gate := make(chan struct{})
		var syncing atomic.Int32
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				syncing.Add(1)
				<-gate
			}
			return nil
		})
		h := &history{synced: map[string]bool{}}
		answers := make(chan string, 100)
		for round := range 4 {
			for i := range 5 {
				line := fmt.Sprintf("round %d caller %d", round, i)
				h.accepted = append(h.accepted, line)
				pos := r.append1(line)
				go func() {
					if err := r.Wait(context.Background(), pos, settle.Synced); err != nil {
						t.Error(err)
					}
					answers <- line
				}()
				synctest.Wait() // the first begins a sync, the others come during it
			}
			if n := len(answers); n != 0 {
				t.Fatalf("round %d: %d answers before the sync has ended", round, n)
			}
			gate <- struct{}{} // it covers the first caller, perhaps more
			synctest.Wait()
			if n := len(answers); n != 1 {
				t.Fatalf("round %d: %d answers after the first sync, want that of the first caller", round, n)
			}
			gate <- struct{}{}
			synctest.Wait()
			if n := len(answers); n != 5 {
				t.Fatalf("round %d: %d answers after the second sync, want 5", round, n)
			}
			for range 5 {
				h.synced[<-answers] = true
			}
			h.powerCuts(t, r.fs)
		}
		if n := syncing.Load(); n != 8 {
			t.Errorf("%d syncs for 4 rounds of a first caller and four more, want 8", n)
		}
		close(gate)
		r.close()
	})
}

// A full disk keeps the lines, and takes them when there is space, whole and once.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Buffer: 1000}, nil)
		r.put("first\n")
		r.appended()
		r.fs.SetSpace(8192) // two pages more
		h := &history{accepted: []string{"first"}}
		for i := range 400 {
			line := fmt.Sprintf("%04d %s", i, strings.Repeat("x", i%100))
			h.accepted = append(h.accepted, line)
			r.put(line + "\n")
		}
		err := r.Wait(context.Background(), r.Pos(), settle.Appended)
		if errors.Is(err, io.ErrShortWrite) { // it ended within the first line of a write: the next attempt tells
			err = r.Wait(context.Background(), r.Pos(), settle.Appended)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Wait on a full disk: %v", err)
		}
		st := r.Stats()
		if st.Buffered == 0 || st.WriteErrors == 0 || !errors.Is(st.Err, syscall.ENOSPC) {
			t.Errorf("%+v", st)
		}
		h.check(t, contents(t, r.fs), 0, false) // whole lines and marks only
		if !strings.Contains(r.words(), "lines wait in memory") {
			t.Errorf("said: %s", r.words())
		}
		time.Sleep(10 * time.Second)
		r.fs.SetSpace(-1)
		time.Sleep(10 * DefaultWindow * 100) // the longest back-off is 1 s
		synctest.Wait()
		if st := r.Stats(); st.Buffered != 0 || st.Err != nil {
			t.Errorf("with space again: %+v", st)
		}
		if n := strings.Count(r.words(), "\n"); n != 1 || !strings.Contains(r.words(), "work again") {
			t.Errorf("said: %s", r.words())
		}
		files := contents(t, r.fs)
		h.check(t, files, 0, true)
		if got := files["access.log"]; !slices.Equal(got, h.accepted) {
			t.Errorf("%d lines, out of order?", len(got))
		}
		r.close()
	})
}

// Every 7th write keeps one byte: what is torn is marked, no line is lost.
func TestShortWrites(t *testing.T) {
	for _, torn := range []Torn{Comment, Spaces} {
		t.Run(fmt.Sprint(torn), func(t *testing.T) {
			r := newRig(t, Options{Window: -1, Torn: torn}, nil)
			want := map[string]int{}
			for i := range 300 {
				if i%3 == 0 {
					r.fs.FailAt(1, crashfs.Short, syscall.EIO)
				}
				line := fmt.Sprintf("%d %s\n", i, strings.Repeat("y", i%50))
				want[line]++
				pos := r.append1(line)
				for r.Wait(context.Background(), pos, settle.Appended) != nil {
					if b := r.fs.Bytes(logPath); len(b) > 0 && b[len(b)-1] != '\n' {
						t.Errorf("after a short write the log ends in %q", b[bytes.LastIndexByte(b, '\n')+1:])
					}
				}
			}
			r.close()
			got := map[string]int{}
			for line := range strings.Lines(string(r.fs.Bytes(logPath))) {
				if text := strings.Trim(line, " \n"); text != "" && text[0] != '#' {
					got[line]++
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%d lines, want %d", len(got), len(want))
			}
			if st := r.Stats(); st.ShortWrites == 0 || st.Lost+st.Dropped != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

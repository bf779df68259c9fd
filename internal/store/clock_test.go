package store

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

const second = uint64(time.Second / time.Microsecond)

// setClock is a clock that a test sets.
type setClock struct {
	mu               sync.Mutex
	realtime, uptime uint64
}

func (c *setClock) now() (uint64, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.realtime, c.uptime
}

// pass lets d µs pass, with a step of the realtime clock.
func (c *setClock) pass(d uint64, step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uptime += d
	c.realtime = uint64(int64(c.realtime+d) + step)
}

func TestClockSteps(t *testing.T) {
	dir := t.TempDir()
	clock := &setClock{realtime: 1000 * second, uptime: 100 * second}
	cfg := testConfig(dir, nil)
	cfg.Clock = clock.now
	s := open(t, cfg)
	put := func(text string) {
		t.Helper()
		if _, err := s.Append(t.Context(), []entry.Entry{line(0, text)}); err != nil {
			t.Fatal(err)
		}
		// A rotation has its next file again.
		if err := s.await(t.Context(), func() error {
			s.queueMu.Lock()
			defer s.queueMu.Unlock()
			if s.spares.len() == 0 || len(s.retired) > 0 {
				return errNoFile
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		text string
		pass uint64
		step int64
		want uint64 // realtime of the entry, in s
		file int    // how many files there are then
	}{
		{"start", 0, 0, 1000, 1},
		{"a second later", second, 0, 1001, 1},
		{"5 s back: bridged", second, -5 * int64(second), 1001, 1},
		{"still behind", second, 0, 1001, 1},
		{"caught up", 5 * second, 0, 1003, 1},
		{"20 s back: a new file", second, -20 * int64(second), 984, 2},
		{"20 s back within the minute: bridged", 30 * second, -50 * int64(second), 984, 2},
		{"when the minute is over: a new file", 30 * second, -30 * int64(second), 964, 3},
		{"forward", second, 1000 * int64(second), 1965, 3},
	}
	var want []uint64
	for _, st := range steps {
		clock.pass(st.pass, st.step)
		put(st.text)
		want = append(want, st.want*second)
		if got := int(s.counts.rotations.Load()) + 1; got != st.file {
			t.Errorf("%s: %d files, want %d", st.text, got, st.file)
		}
	}
	if n := s.Status().ClockSteps; n != 2 {
		t.Errorf("%d steps counted, want the 2 that were bridged", n)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, dir)
	j, err := journal.OpenDir(filepath.Join(dir, testMachine.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var got []uint64
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if transport, _ := e.Get("_TRANSPORT"); string(transport) != "driver" {
			got = append(got, e.Realtime)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("realtimes (-want +got):\n%s", diff)
	}
	reason := "the clock went back by 19s"
	if own := storedIn(t, dir, true, "system"); !strings.Contains(strings.Join(own, "\n"), reason) {
		t.Errorf("no entry tells that %s: %q", reason, own)
	}
}

// TestFileFromTheFuture starts on a file whose last entry is later than the
// clock.
func TestFileFromTheFuture(t *testing.T) {
	for _, tt := range []struct {
		name  string
		back  int64
		files int
	}{{"a little", 5, 1}, {"much", 5000, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			clock := &setClock{realtime: 10_000 * second, uptime: 100 * second}
			cfg := testConfig(dir, nil)
			cfg.Clock = clock.now
			s := open(t, cfg)
			appendNumbered(t, s, 0, 3)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.pass(0, -tt.back*int64(second))
			s = open(t, cfg)
			appendNumbered(t, s, 3, 6)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if files := verifyAll(t, dir); len(files) != tt.files {
				t.Errorf("files %v, want %d", files, tt.files)
			}
			if diff := cmp.Diff(numbered(0, 6), storedIn(t, dir, false, "system")); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := testConfig(dir, nil)
		cfg.Split = true
		cfg.Limits.MaxFileAge = 24 * time.Hour
		cfg.Limits.MaxRetention = 72 * time.Hour
		s := open(t, cfg)
		archived := func() int {
			synctest.Wait()
			n := 0
			for _, name := range names(t, s.dir) {
				if strings.HasPrefix(name, "system@") {
					n++
				}
			}
			return n
		}
		appendNumbered(t, s, 0, 3)
		if _, err := s.Append(t.Context(), []entry.Entry{line(1000, "user")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		isOpen := func() bool {
			sl := s.slotOf(1000)
			sl.mu.Lock()
			defer sl.mu.Unlock()
			return sl.f != nil
		}
		if !isOpen() {
			t.Error("the user's file is not open")
		}
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if isOpen() {
			t.Error("the user's idle file is still open")
		}
		time.Sleep(22 * time.Hour)
		if n := archived(); n != 0 {
			t.Errorf("%d files archived before their day", n)
		}
		time.Sleep(time.Hour)
		if n := archived(); n != 1 {
			t.Errorf("%d files archived after a day, want 1", n)
		}
		// The entry that tells of the rotation ages too.
		time.Sleep(47 * time.Hour)
		if n := archived(); n < 2 {
			t.Errorf("%d files archived after almost three days", n)
		}
		first := storedIn(t, dir, false, "system")
		if diff := cmp.Diff(numbered(0, 3), first); diff != "" {
			t.Errorf("entries before their time (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if late := storedIn(t, dir, false, "system"); len(late) != 0 {
			t.Errorf("entries after their time: %q", late)
		}
		if late := storedIn(t, dir, false, "user"); len(late) != 0 {
			t.Errorf("user's entries after their time: %q", late)
		}
		if _, err := s.Append(t.Context(), []entry.Entry{line(1000, "again")}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"again"}, storedIn(t, dir, false, "user")); diff != "" {
			t.Errorf("user's entries (-want +got):\n%s", diff)
		}
	})
}

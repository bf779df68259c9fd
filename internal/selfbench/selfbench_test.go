package selfbench

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/sockdir"
	"github.com/tidemark-log/tidemark/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is a run that takes no time worth naming.
func tiny(t *testing.T, out *strings.Builder) Options {
	t.Helper()
	return Options{Dir: sockdir.New(t), Duration: 3 * time.Millisecond, Rounds: 2, Delay: time.Microsecond, Out: out}
}

// empty tells whether a run has left nothing.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestSync(t *testing.T) {
	var out strings.Builder
	o := SyncOptions{tiny(t, &out), []int{1, 5}}
	o.Rounds = 1
	var steps []string
	o.Progress = func(step, total int, what string) {
		if step != len(steps)+1 || total != 12 {
			t.Errorf("step %d of %d after %d steps, want 12 in all", step, total, len(steps))
		}
		steps = append(steps, what)
	}
	rows, err := Sync(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2*len(syncWays) || len(steps) != 12 {
		t.Errorf("%d rows, %d steps", len(rows), len(steps))
	}
	for i, r := range rows {
		none := i%perKind == 0
		if r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
			t.Errorf("%+v", r)
		}
		if none && (r.OfNone != 1 || r.PerSync != 0) || i%perKind == 1 && (r.ToEach != 1 || r.PerSync != 1) || !none && r.PerSync < 1 {
			t.Errorf("%+v: the ratio of a way to itself is 1; one without a sync has none, one that syncs each has one each", r)
		}
	}
	for _, want := range []string{"1 caller ", "5 callers ", "journal: one sync for all who wait", "no syncs", ", every sync 1µs slower; 1 round of 3ms each\n", "all of them are in their files"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
	empty(t, o.Dir)
}

// TestAppend has each way on the files of this host, and on the model of another's.
func TestAppend(t *testing.T) {
	for _, delay := range []time.Duration{0, 36 * time.Microsecond} {
		var out strings.Builder
		o := AppendOptions{tiny(t, &out), []int{1, 3}}
		o.Rounds, o.Delay = 1, delay
		rows, err := Append(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2*len(appendWays) {
			t.Errorf("%d rows", len(rows))
		}
		for i, r := range rows {
			if r.Rate <= 0 || r.ToNone <= 0 || i%len(appendWays) == 0 && r.ToNone != 1 {
				t.Errorf("%+v", r)
			}
		}
		want := []string{"1 process ", "3 processes at a time ", "lock for each line ", "through one process (funnel) ", "all of them are in their logs"}
		if delay > 0 {
			want = append(want, ", as on NFS with a COMMIT of 36µs; 1 round of 3ms each\n")
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is not printed:\n%s", text, out.String())
			}
		}
		empty(t, o.Dir)
	}
}

// TestRemoteFS has each call take what it takes on the model of another host: a lock
// that covers a write ends with its COMMIT, a close only with its write-back.
func TestRemoteFS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &remoteFS{&SlowFS{FS: vfs.OS{}, Sync: 18 * time.Millisecond}}
		took := func(what string, want time.Duration, call func() error) {
			t.Helper()
			began := time.Now()
			if err := call(); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d != want {
				t.Errorf("%s takes %s, want %s", what, d, want)
			}
		}
		const rpc, back, commit = 500 * time.Microsecond, time.Millisecond, 18 * time.Millisecond
		var l life
		path := filepath.Join(t.TempDir(), "log")
		took("opening", rpc, func() (err error) { l, err = openLockFree(t.Context(), nil, fs, path); return err })
		took("a write", 0, func() error { return l.line(t.Context(), newRecord(0)) })
		took("closing after it", back, l.close)
		took("opening", rpc, func() (err error) { l, err = openLocked(true)(t.Context(), nil, fs, path); return err })
		took("a write under a lock", rpc+back+commit+rpc, func() error { return l.line(t.Context(), newRecord(1)) })
		took("closing", 0, l.close)
	})
}

func TestNotify(t *testing.T) {
	var out strings.Builder
	o := tiny(t, &out)
	o.Rounds = 1
	rows, err := Notify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Rate <= 0 || r.Lone <= 0 || r.Max < r.P99 || r.CPU < 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(rows) != len(notifyWays) {
		t.Errorf("%d rows", len(rows))
	}
	for _, want := range []string{"settled, what gathers", "by log2(µs)\n", "1µs (0) ", ", every write 1µs slower; 1 round of 3ms each\n", "all of them are in their files"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
	empty(t, o.Dir)
}

func TestCommands(t *testing.T) {
	var out strings.Builder
	o := CommandsOptions{tiny(t, &out), 20 * time.Millisecond}
	rows, err := Commands(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Calls < 4 || r.P50 <= 0 || r.Max < r.P999 {
			t.Errorf("%+v", r)
		}
	}
	for _, want := range []string{"poll, time-out 20ms ", "poll, woken ", "tidemark ", "all calls were answered; "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
	empty(t, o.Dir)
}

// TestWoken has a loop whose poll never times out answer one command after the
// other.
func TestWoken(t *testing.T) {
	path := filepath.Join(sockdir.New(t), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPollLoop(l, true, time.Hour, func() ([]byte, error) { return []byte("{}\x00"), nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := control.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := c.Call(ctx, control.MethodStatus, nil); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if err := errors.Join(c.Close(), l.Close(), p.close()); err != nil {
		t.Error(err)
	}
}

// TestInterrupted ends each table in its first round: nothing is left, and the
// reason is told.
func TestInterrupted(t *testing.T) {
	enough := errors.New("enough")
	for name, table := range map[string]func(context.Context, Options) error{
		"sync": func(ctx context.Context, o Options) error {
			_, err := Sync(ctx, SyncOptions{o, []int{3}})
			return err
		},
		"notify": func(ctx context.Context, o Options) error { _, err := Notify(ctx, o); return err },
		"commands": func(ctx context.Context, o Options) error {
			_, err := Commands(ctx, CommandsOptions{o, time.Hour})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			var out strings.Builder
			o := tiny(t, &out)
			o.Duration, o.Delay = time.Hour, time.Hour
			o.Progress = func(int, int, string) { time.AfterFunc(time.Millisecond, func() { cancel(enough) }) }
			if err := table(ctx, o); !errors.Is(err, enough) {
				t.Errorf("error %v, want %v", err, enough)
			}
			empty(t, o.Dir)
		})
	}
}

// TestLost reads files back in which something is not as it was appended.
func TestLost(t *testing.T) {
	line := func(caller int, n uint64) string {
		r := newRecord(caller)
		r.number(n)
		return string(r[:])
	}
	whole := line(0, 0) + line(1, 0) + line(0, 1)
	for name, text := range map[string]string{
		"whole":   whole,
		"zeroes":  whole + strings.Repeat("\x00", 3*recordSize),
		"missing": line(0, 0) + line(0, 1),
		"last":    line(0, 0) + line(1, 0),
		"twice":   line(0, 0) + line(0, 0) + line(1, 0) + line(0, 1),
		"order":   line(1, 0) + line(0, 1) + line(0, 0),
		"unasked": whole + line(0, 2),
		"caller":  whole + line(2, 0),
		"torn":    whole[:150] + whole[151:] + "\n",
		"cut":     whole[:2*recordSize+50],
		"changed": strings.Replace(whole, "words", "wards", 1),
		"hole":    line(0, 0) + strings.Repeat("\x00", recordSize) + line(1, 0) + line(0, 1),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkLines(path, []uint64{2, 1})
		if good := name == "whole" || name == "zeroes"; good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJournalLost compares a journal file with acknowledgements it never gave.
func TestJournalLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.journal")
	w, err := journalWay(0, false)(vfs.OS{}, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.put(context.Background(), newRecord(1)), w.close()); err != nil {
		t.Fatal(err)
	}
	if err := w.check([]uint64{0, 1}); err != nil {
		t.Error(err)
	}
	for _, acked := range [][]uint64{{0, 0}, {0, 2}, {1, 1}, {0}} {
		if err := w.check(acked); !errors.Is(err, ErrLost) {
			t.Errorf("acknowledged %d: %v, want %v", acked, err, ErrLost)
		}
	}
	if err := checkFlood(path, 1); !errors.Is(err, ErrLost) {
		t.Errorf("a message of another kind: %v", err)
	}
}

// TestSlow counts the time that a disk takes, in a bubble.
func TestSlow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &SlowFS{FS: vfs.OS{}, Sync: time.Hour, Write: time.Minute}
		f, err := s.OpenFile(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for name, step := range map[string]struct {
			do   func() error
			want time.Duration
		}{
			"WriteAt":  {func() error { _, err := f.WriteAt([]byte("x"), 0); return err }, time.Minute},
			"Truncate": {func() error { return f.Truncate(1) }, time.Minute},
			"Datasync": {f.Datasync, time.Hour},
			"Sync":     {f.Sync, time.Hour},
			"SyncDir":  {func() error { return s.SyncDir(dir) }, time.Hour},
			"Allocate": {func() error { return f.Allocate(0, 10) }, 0},
		} {
			began := time.Now()
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != step.want {
				t.Errorf("%s took %s, want %s", name, took, step.want)
			}
		}
		if s.Syncs() != 2 {
			t.Errorf("%d syncs of files, want 2", s.Syncs())
		}
		began := time.Now()
		s.Hurry(true)
		hurried := f.Sync()
		s.Hurry(false)
		done := make(chan struct{})
		s.Done = done
		time.AfterFunc(time.Second, func() { close(done) })
		if err := errors.Join(hurried, f.Sync(), f.Sync()); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v; one sync in a hurry, two that end with Done after 1s: %s", err, time.Since(began))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 1234: "1.23µs", 66812345: "66.8ms", 999999: "1ms", 1500 * time.Millisecond: "1.5s"} {
		if got := short(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
	for r, want := range map[float64]string{214.4: "214", 21.44: "21.4", 2.144: "2.14", 0.2144: "0.21", 0.02144: "0.0214"} {
		if got := ratio(r, 1); got != want {
			t.Errorf("%g is %s, want %s", r, got, want)
		}
	}
	if ratio(1, 0) != "–" {
		t.Error("a ratio to nothing is no number")
	}
	var out strings.Builder
	tab := table{rows: [][]string{{"name", "µs", "n"}, {"a", "1", "100"}, {}, {"longer", "200"}}}
	if err := tab.print(&out); err != nil || out.String() != "  name     µs    n\n  a         1  100\n\n  longer  200\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
	if m := median([]float64{3, 1, 2}, func(v float64) float64 { return v }); m != 2 {
		t.Errorf("the median of 3, 1, 2 is %g", m)
	}
}

// TestCrowd lets callers append that have no time, that find no room, and that fail.
func TestCrowd(t *testing.T) {
	s, err := crowd(context.Background(), 50, 0, new(atomic.Bool), func(context.Context, *record) error { return nil })
	if err != nil || s.n() != 50 || s.latencies.N() != 50 || s.rate() <= 0 {
		t.Errorf("without time %d records of 50 callers, %d latencies: %v", s.n(), s.latencies.N(), err)
	}
	var left atomic.Int64
	left.Store(100)
	s, err = crowd(context.Background(), 3, time.Hour, new(atomic.Bool), func(context.Context, *record) error {
		if left.Add(-1) < 0 {
			return errEnough
		}
		return nil
	})
	if err != nil || s.n() != 100 {
		t.Errorf("room for 100: %d appended, %v", s.n(), err)
	}
	over := new(atomic.Bool)
	over.Store(true)
	s, err = crowd(context.Background(), 20, time.Hour, over, oneByOne(over, func(context.Context, *record) error { return nil }))
	if err != nil || s.n() != 1 || s.latencies.N() != 20 {
		t.Errorf("one by one when it is over: %d appended, want the first; %d have waited, want 20: %v", s.n(), s.latencies.N(), err)
	}
	broken := errors.New("broken")
	if _, err = crowd(context.Background(), 3, time.Hour, new(atomic.Bool), func(context.Context, *record) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a failure is told as %v", err)
	}
}

package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// syncLog has a file system of its own write down the syncs, which may fail.
type syncLog struct {
	fs *crashfs.FS

	mu    sync.Mutex
	calls []string
	fail  string // the call that fails
}

func newSyncLog() *syncLog {
	l := &syncLog{fs: crashfs.New(1)}
	l.fs.Hook(func(_ int, op crashfs.Op) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if op.Name != "sync" && op.Name != "syncdir" {
			return nil
		}
		l.calls = append(l.calls, op.Name+" "+op.Path)
		if op.Name == l.fail {
			return syscall.EIO
		}
		return nil
	})
	return l
}

// take returns the syncs since the last call.
func (l *syncLog) take() (calls []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls, l.calls = l.calls, nil
	return calls
}

// later makes a file that is synced later, in a directory.
func (l *syncLog) later(t *testing.T) *Writer {
	t.Helper()
	if err := l.fs.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := Create("/d/new.journal", Options{FS: l.fs, SyncLater: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A file that is synced later is created, named, written and thrown away without a
// sync. The first who waits for one has the file and its name synced too, in that
// order, and only the first.
func TestSyncLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSyncLog()
		w := l.later(t)
		if err := w.Rename("/d/a.journal"); err != nil {
			t.Fatal(err)
		}
		appendWait := func(level settle.Level) {
			t.Helper()
			pos, _, err := w.Append(t.Context(), []entry.Entry{wFields("A=1")})
			if err == nil {
				err = w.Wait(t.Context(), pos, level)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		appendWait(settle.Appended)
		other := l.later(t)
		if err := other.Discard(); err != nil {
			t.Error(err)
		}
		if names, err := l.fs.ReadDir("/d"); err != nil || len(names) != 1 {
			t.Errorf("files %v, %v after one of two was discarded", names, err)
		}
		if calls := l.take(); len(calls) > 0 {
			t.Errorf("%q before anybody waited for a sync", calls)
		}
		appendWait(settle.Synced)
		appendWait(settle.Synced)
		if err := w.Secure(); err != nil {
			t.Error(err)
		}
		want := []string{"sync /d/a.journal", "syncdir /d", "sync /d/a.journal"}
		if diff := cmp.Diff(want, l.take()); diff != "" {
			t.Errorf("syncs (-want +got):\n%s", diff)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What is made up before leaves nothing to the one who waits, and a file that was
// never synced is when it is closed.
func TestSecure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSyncLog()
		w := l.later(t)
		if err := errors.Join(w.Secure(), w.Secure()); err != nil {
			t.Error(err)
		}
		if got := l.take(); !slices.Equal(got, []string{"sync /d/new.journal", "syncdir /d"}) {
			t.Errorf("Secure makes %q", got)
		}
		if err := w.Discard(); err != nil {
			t.Error(err)
		}
		w = l.later(t)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if got := l.take(); !slices.Contains(got, "syncdir /d") {
			t.Errorf("Close makes %q", got)
		}
		if err := w.Secure(); err != nil {
			t.Errorf("Secure after Close = %v", err)
		}
	})
}

// A file that could not be made safe never is: no entry counts as synced, though
// every later sync succeeds.
func TestSecureFailsForGood(t *testing.T) {
	for _, call := range []string{"sync", "syncdir"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSyncLog()
				w := l.later(t)
				l.fail = call
				if err := w.Secure(); !errors.Is(err, syscall.EIO) {
					t.Errorf("Secure = %v, want EIO", err)
				}
				l.fail = ""
				pos, _, err := w.Append(t.Context(), []entry.Entry{wFields("A=1")})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Wait(t.Context(), pos, settle.Appended); err != nil {
					t.Error(err)
				}
				for range 2 {
					if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, syscall.EIO) {
						t.Errorf("Wait = %v, want EIO", err)
					}
				}
				if err := w.Close(); !errors.Is(err, syscall.EIO) {
					t.Errorf("Close = %v, want EIO", err)
				}
			})
		})
	}
}

// The power goes while a file is gone on with that was not synced since it was
// opened. What was synced, in this life or the one before, is there afterwards:
// continued, repaired, or to be read from a file that is neither.
func TestCrashPowerCutsOfAReopenedFile(t *testing.T) {
	outcomes := map[string]int{}
	for i := range crashRuns(6) {
		seed := uint64(i)
		synctest.Test(t, func(t *testing.T) {
			s := newWScene(seed)
			s.play(t.Context(), Flavour{}, 10)
			if !s.closed {
				t.Fatal("the first life has failed")
			}
			s.synced.Store(int64(s.accepted))
			s.reopen(t, seed, outcomes)
		})
	}
	t.Log(outcomes)
}

// reopen goes on with the file, and cuts the power at a random call.
func (s *wScene) reopen(t *testing.T, seed uint64, outcomes map[string]int) {
	w, err := OpenWriter(wCrashPath, Options{FS: s.fs, SyncLater: true, MaxSize: MinMaxSize, Index: 20 * time.Millisecond, Clock: lateClock})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	before := s.accepted
	for range 1 + s.r.IntN(12) {
		batch := []entry.Entry{s.entry(s.accepted), s.entry(s.accepted + 1)}
		s.accepted += 2
		s.submitted.Store(int64(s.accepted))
		pos, _, err := w.Append(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		level := settle.Appended
		if s.r.IntN(8) == 0 {
			level = settle.Synced
		}
		if err := w.Wait(t.Context(), pos, level); err != nil {
			t.Fatal(err)
		}
		if level == settle.Synced {
			s.synced.Store(int64(before) + int64(pos))
		}
		for range 3 {
			left := s.fs.PowerCut(s.r.Uint64())
			what, err := s.afterCut(left)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
			outcomes[what]++
		}
	}
}

// afterCut does what the next start does with the file.
func (s *wScene) afterCut(left *crashfs.FS) (what string, err error) {
	synced := int(s.synced.Load())
	w, err := OpenWriter(wCrashPath, Options{FS: left, MaxSize: MinMaxSize, Clock: lateClock})
	switch {
	case err == nil:
		if err := w.Close(); err != nil {
			return "continued", err
		}
		return "continued", s.whole(left, synced)
	case errors.Is(err, ErrUnclean):
		return "repaired", s.repaired(left, synced)
	}
	b := left.Bytes(wCrashPath)
	f, rerr := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if rerr != nil {
		return "kept", errors.Join(err, rerr)
	}
	j := ReadOptions{}.New()
	defer j.Close()
	j.AddFile(f)
	there := map[string]bool{}
	for e, rerr := range j.All() {
		if rerr != nil {
			return "kept", errors.Join(err, rerr)
		}
		v, _ := e.Get("N")
		there[string(v)] = true
	}
	for n := range synced {
		if !there[strconv.Itoa(n)] {
			return "kept", fmt.Errorf("entry %d of %d that were synced is not there: %w", n, synced, err)
		}
	}
	return "kept", nil
}

// lateClock is after the times that a scene gives its entries.
func lateClock() (realtime, monotonic uint64) { return 2e15, 2e15 }

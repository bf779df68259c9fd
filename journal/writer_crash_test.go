package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

const wCrashPath = "/d/a.journal"

// wScene is a life of a writer on a file system that fails: what was submitted,
// and how much of it was acknowledged at which level. Entries are numbered by a
// field, so that what comes back can be told apart.
type wScene struct {
	fs        *crashfs.FS
	w         *Writer
	r         *rand.Rand
	later     bool // Options.SyncLater
	created   atomic.Bool
	submitted atomic.Int64 // at most
	synced    atomic.Int64 // acknowledged
	accepted  int
	appended  int // acknowledged
	closed    bool
	createErr error
}

// entry n of a scene: some fields of every cardinality, some large.
func (s *wScene) entry(n int) entry.Entry {
	f := []entry.Field{
		entry.Field("N=" + strconv.Itoa(n)),
		entry.Field("MESSAGE=this is message " + strconv.Itoa(n)),
		entry.Field("PRIORITY=" + strconv.Itoa(n%8)),
		entry.Field("_PID=" + strconv.Itoa(n/3%20)),
		entry.Field("_HOSTNAME=h"),
	}
	if n%5 == 0 {
		f = append(f, entry.Field("F"+strconv.Itoa(n/5%40)+"=1"))
	}
	if n%17 == 0 {
		f = append(f, entry.Field("BLOB="+string(bytes.Repeat([]byte(strconv.Itoa(n)), 3000))))
	}
	return entry.Entry{Fields: f, Realtime: 1e15 + uint64(n), Monotonic: uint64(n), BootID: entry.ID{1}}
}

// play runs the scene: about steps batches under a random mix of waits. It goes
// on after errors, as a daemon would.
func (s *wScene) play(ctx context.Context, fl Flavour, steps int) {
	_ = s.fs.MkdirAll("/d", 0o755)
	s.w, s.createErr = Create(wCrashPath, Options{FS: s.fs, Flavour: fl, SyncLater: s.later, MaxSize: MinMaxSize, Index: 20 * time.Millisecond})
	if s.createErr != nil {
		return
	}
	s.created.Store(true)
	for range steps {
		n := 1 + s.r.IntN(4)
		if s.r.IntN(6) == 0 {
			n = 20
		}
		batch := make([]entry.Entry, n)
		for i := range batch {
			batch[i] = s.entry(s.accepted + i)
		}
		s.submitted.Add(int64(n))
		pos, k, err := s.w.TryAppend(batch)
		s.accepted += k
		if err != nil {
			break // full
		}
		switch s.r.IntN(8) {
		case 0, 1, 2:
			if s.w.Wait(ctx, pos, settle.Appended) == nil {
				s.appended = max(s.appended, int(pos))
			}
		case 3:
			if s.w.Wait(ctx, pos, settle.Synced) == nil {
				s.synced.Store(int64(pos))
			}
		case 4:
			if s.w.Settle(ctx) == nil {
				s.synced.Store(int64(pos))
			}
		case 5:
			time.Sleep(time.Duration(s.r.IntN(50)) * time.Millisecond)
		case 6:
			_ = s.w.GrowAhead()
		case 7:
		}
		s.appended = max(s.appended, int(s.synced.Load()))
	}
	if s.w.Close() == nil {
		s.closed = true
		s.appended = s.accepted
	}
}

// whole checks a file that has been repaired or closed: it verifies, and has the
// first entries of the scene, at least min of them, as they were submitted.
func (s *wScene) whole(fs *crashfs.FS, min int) error {
	b := fs.Bytes(wCrashPath)
	rep, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "a.journal", VerifyOptions{})
	if err != nil {
		return err
	}
	if p, bad := rep.First(); bad {
		return fmt.Errorf("does not verify: %v", p)
	}
	if h := decodeHeader(b); h.State != StateOffline {
		return fmt.Errorf("state %s", h.State)
	}
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		return err
	}
	j := ReadOptions{}.New()
	defer j.Close()
	j.AddFile(f)
	n := 0
	for e, err := range j.All() {
		if err != nil {
			return err
		}
		want := s.entry(n)
		if e.Realtime != want.Realtime || e.Monotonic != want.Monotonic || len(e.Fields) != len(want.Fields) {
			return fmt.Errorf("entry %d is another", n)
		}
		for _, f := range want.Fields {
			name := string(f.Name())
			if v, ok := e.Get(name); !ok || !bytes.Equal(v, f.Value()) {
				return fmt.Errorf("entry %d has another %s", n, name)
			}
		}
		n++
	}
	if n < min || n > int(s.submitted.Load()) {
		return fmt.Errorf("has %d entries of %d, %d were acknowledged", n, s.submitted.Load(), min)
	}
	return nil
}

// repaired repairs the file in fs and checks it.
func (s *wScene) repaired(fs *crashfs.FS, min int) error {
	if fs.Bytes(wCrashPath) == nil {
		if min > 0 {
			return errors.New("file is gone")
		}
		return nil
	}
	if _, err := Repair(wCrashPath, RepairOptions{FS: fs}); err != nil {
		if min == 0 && (errors.Is(err, ErrTruncated) || errors.Is(err, ErrNotJournal) || errors.Is(err, ErrCorrupt)) && (s.later || !s.created.Load()) {
			return nil // it was never there
		}
		return fmt.Errorf("repair: %w", err)
	}
	return s.whole(fs, min)
}

func newWScene(seed uint64) *wScene {
	return &wScene{fs: crashfs.New(seed), r: rand.New(rand.NewPCG(seed, 2))}
}

// crashRuns is how many runs a crash test makes: TIDEMARK_SEEDS, or few.
func crashRuns(few int) int {
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_SEEDS")); err == nil {
		return n
	}
	return few
}

// inFull is how often a test does what it does: long with TIDEMARK_FULL, else short.
func inFull(long, short int) int {
	if os.Getenv("TIDEMARK_FULL") != "" {
		return long
	}
	return short
}

// Every operation fails once, in each kind. The writer goes on, loses nothing,
// and what it left repairs to at least what was acknowledged.
func TestWriterFaultAtEveryCall(t *testing.T) {
	steps := inFull(25, 9)
	kinds := map[string]crashfs.Kind{"not done": crashfs.NotDone, "done but failed": crashfs.DoneButFailed, "short": crashfs.Short}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				var calls int
				synctest.Test(t, func(t *testing.T) {
					s := newWScene(uint64(n))
					s.fs.FailAt(n, kind, syscall.EIO)
					s.play(t.Context(), Flavour{}, steps)
					calls = s.fs.Calls()
					if s.createErr != nil {
						// Who gets no file from open cannot know that there is one.
						if s.fs.Bytes(wCrashPath) != nil && n > 1 {
							t.Errorf("fault at %d: a file is left", n)
						}
						return
					}
					if s.closed {
						if err := s.whole(s.fs, s.accepted); err != nil {
							t.Fatalf("fault at %d: closed file %v", n, err)
						}
					}
					if err := s.repaired(s.fs.Survivors(), s.appended); err != nil {
						t.Fatalf("fault at %d: %v", n, err)
					}
				})
				if n > calls {
					break
				}
				if n > 60 {
					n += n / 16
				}
			}
		})
	}
}

// The process dies in the middle of every write in turn. Everything that was
// acknowledged as appended comes back; also when the repair dies.
func TestCrashKilledWriter(t *testing.T) {
	runs := crashRuns(50)
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			seed := uint64(i)
			s := newWScene(seed)
			fl := Flavour{Regular: i%4 == 1, Unkeyed: i%4 == 2}
			n := 5 + 3*i // of some 150 calls
			if i > 50 {
				n = 5 + s.r.IntN(1200)
			}
			s.fs.StopAt(n)
			s.play(t.Context(), fl, 40)
			left := s.fs.Survivors()
			if s.createErr != nil || left.Bytes(wCrashPath) == nil {
				return
			}
			for range 3 { // repairs that die too
				left.StopAt(1 + s.r.IntN(40))
				_, _ = Repair(wCrashPath, RepairOptions{FS: left})
				left = left.Survivors()
			}
			if err := s.repaired(left, s.appended); err != nil {
				t.Fatalf("seed %d, killed at call %d: %v", seed, n, err)
			}
		})
	}
}

// The power goes at any moment, and again while the file is repaired.
// Everything that was acknowledged as synced comes back.
func TestCrashPowerCuts(t *testing.T) {
	runs := crashRuns(4)
	for i := range runs {
		seed := uint64(i)
		synctest.Test(t, func(t *testing.T) {
			s := newWScene(seed)
			s.later = i%3 == 1
			var failed error
			r := rand.New(rand.NewPCG(seed, 3))
			var mu sync.Mutex
			s.fs.Hook(func(n int, op crashfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if failed != nil || !s.created.Load() || r.IntN(25) != 0 {
					return nil
				}
				synced, cut := int(s.synced.Load()), r.Uint64()
				left := s.fs.PowerCut(cut)
				if left.Bytes(wCrashPath) == nil && s.later && synced == 0 {
					return nil
				}
				if left.Bytes(wCrashPath) == nil {
					failed = fmt.Errorf("call %d, cut %d: file is gone", n, cut)
					return nil
				}
				for range r.IntN(3) {
					left.StopAt(1 + r.IntN(60))
					_, _ = Repair(wCrashPath, RepairOptions{FS: left})
					left = left.PowerCut(r.Uint64())
				}
				if err := s.repaired(left, synced); err != nil {
					failed = fmt.Errorf("call %d (%s), cut %d: %w", n, op.Name, cut, err)
				}
				return nil
			})
			s.play(t.Context(), Flavour{Regular: i%4 == 1, Unkeyed: i%4 == 2}, 60)
			if failed != nil {
				t.Fatalf("seed %d: %v", seed, failed)
			}
		})
	}
}

// A sample of killed files passes the real journalctl.
func TestCrashedFilesVerifyByJournalctl(t *testing.T) {
	wNeedTool(t, "journalctl")
	dir := t.TempDir()
	for i := range min(crashRuns(6), 500) {
		synctest.Test(t, func(t *testing.T) {
			s := newWScene(uint64(1000 + i))
			s.fs.StopAt(20 + s.r.IntN(600))
			s.play(t.Context(), Flavour{Regular: i%2 == 1}, 60)
			left := s.fs.Survivors()
			if _, err := Repair(wCrashPath, RepairOptions{FS: left}); err != nil {
				t.Fatalf("seed %d: %v", i, err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.journal", i)), left.Bytes(wCrashPath), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	wVerify(t, filepath.Join(dir, "*.journal"))
}

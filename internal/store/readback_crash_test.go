package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// saga is a life of a store on a disk whose syncs fail at times, and what it has
// acknowledged.
type saga struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	fs    *crashfs.FS
	s     *Store
	n     int // messages appended
	boot  entry.ID
	ticks atomic.Uint64           // how often the clock was read: no two entries of two files have the same time
	level map[string]settle.Level // of each message that was acknowledged
}

const sagaDir = "/data"

// newSaga opens a store in memory. Each sync of a file with entries fails with a
// probability of one in oneIn, in a random way.
func newSaga(t *testing.T, seed uint64, oneIn int) *saga {
	x := &saga{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 7)), fs: crashfs.New(seed), boot: testBoot, level: map[string]settle.Level{}}
	x.open()
	x.fs.FailWhen(failSyncsOf(seed, oneIn))
	return x
}

// failSyncsOf is a disk that fails one sync in oneIn of a file with entries.
func failSyncsOf(seed uint64, oneIn int) func(int, crashfs.Op) (crashfs.Kind, error) {
	r := rand.New(rand.NewPCG(seed, 8))
	return func(_ int, op crashfs.Op) (crashfs.Kind, error) {
		if op.Name != "sync" || isPreparedName(op.Path) || r.IntN(oneIn) > 0 {
			return 0, nil
		}
		return []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed}[r.IntN(2)], syscall.EIO
	}
}

func isPreparedName(path string) bool { return IsPrepared(filepath.Base(path)) }

func (x *saga) open() {
	time.Sleep(time.Second) // entries of a flood have times that are a few µs ahead
	cfg := testConfig(sagaDir, x.fs)
	cfg.Split, cfg.BootID = true, x.boot
	cfg.Sync = settle.Every(time.Second)
	cfg.Clock = func() (realtime, monotonic uint64) { // goes on after a kill
		now := uint64(time.Now().UnixMicro()) + x.ticks.Add(1)
		return now, now - 900e12
	}
	s, err := Open(cfg)
	if err != nil {
		x.t.Fatalf("seed %d: open: %v", x.seed, err)
	}
	x.s = s
}

// play appends, waits, rotates and lets time pass.
func (x *saga) play(steps int) {
	for range steps {
		var batch []entry.Entry
		var names []string
		for range 1 + x.r.IntN(5) {
			m := fmt.Sprintf("message %06d", x.n)
			batch, names = append(batch, line([]uint32{0, 0, 1000, 1001}[x.r.IntN(4)], m)), append(names, m)
			x.n++
		}
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
		ticket, err := x.s.Append(ctx, batch)
		level := []settle.Level{settle.Accepted, settle.Appended, settle.Synced}[x.r.IntN(3)]
		if err == nil && level > settle.Accepted && x.s.Wait(ctx, ticket, level) == nil {
			for _, m := range names {
				x.level[m] = level
			}
		}
		switch x.r.IntN(12) {
		case 0:
			_ = x.s.Rotate(ctx)
		case 1:
			_ = x.s.Synchronize(ctx)
		case 2, 3:
			time.Sleep(time.Duration(x.r.IntN(3000)) * time.Millisecond)
		case 4:
			time.Sleep(time.Duration(x.r.IntN(90)) * time.Second)
		}
		cancel()
	}
}

// die leaves the store as a kill does, and goes on with what is left.
func (x *saga) die() {
	left := x.fs.Survivors()
	x.fs.FailWhen(nil)
	x.fs.StopAt(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	_ = x.s.Close(ctx)
	cancel()
	x.fs = left
}

// check looks for every message acknowledged as least: it must be there once.
func (x *saga) check(what string, fs *crashfs.FS, least settle.Level) {
	x.t.Helper()
	got := sagaMessages(x.t, fs)
	for m, level := range x.level {
		if level >= least && got[m] != 1 {
			x.t.Fatalf("seed %d, %s: %q, %v, is there %d times", x.seed, what, m, level, got[m])
		}
	}
	for m, n := range got {
		if n > 1 {
			x.t.Fatalf("seed %d, %s: %q is there %d times", x.seed, what, m, n)
		}
	}
}

// checkFiles checks that the files that were not set aside have each number of a
// sequence once, and that of those set aside all is stored in them.
func (x *saga) checkFiles() {
	x.t.Helper()
	entries, err := x.fs.ReadDir(x.s.dir)
	if err != nil {
		x.t.Fatal(err)
	}
	type span struct {
		name       string
		head, tail uint64
	}
	spans := map[entry.ID][]span{}
	for _, e := range entries {
		h, err := x.s.header(e.Name())
		if err == nil && h.HeadEntrySeqnum > 0 && !strings.HasSuffix(e.Name(), "~") {
			spans[h.SeqnumID] = append(spans[h.SeqnumID], span{e.Name(), h.HeadEntrySeqnum, h.TailEntrySeqnum})
		}
	}
	for _, list := range spans {
		slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.head, b.head) })
		for i := range len(list) - 1 {
			if list[i].tail >= list[i+1].head {
				x.t.Fatalf("seed %d: %v and %v overlap", x.seed, list[i], list[i+1])
			}
		}
	}
}

// sagaMessages counts the messages that a reader of the directory sees.
func sagaMessages(t *testing.T, fs *crashfs.FS) map[string]int {
	t.Helper()
	dir := filepath.Join(sagaDir, testMachine.String())
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.ReadOptions{}.New()
	defer j.Close()
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b := fs.Bytes(filepath.Join(dir, e.Name()))
		f, err := journal.NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, e.Name())
		if err != nil {
			continue // a prepared file that was cut off
		}
		j.AddFile(f)
	}
	got := map[string]int{}
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := e.Get("MESSAGE"); strings.HasPrefix(string(m), "message ") {
			got[string(m)]++
		}
	}
	return got
}

// sagas is how many seeds a test tries.
func sagas(few int) int {
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_SEEDS")); err == nil {
		return n
	}
	return few
}

// TestCrashWhileReadingBack kills the process at any call, while syncs fail and
// what they should have covered is stored again. The next start has everything
// that was appended, once.
func TestCrashWhileReadingBack(t *testing.T) {
	for i := range uint64(sagas(8)) {
		synctest.Test(t, func(t *testing.T) {
			x := newSaga(t, i, 6)
			x.fs.StopAt(100 + x.r.IntN(3000))
			x.play(60)
			x.die()
			x.check("after the kill", x.fs, settle.Appended)
			x.open()
			rest(2 * time.Minute)
			x.check("after the start", x.fs, settle.Appended)
			if err := x.s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.check("after the end", x.fs, settle.Appended)
		})
	}
}

// TestCrashPowerCutAfterReadingBack lets syncs fail, ends or kills the process, and
// starts it again on a disk that works. When that has ended, a power cut leaves
// everything that was ever acknowledged, also what no sync of its own file covered.
func TestCrashPowerCutAfterReadingBack(t *testing.T) {
	for i := range uint64(sagas(8)) {
		synctest.Test(t, func(t *testing.T) {
			x := newSaga(t, i, 3)
			x.play(60)
			if i%3 == 0 {
				_ = x.s.Close(t.Context())
				x.fs.FailWhen(nil)
			} else {
				synctest.Wait() // the sync that failed last has been noted
				x.die()
			}
			x.check("after the end", x.fs, settle.Appended)
			x.open()
			rest(2 * time.Minute)
			if err := x.s.Close(t.Context()); err != nil && !errors.Is(err, journal.ErrSync) {
				t.Fatal(err)
			}
			x.checkFiles()
			for range 3 {
				x.check("after a power cut", x.fs.PowerCut(x.r.Uint64()), settle.Appended)
			}
			x.fs, x.boot[0] = x.fs.PowerCut(x.r.Uint64()), x.boot[0]+1
			x.open()
			rest(2 * time.Minute)
			x.check("after the reboot", x.fs, settle.Appended)
			if err := x.s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestKilledBeforeItIsSetAside kills the process when the sync of a file has failed
// that is not set aside yet, as the one before was a moment ago. The next start does
// not trust a sync of its own of that file.
func TestKilledBeforeItIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSaga(t, 1, 1) // each sync fails
		for i := range 3 {
			appendTo(t, x.s, 0, settle.Appended, 10*i, 10*i+10)
			rest(1100 * time.Millisecond) // the sync, which fails, comes after a second
		}
		for _, m := range numbered(0, 30) {
			x.level[m] = settle.Appended
		}
		if n := len(x.s.Status().Files); n != 1 || x.s.system.f.failed.Load() == nil {
			t.Fatalf("%d files; the current one has not failed", n)
		}
		x.die()
		x.open()
		rest(2 * time.Minute)
		if got := count(x.s, "read_back"); got < 10 {
			t.Errorf("%d entries read back, want 10 and what the store has said", got)
		}
		if err := x.s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(20) {
			x.check("after a power cut", x.fs.PowerCut(i), settle.Appended)
		}

		// What is stored is not stored again, and after a reboot the files that were
		// set aside are as good as others.
		x.open()
		rest(2 * time.Minute)
		if got := count(x.s, "read_back"); got != 0 {
			t.Errorf("%d entries read back by the next start", got)
		}
		if err := x.s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.boot[0]++
		x.open()
		defer x.s.Close(t.Context())
		entries, err := x.fs.ReadDir(x.s.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if h, err := x.s.header(e.Name()); err != nil || strings.HasSuffix(e.Name(), "~") && h.State == journal.StateOnline {
				t.Errorf("%s is %v after the reboot, %v", e.Name(), h.State, err)
			}
		}
	})
}

package journal

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// BenchmarkSynced is callers who each append an entry and wait until it is synced,
// beside those who hold a lock meanwhile (one sync an entry) and those who do not
// wait for a sync. Each sync takes longer than the disk's by delay, in a system
// call. It reports entries a second, and how long half of the callers waited at
// most, in syncs.
func BenchmarkSynced(b *testing.B) {
	for _, delay := range []time.Duration{0, 250 * time.Microsecond, 10 * time.Millisecond} {
		for _, callers := range []int{1, 200} {
			for _, way := range []string{"lock", "synced", "appended"} {
				b.Run(fmt.Sprintf("%v/%d/%s", delay, callers, way), func(b *testing.B) { benchSynced(b, delay, callers, way) })
			}
		}
	}
}

func benchSynced(b *testing.B, delay time.Duration, callers int, way string) {
	fsys := &hookfs.FS{}
	fsys.Set(func(op, _ string) error {
		if op == "datasync" && delay > 0 {
			left := syscall.NsecToTimespec(int64(delay))
			for syscall.Nanosleep(&left, &left) == syscall.EINTR {
			}
		}
		return nil
	})
	var syncs, took atomic.Int64
	w, err := Create(filepath.Join(b.TempDir(), "a.journal"), Options{FS: fsys, Observe: func(effect string, d time.Duration, _ uint64, _ error) {
		if effect == "sync" {
			syncs.Add(1)
			took.Add(int64(d))
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	level := settle.Synced
	if way == "appended" {
		level = settle.Appended
	}
	var lock sync.Mutex
	one := func(s *wSteady) error {
		if way == "lock" {
			lock.Lock()
			defer lock.Unlock()
		}
		pos, _, err := w.Append(context.Background(), s.next())
		if err != nil {
			return err
		}
		return w.Wait(context.Background(), pos, level)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	waits := make([][]time.Duration, callers)
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			s := newWSteady()
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if err := one(s); err != nil {
					b.Error(err)
					return
				}
				waits[c] = append(waits[c], time.Since(begin))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	if n := syncs.Load(); n > 0 {
		all := slices.Concat(waits...)
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2])*float64(n)/float64(took.Load()), "p50/sync")
		b.ReportMetric(float64(b.N)/float64(n), "entries/sync")
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

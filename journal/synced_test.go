package journal

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// Who waits for a sync learns that the write before it has failed, also if somebody
// else's write does, and waits no more once it has been made up for.
func TestSyncedWaiterLearnsThatAWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := wMemWriter(t, Options{})
		var full atomic.Bool
		full.Store(true)
		mem.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "write" && full.Load() {
				time.Sleep(10 * time.Millisecond)
				return syscall.ENOSPC
			}
			return nil
		})
		pos, _, err := w.Append(t.Context(), []entry.Entry{wFields("MESSAGE=a")})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		synctest.Wait() // the settler's goroutine writes
		if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, syscall.ENOSPC) || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("Wait during a write that fails = %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		if err := w.Wait(t.Context(), pos, settle.Synced); !errors.Is(err, syscall.ENOSPC) || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("Wait that tries again = %v after %v", err, time.Since(begin))
		}
		full.Store(false)
		begin = time.Now()
		if err := w.Wait(t.Context(), pos, settle.Synced); err != nil || time.Since(begin) != 0 {
			t.Errorf("Wait with room = %v after %v", err, time.Since(begin))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Many callers come together before a short sync, and each entry is acknowledged after
// a sync that began when it was in the file.
func TestCallersShareShortSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 40, 10
		var syncs atomic.Int64
		w, mem := wMemWriter(t, Options{Observe: func(effect string, _ time.Duration, _ uint64, _ error) {
			if effect == "sync" {
				syncs.Add(1)
			}
		}})
		var safe atomic.Uint64
		mem.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				pos := w.written.Load()
				time.Sleep(200 * time.Microsecond)
				safe.Store(pos)
			}
			return nil
		})
		var done atomic.Int64
		for i := range callers {
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				for range rounds {
					pos, _, err := w.Append(t.Context(), []entry.Entry{wFields("MESSAGE=m")})
					if err == nil {
						err = w.Wait(t.Context(), pos, settle.Synced)
					}
					if err != nil || safe.Load() < uint64(pos) {
						t.Errorf("entry %d acknowledged (%v), synced up to %d", pos, err, safe.Load())
					}
					time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				}
				done.Add(1)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// Without a gather those who come during a sync share the next: two a round.
		if n := syncs.Load(); done.Load() != callers || n > rounds+4 {
			t.Errorf("%d syncs for %d rounds of %d callers of %d", n, rounds, done.Load(), callers)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

package linelog

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// shortSyncs has each sync take that long.
func (r *rig) shortSyncs(d time.Duration) {
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if op.Name == "sync" {
			time.Sleep(d)
		}
		return nil
	})
}

// A lone caller waits for its sync and nothing else, also with many lines a call.
func TestLoneCallerDoesNotGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Sync: settle.All()}, nil)
		r.shortSyncs(300 * time.Microsecond)
		begin := time.Now()
		for range 10 {
			pos := r.append1("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n")
			if err := r.Wait(context.Background(), pos, settle.Synced); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(begin); d != 3*time.Millisecond {
			t.Errorf("ten syncs of 0.3 ms took %s", d)
		}
		r.close()
	})
}

// Callers who come back one after the other share a sync; and when they stay away,
// the one that is left does not go on waiting for them.
func TestManyCallersShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 40, 20
		r := newRig(t, Options{Sync: settle.All()}, nil)
		r.shortSyncs(300 * time.Microsecond)
		call := func() {
			pos := r.append1("line\n")
			if err := r.Wait(context.Background(), pos, settle.Synced); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range rounds {
					time.Sleep(time.Duration(i) * 10 * time.Microsecond)
					call()
				}
			})
		}
		wg.Wait()
		// Without a gather those who ask during a sync share the next: two a round.
		if n := r.Stats().Syncs; n > rounds+2 {
			t.Errorf("%d syncs for %d rounds of %d callers", n, rounds, callers)
		}
		call()
		call()
		begin := time.Now()
		call()
		if took := time.Since(begin); took != 300*time.Microsecond {
			t.Errorf("the third lone caller after that waits %s for a sync of 0.3 ms", took)
		}
		r.close()
	})
}

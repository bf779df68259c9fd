package store

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// none stands for a sync that does not come by itself.
const none = time.Duration(-1)

// successorRig is a store with files of two owners, in virtual time.
type successorRig struct {
	*Store
	t    *testing.T
	fsys *hookfs.FS
}

// syncAfter is how long after an append to the owner's file a sync of it begins.
func (r *successorRig) syncAfter(owner uint32) time.Duration {
	r.t.Helper()
	synctest.Wait()
	time.Sleep(time.Minute) // what was owed before is done
	synctest.Wait()
	var mu sync.Mutex
	after, begin := none, time.Now()
	r.fsys.Set(func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "datasync" && after == none {
			after = time.Since(begin)
		}
		return nil
	})
	defer r.fsys.Set(nil)
	if _, err := r.Append(r.t.Context(), []entry.Entry{line(owner, fmt.Sprint(begin))}); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return after
}

// current is the file that the owner's entries go to.
func (r *successorRig) current(owner uint32) *file {
	sl := r.slotOf(owner)
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.f
}

// The successor inherits the policy of syncing, however the file before it came
// to its end, and so does a file that is gone on with.
func TestSuccessorInheritsThePolicy(t *testing.T) {
	const user = 1000
	for policy, want := range map[settle.Policy]time.Duration{
		settle.Auto():                 none,
		settle.Every(7 * time.Second): 7 * time.Second,
		settle.All():                  0,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &successorRig{t: t, fsys: &hookfs.FS{}}
				cfg := testConfig(t.TempDir(), r.fsys)
				cfg.Split, cfg.Sync = true, policy
				r.Store = open(t, cfg)
				check := func(when string) {
					t.Helper()
					for _, owner := range []uint32{0, user} {
						if got := r.syncAfter(owner); got != want {
							t.Errorf("%s: a sync of %d's file begins after %v, want %v", when, owner, got, want)
						}
					}
				}
				check("first file")
				before := r.current(user)
				if err := r.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
				check("after Rotate")
				if r.current(user) == before {
					t.Error("Rotate has not begun a file")
				}
				before = r.current(0)
				appendNumbered(t, r.Store, 0, 1600)
				if r.current(0) == before {
					t.Error("the file was not full")
				}
				check("after a full file")
				if err := r.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.Store = open(t, cfg)
				put(t, r.Store, user) // opening a file syncs it
				check("gone on with")
				if err := r.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// indexes counts how often the index of the system's file is written in a minute
// of a steady stream, when each write takes long.
func (r *successorRig) indexes() int {
	r.t.Helper()
	r.fsys.Set(func(op, _ string) error {
		if op == "write" {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	defer r.fsys.Set(nil)
	count := func() int {
		synctest.Wait()
		return int(r.current(0).w.Stats().Indexes)
	}
	stream := func(d time.Duration) {
		for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if _, err := r.Append(r.t.Context(), []entry.Entry{line(0, "always the same")}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	stream(time.Minute) // until it is known to be slow
	n := count()
	stream(time.Minute)
	return count() - n
}

// The successor inherits the window of the index.
func TestSuccessorInheritsTheWindow(t *testing.T) {
	for _, window := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		t.Run(window.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &successorRig{t: t, fsys: &hookfs.FS{}}
				cfg := testConfig(t.TempDir(), r.fsys)
				cfg.Index = window
				r.Store = open(t, cfg)
				want := int(time.Minute / window)
				check := func(when string) {
					t.Helper()
					if got := r.indexes(); got < want*2/3 || got > want {
						t.Errorf("%s: %d indexes in a minute, want about %d", when, got, want)
					}
				}
				check("first file")
				before := r.current(0)
				if err := r.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
				check("successor")
				if r.current(0) == before {
					t.Error("Rotate has not begun a file")
				}
				if err := r.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// An append never creates, grows, renames, writes or syncs, also when it fills
// files: others have done so before, or do so afterwards.
func TestAppendLeavesFilesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		seen := map[string]bool{}
		var mu sync.Mutex
		fsys.Set(func(op, name string) error {
			mu.Lock()
			defer mu.Unlock()
			seen[op] = true
			if stack := string(debug.Stack()); strings.Contains(stack, "store.(*Store).Append(") {
				t.Errorf("%s of %s by an append\n%s", op, filepath.Base(name), stack)
			}
			return nil
		})
		appendNumbered(t, s, 0, 5000)
		synctest.Wait()
		fsys.Set(nil)
		mu.Lock()
		defer mu.Unlock()
		want := map[string]bool{"create": true, "allocate": true, "write": true, "sync": true, "datasync": true, "rename": true, "syncdir": true}
		for op := range seen {
			if !want[op] {
				delete(seen, op)
			}
		}
		if d := cmp.Diff(want, seen); d != "" {
			t.Errorf("what was done while appends filled files (-want +got):\n%s", d)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

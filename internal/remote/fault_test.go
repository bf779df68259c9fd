package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// TestDiskFull: what was accepted before anyone knew waits, nothing is taken on top
// of it, another peer's file included, and all goes on when there is space.
func TestDiskFull(t *testing.T) {
	fsys := &hookfs.FS{}
	r := newRig(t, func(c *Config) { c.FS = fsys })
	r.say("p", 100, "a")
	fsys.Set(func(op, _ string) error {
		if op != "datasync" {
			return syscall.ENOSPC
		}
		return nil
	})
	tk, n, err := r.Append(t.Context(), "p", entries(boot1, 200, "b"))
	if n != 1 || err != nil {
		t.Fatalf("Append = %d, %v", n, err)
	}
	if err := tk.Wait(t.Context(), settle.Appended); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Wait = %v, want ENOSPC", err)
	}
	for _, name := range []string{"p", "new"} {
		if _, n, err := r.Append(t.Context(), name, entries(boot1, 300, "refused")); n != 0 || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Append of %s = %d, %v, want ENOSPC", name, n, err)
		}
	}
	fsys.Set(nil)
	r.say("p", 300, "c")
	r.say("new", 300, "d")
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@200", "3 c@300"}, "new": {"1 d@300"}})
}

// TestFailedSync: a file whose sync failed is set aside, and what comes goes to a
// new one, once a minute.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		r := newRig(t, func(c *Config) { c.FS = fsys })
		defer r.Close() // within the bubble
		failing := func(op, _ string) error {
			if hookfs.IsSync(op) {
				return syscall.EIO
			}
			return nil
		}
		unsynced := func(mono uint64, m string) {
			t.Helper()
			fsys.Set(failing)
			defer fsys.Set(nil)
			tk, n, err := r.Append(t.Context(), "p", entries(boot1, mono, m))
			if n != 1 || err != nil {
				t.Fatalf("Append = %d, %v", n, err)
			}
			if err := tk.Wait(t.Context(), settle.Synced); !errors.Is(err, syscall.EIO) {
				t.Errorf("Wait = %v, want EIO", err)
			}
		}
		r.say("p", 100, "a")
		unsynced(200, "b")
		r.say("p", 300, "c")
		r.wantNames("remote-p.journal", "remote-p@.journal~")
		unsynced(400, "d")
		if _, n, err := r.Append(t.Context(), "p", entries(boot1, 500, "e")); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("Append within the minute = %d, %v, want EIO", n, err)
		}
		time.Sleep(asidePause)
		r.say("p", 500, "e")
		r.wantNames("remote-p.journal", "remote-p@.journal~", "remote-p@.journal~")
		if st := r.Status(); st.SyncErrors != 2 {
			t.Errorf("%d failed syncs counted, want 2", st.SyncErrors)
		}
		r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@200", "3 c@300", "4 d@400", "5 e@500"}})
	})
}

// TestFailedSyncIsNoticed: a file whose sync failed is set aside though nobody
// appends to it, so that the next start does not take it for a good one.
func TestFailedSyncIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		r := newRig(t, func(c *Config) { c.FS = fsys })
		defer r.Close() // within the bubble
		r.say("p", 100, "a")
		fsys.Set(func(op, _ string) error {
			if hookfs.IsSync(op) {
				return syscall.EIO
			}
			return nil
		})
		tk, n, err := r.Append(t.Context(), "p", entries(boot1, 200, "b"))
		if n != 1 || err != nil {
			t.Fatalf("Append = %d, %v", n, err)
		}
		if err := tk.Wait(t.Context(), settle.Synced); !errors.Is(err, journal.ErrSync) {
			t.Errorf("Wait = %v, want ErrSync", err)
		}
		synctest.Wait()
		r.wantNames("remote-p@.journal~")
	})
}

// TestRemoved: a file that somebody removes is followed by a new one.
func TestRemoved(t *testing.T) {
	r := newRig(t)
	r.say("p", 100, "a")
	if err := os.Remove(filepath.Join(r.dir, "remote-p.journal")); err != nil {
		t.Fatal(err)
	}
	r.say("p", 200, "b")
	if len(r.events) != 1 || !strings.Contains(r.events[0], "was removed") {
		t.Errorf("events %q", r.events)
	}
	r.wantStored(map[string][]string{"p": {"2 b@200"}})
}

// scenario appends, breaks the order, and closes; it returns the messages that were
// acknowledged as synced.
func scenario(fsys vfs.FS) (acked []string) {
	f, err := Open(Config{FS: fsys, Dir: "/d", MachineID: machine, Settings: func() Settings { return Settings{MaxSize: smallFile} }})
	if err != nil {
		return nil
	}
	for i, at := range []uint64{100, 200, 50, 300} {
		for _, name := range []string{"p", "q"} {
			m := fmt.Sprint(name, i)
			tk, n, err := f.Append(context.Background(), name, entries(boot1, at, m))
			if n != 1 {
				continue // a client would send it again
			}
			if err == nil && tk.Wait(context.Background(), settle.Synced) == nil {
				acked = append(acked, m)
			}
		}
	}
	f.Close() // may fail
	return acked
}

// found reads all messages of a file system's journals after a next start, by way of
// a directory.
func found(t *testing.T, fsys *crashfs.FS) map[string]int {
	t.Helper()
	f, err := Open(Config{FS: fsys, Dir: "/d", MachineID: machine})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	list, err := fsys.ReadDir("/d")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if err := os.WriteFile(filepath.Join(dir, e.Name()), fsys.Bytes("/d/"+e.Name()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.journal*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		j, err := journal.Open([]string{p})
		if errors.Is(err, journal.ErrNotJournal) || errors.Is(err, journal.ErrTruncated) {
			if strings.HasSuffix(p, "~") {
				continue // it was never synced
			}
		}
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(p), err)
			continue
		}
		for e, err := range j.All() {
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(p), err)
				break
			}
			m, _ := e.Get("MESSAGE")
			got[string(m)]++
		}
		j.Close()
	}
	return got
}

// step is from which call to which a test goes that tries them in turn: each with
// TIDEMARK_FULL, else every fourth, from a first one that changes from test to test.
func step() int {
	if os.Getenv("TIDEMARK_FULL") != "" {
		return 1
	}
	return 4
}

// TestFaults fails each call in turn, in each way: what was acknowledged is there
// once, after the death of the process and after a power cut.
func TestFaults(t *testing.T) {
	for kind, name := range map[crashfs.Kind]string{crashfs.NotDone: "not done", crashfs.DoneButFailed: "done but failed"} {
		t.Run(name, func(t *testing.T) {
			most := 0
			for n := 1 + int(kind)%step(); ; n += step() {
				fsys := crashfs.New(uint64(n))
				if err := fsys.MkdirAll("/d", 0o700); err != nil {
					t.Fatal(err)
				}
				fsys.FailAt(n, kind, syscall.EIO)
				acked := scenario(fsys)
				most = max(most, len(acked))
				for what, left := range map[string]*crashfs.FS{"death": fsys.Survivors(), "power cut": fsys.PowerCut(uint64(n))} {
					got := found(t, left)
					for _, m := range acked {
						if got[m] != 1 {
							t.Errorf("call %d fails, %s: acknowledged %s is there %d times", n, what, m, got[m])
						}
					}
				}
				if fsys.Calls() < n {
					if len(acked) != 8 {
						t.Errorf("without a fault %d are acknowledged", len(acked))
					}
					break
				}
			}
			if most != 8 {
				t.Errorf("at most %d were acknowledged", most)
			}
		})
	}
}

// TestKills ends the process at each call.
func TestKills(t *testing.T) {
	for n := min(3, step()); ; n += step() {
		fsys := crashfs.New(uint64(n))
		if err := fsys.MkdirAll("/d", 0o700); err != nil {
			t.Fatal(err)
		}
		fsys.StopAt(n)
		acked := scenario(fsys)
		for what, left := range map[string]*crashfs.FS{"death": fsys.Survivors(), "power cut": fsys.PowerCut(uint64(n))} {
			got := found(t, left)
			for _, m := range acked {
				if got[m] != 1 {
					t.Errorf("killed at call %d, %s: acknowledged %s is there %d times", n, what, m, got[m])
				}
			}
			for m, times := range maps.All(got) {
				if times != 1 {
					t.Errorf("killed at call %d, %s: %s is there %d times", n, what, m, times)
				}
			}
		}
		if fsys.Calls() < n {
			break
		}
	}
}

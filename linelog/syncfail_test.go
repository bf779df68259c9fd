package linelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// failSyncs has the syncs of the log fail while on is set.
func (r *rig) failSyncs(on *atomic.Bool) {
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if on.Load() && op.Name == "sync" {
			return syscall.EIO
		}
		return nil
	})
}

// After a failed sync those who waited learn it, the file is kept aside, and a fresh
// one has the lines since the last good sync, then new ones; who waits later waits
// for that.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		r.put("one\n")
		r.synced()
		pos := r.append1("two\n")
		r.appended()
		var fail atomic.Bool
		fail.Store(true)
		r.failSyncs(&fail)
		err := r.Wait(context.Background(), pos, settle.Synced)
		if !errors.Is(err, ErrSync) || !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait = %v, want ErrSync with its cause", err)
		}
		if st := r.Stats(); st.SetAside != 1 || st.Again != 1 || st.SyncErrors != 1 || st.Unsynced != 1 {
			t.Errorf("%+v", st)
		}
		fail.Store(false)
		r.put("three\n")
		if err := r.Wait(context.Background(), pos, settle.Synced); err != nil {
			t.Errorf("a later Wait: %v", err)
		}
		r.want("two\n", "three\n")
		files := contents(t, r.fs)
		aside := "access.log.20000101T000000~"
		if !slices.Equal(files[aside], []string{"one", "two"}) || len(files) != 2 {
			t.Errorf("files: %v", files)
		}
		if !strings.Contains(r.words(), "lines written again after a failed sync: 1, the file is kept as /var/log/"+aside) {
			t.Errorf("said: %s", r.words())
		}
		if !strings.HasSuffix(r.words(), "all is synced again") {
			t.Errorf("said: %s", r.words())
		}
		r.close()
	})
}

// Close says what it could not write.
func TestCloseOnAFullDisk(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.fs.SetSpace(0)
	r.put("lost\n")
	if err := r.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.HasSuffix(err.Error(), ": lines lost: 1 (5 bytes)") {
		t.Errorf("Close = %v", err)
	}
	if err := r.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("another Close = %v", err)
	}
}

// A disk that fails each sync gets one file a minute set aside, and each waiter is
// told.
func TestSetAsideOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		var fail atomic.Bool
		fail.Store(true)
		r.failSyncs(&fail)
		for i := range 5 {
			pos := r.append1(fmt.Sprintf("%d\n", i))
			if err := r.Wait(context.Background(), pos, settle.Synced); !errors.Is(err, ErrSync) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if n := len(contents(t, r.fs)); n != 2 {
			t.Errorf("%d files within a minute, want 2", n)
		}
		time.Sleep(2*time.Minute + 10*time.Second) // the attempts go on by themselves
		if n := len(contents(t, r.fs)); n != 4 {
			t.Errorf("%d files after two minutes, want 4", n)
		}
		fail.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := r.Stats(); st.Unsynced != 0 || st.Err != nil {
			t.Errorf("when syncs work again: %+v", st)
		}
		r.want("0\n", "1\n", "2\n", "3\n", "4\n")
		r.close()
	})
}

// What is beyond Keep is read back from the file that was set aside, and checked;
// what cannot be is counted, said in the log, and never acknowledged.
func TestReadBack(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			r := newRig(t, Options{Buffer: 100, Keep: 200}, nil)
			var want []string
			var first Pos
			for i := range 60 {
				line := fmt.Sprintf("%02d %s", i, strings.Repeat("z", 20))
				want = append(want, line)
				if pos := r.append1(line + "\n"); i == 0 {
					first = pos
				}
			}
			r.appended()
			if damaged { // one byte of the first piece, on the disk only
				f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("!"), 1); err != nil {
					t.Fatal(err)
				}
			}
			r.fs.Hook(func(_ int, op crashfs.Op) error {
				if op.Name == "sync" && strings.HasSuffix(op.Path, ".log") && r.Stats().SyncErrors == 0 {
					return syscall.EIO
				}
				return nil
			})
			if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
				t.Fatal(err)
			}
			err := r.Wait(context.Background(), first, settle.Synced)
			if damaged != errors.Is(err, ErrSync) {
				t.Errorf("Wait for the first line: %v", err)
			}
			if err := r.Wait(context.Background(), r.Pos(), settle.Synced); err != nil {
				t.Errorf("Wait for the last line: %v", err)
			}
			if err := r.Close(); damaged != errors.Is(err, ErrSync) {
				t.Errorf("Close = %v", err)
			}
			text := string(r.fs.Bytes(logPath))
			lost := 0
			if damaged {
				lost = strings.Count(text, "\n") - 1
				lost = len(want) - lost
				if !strings.HasPrefix(text, "# linelog: ") || !strings.Contains(text, fmt.Sprintf(", whose sync failed: %d\n", lost)) || lost == 0 || lost > 10 {
					t.Errorf("the log begins %.200q, %d lost", text, lost)
				}
			}
			if st := r.Stats(); st.Lost != uint64(lost) || st.Again != uint64(60-lost) {
				t.Errorf("%d lost, %+v", lost, st)
			}
			if got := contents(t, r.fs)["access.log"]; !slices.Equal(got, want[lost:]) {
				t.Errorf("%d lines: %q…", len(got), got[:min(3, len(got))])
			}
		})
	}
}

// Lines of one call that lie in several pieces are acknowledged together or not.
func TestCallThatIsLostInPart(t *testing.T) {
	r := newRig(t, Options{Buffer: 100, Keep: 100}, nil)
	pos := r.append1(strings.Repeat(tenBytes, 30)) // three pieces, one of them in memory
	r.appended()
	f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("!"), 1); err != nil { // only the first is damaged
		t.Fatal(err)
	}
	var fail atomic.Bool
	fail.Store(true)
	r.failSyncs(&fail)
	if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
		t.Fatal(err)
	}
	fail.Store(false)
	if err := r.Wait(context.Background(), pos, settle.Synced); !errors.Is(err, ErrSync) {
		t.Errorf("Wait for a call of which ten lines are lost: %v", err)
	}
	if st := r.Stats(); st.Lost != 10 || st.Again != 20 {
		t.Errorf("%+v", st)
	}
	if err := r.Wait(context.Background(), r.append1("next\n"), settle.Synced); err != nil {
		t.Errorf("Wait for the next call: %v", err)
	}
	if err := r.Close(); !errors.Is(err, ErrSync) {
		t.Errorf("Close = %v", err)
	}
}

// What is written while a sync runs is not covered by it, and is taken over when the
// next one fails.
func TestWrittenDuringASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		gate := make(chan error)
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				return <-gate
			}
			return nil
		})
		waits := make(chan error)
		first := r.append1("one\n")
		go func() { waits <- r.Wait(context.Background(), first, settle.Synced) }()
		synctest.Wait()
		second := r.append1("two\n")
		r.appended()
		gate <- nil
		if err := <-waits; err != nil {
			t.Error(err)
		}
		go func() { waits <- r.Wait(context.Background(), second, settle.Synced) }()
		gate <- syscall.EIO
		if err := <-waits; !errors.Is(err, ErrSync) {
			t.Errorf("Wait = %v", err)
		}
		close(gate)
		r.close()
		r.want("two\n")
	})
}

// The number of pieces is bounded: the oldest are counted, not read back.
func TestManyPieces(t *testing.T) {
	r := newRig(t, Options{Buffer: 16, Keep: 1, Window: time.Hour}, nil)
	const lines = 3 * maxPieces
	for i := range lines {
		r.put(fmt.Sprintf("%012d\n", i))
	}
	r.appended()
	var fail atomic.Bool
	fail.Store(true)
	r.failSyncs(&fail)
	if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
		t.Fatal(err)
	}
	fail.Store(false)
	if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
		t.Errorf("the Sync after lines were lost: %v", err)
	}
	r.close()
	st := r.Stats()
	if st.Again+st.Lost != lines || st.Lost < lines-maxPieces || st.Lost > lines-maxPieces+maxPieces/16+2 {
		t.Errorf("%+v", st)
	}
	if got := contents(t, r.fs)["access.log"]; uint64(len(got)) != st.Again || got[len(got)-1] != fmt.Sprintf("%012d", lines-1) {
		t.Errorf("%d lines taken over, want %d", len(got), st.Again)
	}
}

// A file that somebody has removed is found by the next sync, and made again.
func TestRemovedFile(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.put("one\n")
	r.synced()
	r.put("two\n")
	r.appended()
	if err := r.fs.Remove(logPath); err != nil {
		t.Fatal(err)
	}
	var there atomic.Bool // the file, as far as syncs know
	there.Store(true)
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if op.Name == "sync" && there.CompareAndSwap(true, false) { // crashfs has no link counts
			return syscall.ENOENT
		}
		return nil
	})
	if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
		t.Errorf("Sync of a removed file: %v", err)
	}
	r.synced()
	r.want("two\n")
	r.close()
}

// The name of a new file is synced before a line in it is acknowledged; when only
// that fails, the file stays.
func TestFailedSyncOfTheDirectory(t *testing.T) {
	r := newRig(t, Options{}, nil)
	var fail atomic.Bool
	fail.Store(true)
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if fail.Load() && op.Name == "syncdir" {
			return syscall.EIO
		}
		return nil
	})
	r.put("one\n")
	if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
		t.Errorf("Sync = %v", err)
	}
	fail.Store(false)
	r.synced()
	h := &history{accepted: []string{"one"}, synced: map[string]bool{"one": true}}
	h.powerCuts(t, r.fs)
	r.close()
	r.want("one\n")
}

// When nobody but Close meets the failed sync, the fresh file is synced by Close.
func TestFailedSyncAtClose(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.put("one\n")
	r.appended()
	r.fs.Hook(func(_ int, op crashfs.Op) error {
		if op.Name == "sync" && r.Stats().SyncErrors == 0 {
			return syscall.EIO
		}
		return nil
	})
	if err := r.Close(); err != nil {
		t.Errorf("Close = %v, though all is synced in a fresh file", err)
	}
	r.want("one\n")
	h := &history{accepted: []string{"one"}, synced: map[string]bool{"one": true}}
	h.powerCuts(t, r.fs)
}

// While each sync fails, rotated files are no way to fill the disk either: one is set
// aside a minute, nobody's lines are written again in between, and none is called synced
// by another sync of a file whose sync has failed. When syncs work again all is synced.
func TestFailedSyncsOfRotatedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Rotate: Rotation{Size: 100, Compression: Plain}, Sync: settle.Every(time.Second)}, nil)
		var broken atomic.Bool
		var syncs atomic.Int32
		broken.Store(true)
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				if syncs.Add(1); broken.Load() {
					return syscall.EIO
				}
			}
			return nil
		})
		for i := range 100 {
			r.put(fmt.Sprintf("line %d\n", i))
		}
		const minutes = 10
		for range minutes * 60 {
			time.Sleep(time.Second)
			if err := r.Sync(t.Context()); !errors.Is(err, ErrSync) {
				t.Fatalf("Sync = %v", err)
			}
		}
		if st := r.Stats(); st.SetAside > minutes+1 || st.Again > 100*(minutes+1) || syncs.Load() > 3*(minutes+1) {
			t.Errorf("%d syncs, %+v", syncs.Load(), st)
		}
		broken.Store(false)
		time.Sleep(2 * time.Minute)
		r.synced()
		if st := r.Stats(); st.Lost != 0 {
			t.Errorf("%+v", st)
		}
		r.close()
	})
}

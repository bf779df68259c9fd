package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// TestRotationsWaitForNoSync holds every sync: files are begun and rotated all the
// same, by command and where the order breaks, and what is appended is written. Who
// waits for a sync gets it after the release, in each of the files.
func TestRotationsWaitForNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		r := newRig(t, func(c *Config) { c.FS = fsys })
		defer r.Close() // within the bubble
		release := fsys.HoldSyncs()
		synced := make(chan error, 4)
		for _, at := range []uint64{100, 50, 300} { // the order breaks at the second
			tk, n, err := r.Append(t.Context(), "p", entries(boot1, at, "m"))
			if n != 1 || err != nil {
				t.Fatalf("Append = %d, %v", n, err)
			}
			if err := tk.Wait(t.Context(), settle.Appended); err != nil {
				t.Fatal(err)
			}
			go func() { synced <- tk.Wait(context.Background(), settle.Synced) }()
			if err := r.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if st := r.Status(); len(st.Files) != 3 {
			t.Errorf("%d files are on their way to the disk, want 3", len(st.Files))
		}
		go func() { synced <- r.Synchronize(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-synced:
			t.Errorf("synced, with %v, while every sync is held", err)
		default:
		}
		release()
		for range 4 {
			if err := <-synced; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if st := r.Status(); len(st.Files) != 0 {
			t.Errorf("%d files are open at the end", len(st.Files))
		}
		r.wantNames("remote-p@0000000000000001.journal", "remote-p@0000000000000002.journal", "remote-p@0000000000000003.journal")
		r.wantStored(map[string][]string{"p": {"1 m@100", "2 m@50", "3 m@300"}})
	})
}

// TestArchiveCannotBeSynced: a file whose sync fails after it was rotated is set
// aside; nobody is told that it is synced.
func TestArchiveCannotBeSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		r := newRig(t, func(c *Config) { c.FS = fsys })
		defer r.Close() // within the bubble
		tk, _, err := r.Append(t.Context(), "p", entries(boot1, 100, "a"))
		if err != nil {
			t.Fatal(err)
		}
		held := make(chan struct{})
		fsys.Set(func(op, _ string) error {
			if !hookfs.IsSync(op) {
				return nil
			}
			<-held
			return syscall.EIO
		})
		if err := r.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- r.Synchronize(context.Background()) }()
		synctest.Wait()
		close(held)
		if err := <-done; !errors.Is(err, syscall.EIO) {
			t.Errorf("Synchronize = %v, want EIO", err)
		}
		if err := tk.Wait(t.Context(), settle.Synced); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait = %v, want EIO", err)
		}
		synctest.Wait()
		fsys.Set(nil)
		r.wantNames("remote-p@.journal~")
		if last := r.events[len(r.events)-1]; !strings.Contains(last, "set aside") {
			t.Errorf("events %q", r.events)
		}
		r.say("p", 200, "b")
		r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@200"}})
	})
}

// TestLastSyncFails: a file whose last sync fails as it is closed is set aside, with
// the number of the last entry that is synced in its name, and the store is told.
func TestLastSyncFails(t *testing.T) {
	fsys := &hookfs.FS{}
	told := 0
	r := newRig(t, func(c *Config) { c.FS, c.Rotated = fsys, func() { told++ } })
	r.say("p", 100, "a", "b")
	if err := r.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.say("p", 200, "c")
	fsys.Set(func(op, _ string) error {
		if hookfs.IsSync(op) {
			return syscall.EIO
		}
		return nil
	})
	if err := r.Close(); !errors.Is(err, journal.ErrSync) {
		t.Errorf("Close = %v, want ErrSync", err)
	}
	files, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || !strings.HasPrefix(files[0].Name(), "remote-p@") || !strings.HasSuffix(files[0].Name(), "-0000000000000002.journal~") || told != 1 {
		t.Errorf("left %v, the store is told %d times", files, told)
	}
}

// TestArchivedWaitsForTheDisk: what was rotated is ARCHIVED in its header when Archived
// returns, not before the syncs of that are done, and no longer than its caller wants.
func TestArchivedWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		r := newRig(t, func(c *Config) { c.FS = fsys })
		defer r.Close() // within the bubble
		tk, _, err := r.Append(t.Context(), "p", entries(boot1, 100, "m"))
		if err != nil {
			t.Fatal(err)
		}
		if err := tk.Wait(t.Context(), settle.Synced); err != nil {
			t.Fatal(err)
		}
		if err := r.Archived(t.Context()); err != nil {
			t.Errorf("Archived with nothing rotated = %v", err)
		}
		release := fsys.HoldSyncs()
		if err := r.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		archived := make(chan error, 1)
		go func() { archived <- r.Archived(ctx) }()
		synctest.Wait()
		select {
		case err := <-archived:
			t.Errorf("Archived = %v while the sync is held", err)
		default:
			why := errors.New("long enough")
			cancel(why)
			if err := <-archived; !errors.Is(err, why) {
				t.Errorf("Archived = %v, want %v", err, why)
			}
		}
		release()
		if err := r.Archived(t.Context()); err != nil {
			t.Errorf("Archived behind the sync = %v", err)
		}
		paths, err := filepath.Glob(filepath.Join(r.dir, "remote-p@*.journal"))
		if len(paths) != 1 || err != nil {
			t.Fatal(paths, err)
		}
		f, err := journal.OpenFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if h := f.Header(); h.State != journal.StateArchived {
			t.Errorf("the file is %v behind Archived", h.State)
		}
	})
}

package journal

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// TestStatsWaitForNothing: while an append or a write is at work, which hold the
// lock, Stats tells what was true before.
func TestStatsWaitForNothing(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "f.journal"), Options{Clock: func() (uint64, uint64) { return 7, 8 }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	appendOne := func() {
		if _, _, err := w.TryAppend([]entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=m")}}}); err != nil {
			t.Fatal(err)
		}
		if err := w.SettleIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	appendOne()
	before := w.Stats()
	if before.Entries != 1 || before.Unsynced != 1 || before.TailRealtime != 7 || before.Path == "" || before.MaxSize != DefaultMaxSize {
		t.Errorf("one entry: %+v", before)
	}
	w.mu.Lock()
	got := w.Stats()
	w.mu.Unlock()
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("while the lock is held (-want +got):\n%s", diff)
	}
	appendOne()
	w.mu.Lock()
	got = w.Stats()
	w.mu.Unlock()
	if got.Entries != 2 || got.Unwritten != 0 || got.TailSeqnum != 2 || got.Bytes <= before.Bytes {
		t.Errorf("after a second entry: %+v", got)
	}
}

// duringFS runs during in the middle of a sync.
type duringFS struct {
	vfs.FS
	during func() error
}

func (d *duringFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	return &duringFile{f, d}, err
}

type duringFile struct {
	vfs.File
	fs *duringFS
}

func (f *duringFile) Datasync() error { return errors.Join(f.fs.during(), f.File.Datasync()) }

// TestWhatIsOwed: the bytes that a power cut could take, and since when the oldest
// entry among them is there: what comes during a sync is owed after it.
func TestWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &duringFS{FS: crashfs.New(1)}
		w, err := Create("/f.journal", Options{FS: d})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		add := func() {
			t.Helper()
			if _, _, err := w.TryAppend([]entry.Entry{wFields("A=1")}); err != nil {
				t.Fatal(err)
			}
		}
		owes := func(what string, bytes uint64, since time.Duration) {
			t.Helper()
			st := w.Stats()
			want := uint64(0)
			if since > 0 {
				want = uint64(begin.Add(since).UnixMicro())
			}
			if st.UnsyncedBytes != bytes || st.UnsyncedSince != want {
				t.Errorf("%s: %d bytes since %d, want %d since %d", what, st.UnsyncedBytes, st.UnsyncedSince, bytes, want)
			}
		}
		owes("nothing yet", 0, 0)
		empty := w.Stats().Bytes
		time.Sleep(time.Second)
		add()
		time.Sleep(time.Second)
		add()
		synctest.Wait()
		owes("two entries", w.Stats().Bytes-empty, time.Second)
		synced := w.Stats().Bytes
		d.during = func() error {
			time.Sleep(time.Second) // the third second
			add()
			return nil
		}
		if err := w.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		owes("one that came during the sync", w.Stats().Bytes-synced, 3*time.Second)
		d.during = func() error { return nil }
		if err := w.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		owes("all synced", 0, 0)
		time.Sleep(time.Second)
		synced = w.Stats().Bytes
		add()
		d.during = func() error { return errors.New("broken") }
		if err := w.Settle(t.Context()); err == nil {
			t.Fatal("the sync did not fail")
		}
		owes("a sync that has failed", w.Stats().Bytes-synced, 4*time.Second)
		w.Close()
	})
}

package linelog

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// TestCloseUnsynced writes all and syncs nothing; until then a sync is one.
func TestCloseUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{CloseUnsynced: true, Window: time.Hour}, nil)
		r.put("one\n")
		r.synced()
		before := r.Stats().Syncs
		pos := r.append1("two")
		r.put("rest")
		r.close()
		if n := r.Stats().Syncs; before != 1 || n != 1 {
			t.Errorf("%d syncs before Close, %d after it", before, n)
		}
		if err := r.Wait(context.Background(), pos, settle.Synced); !errors.Is(err, settle.ErrClosed) {
			t.Errorf("Wait for a sync = %v", err)
		}
		if err := r.Wait(context.Background(), pos, settle.Appended); err != nil {
			t.Error(err)
		}
		r.want("one\n", "two\n", "rest\n")
	})
}

// TestCloseUnsyncedTellsOfLines that could not be written.
func TestCloseUnsyncedTellsOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{CloseUnsynced: true}, nil)
		r.fs.SetSpace(0)
		r.put("one\n")
		if err := r.Close(); err == nil {
			t.Error("Close = nil, and nothing is written")
		}
	})
}

// TestSyncOfGivenFiles covers what others have written through them before, also if
// nothing is written by this writer.
func TestSyncOfGivenFiles(t *testing.T) {
	fs := crashfs.New(1)
	seed("others\n")(fs)
	app, err := fs.OpenFile(logPath, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fix, err := fs.OpenFile(logPath, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	w, err := openFiles(app, fix, Options{FS: fs, Shared: true, CloseUnsynced: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(context.Background(), w.Pos(), settle.Synced); err != nil {
		t.Error(err)
	}
	if n := w.Stats().Syncs; n != 1 {
		t.Errorf("%d syncs", n)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

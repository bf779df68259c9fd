package store

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// noNames is a disk that refuses each sync of data and each name.
func noNames(_ int, op crashfs.Op) (crashfs.Kind, error) {
	switch op.Name {
	case "sync", "rename":
		return crashfs.NotDone, syscall.EIO
	}
	return 0, nil
}

// restart ends x by a kill, begins it again and returns how many entries the start
// has stored again.
func (x *saga) restart() uint64 {
	x.t.Helper()
	x.die()
	x.open()
	rest(2 * time.Minute)
	n := count(x.s, "read_back")
	if err := x.s.Close(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	for i := range uint64(20) {
		x.check("after a power cut", x.fs.PowerCut(i), settle.Appended)
	}
	return n
}

// acked appends messages from..to-1 for uid; they are not synced.
func (x *saga) acked(uid uint32, from, to int) {
	x.t.Helper()
	appendTo(x.t, x.s, uid, settle.Appended, from, to)
	for _, m := range numbered(from, to) {
		x.level[m] = settle.Appended
	}
}

// TestKilledBeforeItHasItsName kills the process when syncs have failed of files that
// a rotation is yet to name: the one that was current, and the one that is.
func TestKilledBeforeItHasItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSaga(t, 1, 1)
		x.fs.FailWhen(nil)
		rest(time.Second) // the next file is prepared and synced
		x.fs.FailWhen(noNames)
		x.acked(0, 0, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := x.s.Rotate(ctx); err == nil {
			t.Fatal("rotated, though the disk takes no name")
		}
		x.acked(0, 10, 20)
		rest(1100 * time.Millisecond) // the syncs, which fail, come after a second
		files := x.s.open()
		if len(files) != 2 {
			t.Fatalf("%d files are open", len(files))
		}
		for _, f := range files {
			if f.failed.Load() == nil || strings.HasSuffix(f.w.Path(), "~") {
				t.Fatalf("%s: %v", f.w.Path(), f.failed.Load())
			}
		}
		if n := x.restart(); n < 20 {
			t.Errorf("%d entries stored again, want 20 and what the store has said", n)
		}
	})
}

// TestKilledBeforeTheArchiveIsSetAside kills the process when the last sync of a file
// has failed that has the name of an archive, which the disk keeps.
func TestKilledBeforeTheArchiveIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSaga(t, 1, 1)
		x.fs.FailWhen(nil)
		rest(time.Second)
		x.acked(0, 0, 10)
		named := false
		x.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
			if !named {
				named = op.Name == "rename" && strings.HasSuffix(op.Path, "/system.journal")
				return 0, nil
			}
			if strings.Contains(op.Path, "/system@") {
				return noNames(0, op)
			}
			return 0, nil
		})
		if err := x.s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		rest(100 * time.Millisecond)
		if files := x.s.open(); len(files) != 1 {
			t.Fatalf("%d files are open: the archiver has not given up", len(files))
		}
		if n := x.restart(); n < 10 {
			t.Errorf("%d entries stored again, want 10 and what the store has said", n)
		}
	})
}

package store

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// letRun lets a goroutine that was just started come to where it blocks.
func letRun() {
	for range 10_000 {
		runtime.Gosched()
	}
}

// appended is a store with an entry that is not synced, the file it is in, and the
// next one prepared.
func appended(t *testing.T, cfg Config, owner uint32) (*Store, *slot, *file) {
	t.Helper()
	s := open(t, cfg)
	ticket, err := s.Append(t.Context(), []entry.Entry{line(owner, "a message")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), ticket, settle.Appended); err != nil {
		t.Fatal(err)
	}
	for changed := s.progress.C(); s.spares.len() < s.sparesWanted(); changed = s.progress.C() {
		<-changed
	}
	sl := s.slotOf(owner)
	return s, sl, sl.shown.Load()
}

// rotateNow is what an append to a full file does.
func rotateNow(t *testing.T, s *Store, sl *slot) {
	t.Helper()
	for {
		changed := s.progress.C()
		sl.mu.Lock()
		done := sl.swap("a test")
		sl.mu.Unlock()
		if done {
			return
		}
		<-changed
	}
}

// TestSynchronizeMissesNoRotatedFile: a file that is rotated out while a Synchronize
// lists them is among them, unless it owes nothing any more.
func TestSynchronizeMissesNoRotatedFile(t *testing.T) {
	s, sl, f := appended(t, testConfig(t.TempDir(), vfs.OS{}), 0)
	s.usersMu.Lock() // keeps the list from the current files
	listed := make(chan []*file)
	go func() { listed <- s.open() }()
	letRun()
	rotateNow(t, s, sl)
	s.usersMu.Unlock()
	if files := <-listed; !slices.Contains(files, f) && f.w.Stats().Unsynced > 0 {
		t.Error("the file that was rotated out is in no list")
	}
}

// TestRotatedFileIsListedFirst: a file does not leave the current ones before it is
// among those to be archived.
func TestRotatedFileIsListedFirst(t *testing.T) {
	s, sl, f := appended(t, testConfig(t.TempDir(), vfs.OS{}), 0)
	s.queueMu.Lock()
	rotated := make(chan struct{})
	go func() { rotateNow(t, s, sl); close(rotated) }()
	letRun()
	if sl.shown.Load() != f {
		t.Error("the file is not current, and nowhere else")
	}
	s.queueMu.Unlock()
	<-rotated
}

// TestSynchronizeWaitsForAFileBeingClosed: an idle user's file leaves the current
// ones before it is synced.
func TestSynchronizeWaitsForAFileBeingClosed(t *testing.T) {
	disk := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), disk)
	cfg.Split = true
	s, sl, f := appended(t, cfg, 1000)
	for changed := s.progress.C(); !s.named() || s.spares.len() < s.sparesWanted(); changed = s.progress.C() {
		<-changed
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun); <-goOn })
	disk.Set(func(op, _ string) error { // nobody else syncs: all next files are prepared
		if strings.HasSuffix(op, "sync") {
			once()
		}
		return nil
	})
	closed := make(chan struct{})
	go func() { s.closeSlot(sl); close(closed) }()
	<-begun
	if sl.shown.Load() != nil || !slices.Contains(s.open(), f) {
		t.Error("a Synchronize does not know of the file that is being closed")
	}
	close(goOn)
	<-closed
	if slices.Contains(s.open(), f) {
		t.Error("the file is closed and still in the list")
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPassIsStuckWithAppends: what a watchdog calls does not return while an append
// holds its file.
func TestPassIsStuckWithAppends(t *testing.T) {
	s, sl, _ := appended(t, testConfig(t.TempDir(), vfs.OS{}), 0)
	s.Pass()
	sl.mu.Lock()
	passed := make(chan struct{})
	go func() { s.Pass(); close(passed) }()
	letRun()
	select {
	case <-passed:
		t.Error("it returned")
	default:
	}
	sl.mu.Unlock()
	<-passed
}

// TestArchivedWaitsForTheHeader: what was rotated out is ARCHIVED in its header, and so
// free to be removed, when Archived returns.
func TestArchivedWaitsForTheHeader(t *testing.T) {
	s, _, f := appended(t, testConfig(t.TempDir(), vfs.OS{}), 0)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Archived(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone, err := Vacuum(vfs.OS{}, filepath.Dir(f.w.Path()), Stay{Files: 1}, time.Now(), false)
	if err != nil || len(gone) != 1 || gone[0].Name != filepath.Base(f.w.Path()) {
		t.Errorf("Vacuum behind Archived removed %v, %v; want %s", gone, err, f.w.Path())
	}
}

// TestArchivedWaitsForTheDisk: not before the syncs that make an archive are done, and
// no longer than its caller wants to.
func TestArchivedWaitsForTheDisk(t *testing.T) {
	fsys := &hookfs.FS{}
	s, _, _ := appended(t, testConfig(t.TempDir(), fsys), 0)
	release := fsys.HoldSyncs()
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	archived := make(chan error, 1)
	go func() { archived <- s.Archived(ctx) }()
	letRun()
	select {
	case err := <-archived:
		t.Fatalf("Archived = %v while the sync is held", err)
	default:
	}
	cancel()
	if err := <-archived; !errors.Is(err, context.Canceled) {
		t.Errorf("Archived = %v, want that of its context", err)
	}
	release()
	if err := s.Archived(t.Context()); err != nil {
		t.Errorf("Archived behind the sync = %v", err)
	}
}

// TestArchivedTellsARefusal: a file that the disk does not take to its end is not
// waited for.
func TestArchivedTellsARefusal(t *testing.T) {
	fsys := &hookfs.FS{}
	s, _, f := appended(t, testConfig(t.TempDir(), fsys), 0)
	fsys.Set(func(op, _ string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := s.TryAppend([]entry.Entry{line(0, "not written")}); err != nil {
		t.Fatal(err)
	}
	leave := func(list []leaving) {
		s.queueMu.Lock()
		defer s.queueMu.Unlock()
		s.leaving = list
	}
	leave([]leaving{{f: f}})
	for range 2 { // also when the refusal before is known
		if err := s.Archived(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Archived = %v, want ENOSPC", err)
		}
	}
	leave(nil)
	fsys.Set(nil)
}

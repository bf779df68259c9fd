package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// failSyncs fails every fdatasync, and nothing else.
func failSyncs(op, _ string) error {
	if op == "datasync" {
		return syscall.EIO
	}
	return nil
}

// aside counts the files that were set aside.
func countAside(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	for _, name := range names(t, filepath.Join(dir, testMachine.String())) {
		if strings.HasSuffix(name, "~") {
			n++
		}
	}
	return n
}

// TestFailingSyncsSetFewFilesAside lets every sync fail for half a minute, then
// for two more: a file a minute is set aside, those in between say so to whoever
// waits, and nothing that was archived before is removed.
func TestFailingSyncsSetFewFilesAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		cfg.Sync = settle.All()
		cfg.Limits.MaxFiles = 3
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the next file is ready, and synced
		fsys.Set(failSyncs)
		run := func(d time.Duration) {
			for range int(d / (500 * time.Millisecond)) {
				ticket, err := s.Append(t.Context(), []entry.Entry{line(0, "unlucky")})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Wait(t.Context(), ticket, settle.Synced); !errors.Is(err, syscall.EIO) {
					t.Fatalf("Wait = %v, want EIO", err)
				}
				time.Sleep(500 * time.Millisecond)
			}
		}
		run(30 * time.Second)
		if n := countAside(t, dir); n != 1 {
			t.Errorf("%d files set aside in half a minute, want 1", n)
		}
		if err := s.Synchronize(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Errorf("Synchronize while syncs fail = %v, want EIO", err)
		}
		run(6 * time.Minute)
		if n := countAside(t, dir); n < 2 || n > 3 {
			t.Errorf("%d files set aside, want no more than are kept, 3", n)
		}
		fsys.Set(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		appendNumbered(t, s, 10, 20)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := strings.Join(storedIn(t, dir, false, "system@"), "\n")
		if !strings.Contains(kept, "message 9") {
			t.Error("the archive from before is gone")
		}
	})
}

// TestFailedSyncIsReportedOnce fails a sync that nobody waits for: when the file
// has been replaced, the next Synchronize reports it, and the one after does not.
func TestFailedSyncIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		cfg.Sync = settle.Every(time.Second)
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		fsys.Set(failSyncs)
		if _, err := s.Append(t.Context(), []entry.Entry{line(0, "unlucky")}); err != nil {
			t.Fatal(err)
		}
		for countAside(t, dir) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		fsys.Set(nil)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if files := s.Status().Files; len(files) != 1 {
			t.Fatalf("%d files, want the new one only", len(files))
		}
		if err := s.Synchronize(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Errorf("first Synchronize after the loss = %v, want EIO", err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("second Synchronize = %v", err)
		}
	})
}

// TestAsideFilesAreCountedAmongThemselves has more files set aside than files are
// allowed, beside an archive.
func TestAsideFilesAreCountedAmongThemselves(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, &hookfs.FS{})
	cfg.Limits.MaxFiles = 3
	s := open(t, cfg)
	appendNumbered(t, s, 0, 10)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		name := journal.DisposedName("system", uint64(i+1), 7)
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.vacuum(0); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(names(t, s.dir), "\n")
	for i := range 9 {
		if got, want := strings.Contains(all, fmt.Sprintf("@%016x-", i+1)), i >= 6; got != want {
			t.Errorf("file %d set aside is kept: %v, want %v", i, got, want)
		}
	}
	if got := storedIn(t, dir, false, "system@"+s.system.f.w.Stats().SeqnumID.String()); len(got) != 10 {
		t.Errorf("%d entries archived, want 10", len(got))
	}
}

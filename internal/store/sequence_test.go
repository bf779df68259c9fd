package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// put appends an entry of each owner and waits until it is written.
func put(t *testing.T, s *Store, owners ...uint32) {
	t.Helper()
	for _, o := range owners {
		ticket, err := s.Append(t.Context(), []entry.Entry{line(o, "x")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
			t.Fatal(err)
		}
	}
}

// sequenceOf returns where the slot of owner is.
func sequenceOf(s *Store, owner uint32) (id entry.ID, n uint64) {
	sl := s.slotOf(owner)
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.f == nil {
		return sl.seqnumID, sl.seqnum
	}
	return sl.f.w.Seqnum()
}

// TestSequenceGoesOn stops a store in all the ways there are: the system's
// sequence and a user's go on behind what they had.
func TestSequenceGoesOn(t *testing.T) {
	stop := func(t *testing.T, s *Store) string {
		t.Helper()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.cfg.Dir
	}
	rotate := func(t *testing.T, s *Store) {
		t.Helper()
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		stop func(t *testing.T, s *Store) (dir string)
	}{
		{"stop", stop},
		{"kill", crashed},
		{"rotate and stop", func(t *testing.T, s *Store) string { rotate(t, s); return stop(t, s) }},
		{"rotate and kill", func(t *testing.T, s *Store) string { rotate(t, s); return crashed(t, s) }},
		{"kill before the archive is finished", func(t *testing.T, s *Store) string {
			dir := crashed(t, s)
			for _, base := range []string{"system", "user-1000"} {
				from := filepath.Join(dir, testMachine.String(), base+".journal")
				id, _ := s.system.f.w.Seqnum()
				err := os.Rename(from, filepath.Join(filepath.Dir(from), journal.ArchiveName(base, id, 1, 1)))
				// The janitor may not have named the file when the crash came.
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			return dir
		}},
		{"set aside", func(t *testing.T, s *Store) string {
			dir := stop(t, s)
			for _, base := range []string{"system", "user-1000"} {
				from := filepath.Join(dir, testMachine.String(), base+".journal")
				if err := os.Rename(from, filepath.Join(filepath.Dir(from), journal.DisposedName(base, 1, 1))); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(t.TempDir(), nil)
			cfg.Split = true
			s := open(t, cfg)
			put(t, s, 0, 1000, 0, 1000, 1000)
			type at struct {
				id entry.ID
				n  uint64
			}
			var before [2]at
			owners := [2]uint32{0, 1000}
			for i, o := range owners {
				before[i].id, before[i].n = sequenceOf(s, o)
			}
			cfg.Dir = tt.stop(t, s)
			s = open(t, cfg)
			put(t, s, 0, 1000)
			for i, o := range owners {
				id, n := sequenceOf(s, o)
				if id != before[i].id || n <= before[i].n {
					t.Errorf("owner %d: %d of %s follows %d of %s", o, n, id, before[i].n, before[i].id)
				}
			}
		})
	}
}

// TestRepairOnAFullDiskIsTriedAgain starts, after a crash, on a disk that takes
// no writes: the file is not given up, the store starts nevertheless, makes
// senders wait, and goes on when there is space; the next start repairs the file.
func TestRepairOnAFullDiskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, testConfig(t.TempDir(), nil))
		appendNumbered(t, s, 0, 10)
		cfg := testConfig(crashed(t, s), &hookfs.FS{})
		dir := cfg.Dir
		fsys := cfg.FS.(*hookfs.FS)
		fsys.Set(func(op, _ string) error {
			switch op {
			case "create", "write", "allocate":
				return syscall.ENOSPC
			}
			return nil
		})
		var operator said
		cfg.Say = operator.say
		s = open(t, cfg)
		if n := countAside(t, dir); n != 0 {
			t.Errorf("%d files given up", n)
		}
		if _, err := s.TryAppend([]entry.Entry{line(0, "refused")}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("TryAppend on the full disk = %v, want ENOSPC", err)
		}
		if !s.Status().Full || !operator.has("the disk is full") {
			t.Errorf("neither status nor the operator know: %q", operator.lines)
		}
		done := make(chan error)
		go func() {
			_, err := s.Append(t.Context(), []entry.Entry{line(0, "message 10")})
			done <- err
		}()
		synctest.Wait()
		fsys.Set(nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = open(t, cfg)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, 11), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestFirstFileOnAFullDisk starts where nothing was, on a full disk.
func TestFirstFileOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		fsys.Set(func(op, _ string) error {
			if op == "create" {
				return syscall.ENOSPC
			}
			return nil
		})
		dir := t.TempDir()
		s := open(t, testConfig(dir, fsys))
		done := make(chan error)
		go func() {
			_, err := s.Append(t.Context(), numberedEntries(0, 10))
			done <- err
		}()
		synctest.Wait()
		fsys.Set(nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, 10), storedIn(t, dir, false, "system.journal")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

func numberedEntries(from, to int) (entries []entry.Entry) {
	for _, text := range numbered(from, to) {
		entries = append(entries, line(0, text))
	}
	return entries
}

// TestUncleanFileOfAnotherMachine finds one under a current name and one under
// that of an archive: neither is changed, the first is moved out of the way.
func TestUncleanFileOfAnotherMachine(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	there := filepath.Join(cfg.Dir, testMachine.String())
	if err := os.MkdirAll(there, 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	w, err := journal.Create(other, journal.Options{MachineID: entry.ID{9}, BootID: testBoot})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, _, err := w.Append(t.Context(), numberedEntries(0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	online, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	archive := journal.ArchiveName("system", entry.ID{8}, 1, 1)
	for _, name := range []string{"system.journal", archive} {
		if err := os.WriteFile(filepath.Join(there, name), online, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, cfg)
	put(t, s, 0)
	same := 0
	for _, name := range names(t, there) {
		got, err := os.ReadFile(filepath.Join(there, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, online) && (name == archive || strings.HasSuffix(name, "~")) {
			same++
		}
	}
	if same != 2 {
		t.Errorf("%d of 2 files are as they were: %q", same, names(t, there))
	}
	if id, _ := sequenceOf(s, 0); id == (entry.ID{8}) {
		t.Error("the sequence of another machine goes on")
	}
}

package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// TestRotationsWaitForNoSync holds every sync: files are rotated all the same, by
// command and because they are full, for users too, and what is appended is
// written. Who waits for a sync gets it after the release, for all files.
func TestRotationsWaitForNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		cfg.Split = true
		s := open(t, cfg)
		synctest.Wait()
		release := fsys.HoldSyncs()
		first, err := s.Append(t.Context(), []entry.Entry{line(0, "message 0")})
		if err != nil {
			t.Fatal(err)
		}
		synced := make(chan error, 2)
		go func() { synced <- s.Wait(t.Context(), first, settle.Synced) }()
		const full = 1536 // entries, of a file
		n := 1
		for round := range 3 {
			for range full * 3 / 2 {
				ticket, err := s.Append(t.Context(), []entry.Entry{line(0, fmt.Sprintf("message %d", n)), line(uint32(2000+round), fmt.Sprint("of a user ", n))})
				if err == nil {
					err = s.Wait(t.Context(), ticket, settle.Appended)
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if err := s.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.counts.rotations.Load(); got < 6 {
			t.Errorf("%d rotations, want 6 at least", got)
		}
		go func() { synced <- s.Synchronize(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-synced:
			t.Errorf("synced, with %v, while every sync is held", err)
		default:
		}
		release()
		for range 2 {
			if err := <-synced; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, n), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestOpenedFilesWaitForNoSync holds every sync while a user comes back whose file
// was closed: what the user says is written, and nobody else waits.
func TestOpenedFilesWaitForNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		cfg.Split = true
		s := open(t, cfg)
		put(t, s, 2000)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = open(t, cfg)
		synctest.Wait()
		release := fsys.HoldSyncs()
		ticket, err := s.Append(t.Context(), []entry.Entry{line(2000, "back again"), line(0, "message 0")})
		if err == nil {
			err = s.Wait(t.Context(), ticket, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		release()
		if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if got := storedIn(t, dir, false, "user-2000"); len(got) != 2 || got[1] != "back again" {
			t.Errorf("the user's entries: %q", got)
		}
	})
}

// TestPreparedFileCannotBeSynced fails the syncs of prepared files: none that could
// not be synced is used, they are made again now and then, and it is said once.
func TestPreparedFileCannotBeSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookfs.FS{}
		cfg := testConfig(t.TempDir(), fsys)
		var operator said
		cfg.Say = operator.say
		s := open(t, cfg)
		appendNumbered(t, s, 0, 1)
		synctest.Wait()
		made := 0
		fsys.Set(func(op, name string) error {
			switch {
			case op == "create":
				made++
			case op == "sync" && strings.HasPrefix(filepath.Base(name), nextPrefix):
				return syscall.EIO
			}
			return nil
		})
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * retryPause)
		synctest.Wait()
		if made < 9 || made > 12 {
			t.Errorf("%d files made in 10 s, want one a second", made)
		}
		fsys.Set(nil)
		time.Sleep(2 * retryPause)
		for range 3 {
			if err := s.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			ticket, err := s.Append(t.Context(), []entry.Entry{line(0, "after it")})
			if err == nil {
				err = s.Wait(t.Context(), ticket, settle.Synced)
			}
			if errors.Is(err, syscall.EIO) {
				t.Errorf("a file is used that could not be synced: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		operator.mu.Lock()
		defer operator.mu.Unlock()
		if n := strings.Count(strings.Join(operator.lines, "\n"), "sync the next file"); n != 1 {
			t.Errorf("said %d times, want 1: %q", n, operator.lines)
		}
	})
}

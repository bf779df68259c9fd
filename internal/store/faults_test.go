package store

import (
	"errors"
	"fmt"
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

// TestFullDisk fills the disk under a running store: who can be refused is
// refused, who cannot waits, nothing that was accepted is lost, and when there
// is space again it goes on by itself and says so.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		cfg.Buffer = 4000
		var operator said
		cfg.Say = operator.say
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		fsys.Set(func(op, _ string) error {
			switch op {
			case "create", "write", "allocate":
				return syscall.ENOSPC
			}
			return nil
		})
		// Accepted before anyone knows.
		ticket, err := s.TryAppend([]entry.Entry{line(0, "message 10")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), ticket, settle.Appended); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Wait on the full disk = %v, want ENOSPC", err)
		}
		if _, err := s.TryAppend([]entry.Entry{line(0, "refused")}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("TryAppend on the full disk = %v, want ENOSPC", err)
		}
		if !s.Status().Full || !operator.has("the disk is full") {
			t.Errorf("neither status nor the operator know: %+v, %q", s.Status(), operator.lines)
		}
		done := make(chan error)
		go func() {
			for i := 11; i < 100; i++ {
				if _, err := s.Append(t.Context(), []entry.Entry{line(0, fmt.Sprintf("message %d", i))}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("appends did not wait while the buffer was full: %v", err)
		default:
		}
		if got := s.Status().Buffered; got < 4000 || got > 5000 {
			t.Errorf("%d bytes buffered, want about the bound of 4000", got)
		}
		fsys.Set(nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
			t.Errorf("Wait after there is space = %v", err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("Synchronize after there is space = %v", err)
		}
		time.Sleep(2 * retryPause)
		synctest.Wait()
		if s.Status().Full {
			t.Error("status still says that the disk is full")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, 100), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if own := storedIn(t, dir, true, "system"); !strings.Contains(strings.Join(own, "\n"), "the disk was full and senders waited") {
			t.Error("no entry tells that the disk was full")
		}
	})
}

// TestNoSpaceForTheNextFile rotates while no file can be created: appends wait,
// TryAppend says why, and all goes on when there is space.
func TestNoSpaceForTheNextFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		synctest.Wait() // the next file is ready
		fsys.Set(func(op, _ string) error {
			if op == "create" {
				return syscall.ENOSPC
			}
			return nil
		})
		appendNumbered(t, s, 0, 1500)
		if err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the one after that cannot be made
		n := 1500
		for ; ; n++ {
			if _, err := s.TryAppend([]entry.Entry{line(0, fmt.Sprintf("message %d", n))}); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("TryAppend without a next file = %v, want ENOSPC", err)
				}
				break
			}
		}
		if !s.Status().Full {
			t.Error("status does not say that the disk is full")
		}
		done := make(chan error)
		go func() {
			_, err := s.Append(t.Context(), []entry.Entry{line(0, fmt.Sprintf("message %d", n))})
			done <- err
		}()
		synctest.Wait()
		fsys.Set(nil)
		if err := <-done; err != nil {
			t.Errorf("Append = %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, n+1), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestFailedSync fails one sync: who waits for it learns it, the file is set
// aside, and what comes after goes to a new file that can be synced.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		var operator said
		cfg.Say = operator.say
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		fsys.Set(func(op, _ string) error {
			if op == "datasync" {
				return syscall.EIO
			}
			return nil
		})
		ticket, err := s.Append(t.Context(), []entry.Entry{line(0, "message 10")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), ticket, settle.Synced); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait for the failed sync = %v, want EIO", err)
		}
		fsys.Set(nil)
		if err := s.Wait(t.Context(), ticket, settle.Synced); !errors.Is(err, syscall.EIO) {
			t.Errorf("second Wait = %v: a failed sync was retried into success", err)
		}
		synctest.Wait()
		appendNumbered(t, s, 11, 20)
		if err := s.Synchronize(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Errorf("first Synchronize after the failed sync = %v, want EIO", err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("Synchronize of the new file = %v", err)
		}
		if !operator.has("system.journal set aside as system@") {
			t.Errorf("the operator was told %q", operator.lines)
		}
		if st := s.Status(); st.SyncErrors != 1 {
			t.Errorf("%d failed syncs counted, want 1", st.SyncErrors)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(numbered(0, 20), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if own := storedIn(t, dir, true, "system.journal"); len(own) == 0 || !strings.HasPrefix(own[0], "system.journal set aside as") {
			t.Errorf("first entry of the new file: %q", own[:min(1, len(own))])
		}
	})
}

// TestRenameIsTriedAgain lets the janitor fail to give a file its name.
func TestRenameIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		appendNumbered(t, s, 0, 10)
		for _, op := range []string{"rename", "syncdir"} {
			nextFile(t, s)
			synctest.Wait() // it is synced
			left := 3
			fsys.Set(func(got, _ string) error {
				if got == op && left > 0 {
					left--
					return syscall.EIO
				}
				return nil
			})
			if err := s.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			appendNumbered(t, s, 0, 10)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		want := append(append(numbered(0, 10), numbered(0, 10)...), numbered(0, 10)...)
		if diff := cmp.Diff(want, storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestFailingWrites lets writes fail: the operator and an entry tell it, status
// does until it works again, and nothing is lost.
func TestFailingWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		var operator said
		cfg.Say = operator.say
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		fsys.Set(func(op, _ string) error {
			if op == "write" {
				return syscall.EIO
			}
			return nil
		})
		ticket, err := s.Append(t.Context(), []entry.Entry{line(0, "message 10")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), ticket, settle.Appended); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait = %v, want EIO", err)
		}
		time.Sleep(10 * time.Second)
		if err := s.Status().Failing; !errors.Is(err, syscall.EIO) {
			t.Errorf("status says %v, want EIO", err)
		}
		told := 0
		for _, l := range operator.lines {
			if strings.Contains(l, "a write failed") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("said %d times: %q", told, operator.lines)
		}
		fsys.Set(nil)
		if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
			t.Errorf("Wait when writes work again = %v", err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Status().Failing; err != nil {
			t.Errorf("status still says %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifyAll(t, dir)
		if diff := cmp.Diff(numbered(0, 11), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if own := storedIn(t, dir, true, "system"); !strings.Contains(strings.Join(own, "\n"), "a write failed") {
			t.Error("no entry tells that writes failed")
		}
	})
}

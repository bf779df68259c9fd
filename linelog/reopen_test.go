package linelog

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

func (r *rig) rename(to string) {
	r.t.Helper()
	if err := r.fs.Rename(logPath, to); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) reopened() {
	r.t.Helper()
	if err := r.Reopen(); err != nil {
		r.t.Fatal(err)
	}
}

// As logrotate does it: the file is renamed, lines go there until Reopen, and the
// file before is synced by itself, under any policy.
func TestReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		r.put("one\n")
		r.appended()
		r.reopened() // the path leads to the same file
		if st := r.Stats(); st.Syncs != 0 {
			t.Errorf("a reopen of the same file: %+v", st)
		}
		r.rename(logPath + ".1")
		r.put("two\n")
		r.appended()
		r.reopened()
		r.put("three\n")
		synctest.Wait()
		if got := string(r.fs.Bytes(logPath + ".1")); got != "one\ntwo\n" {
			t.Errorf("the file before holds %q", got)
		}
		r.want("three\n")
		if st := r.Stats(); st.Syncs == 0 {
			t.Errorf("the file before is not synced: %+v", st)
		}
		h := &history{accepted: []string{"one", "two"}, synced: map[string]bool{"one": true, "two": true}}
		h.powerCuts(t, r.fs)
		r.close()
	})
}

// Reopen does not wait for a sync, and what was not written goes to the new file.
func TestReopenDuringASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		gate := make(chan struct{})
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" {
				<-gate
			}
			return nil
		})
		r.put("one\n")
		waited := make(chan struct{})
		go func() { r.synced(); close(waited) }()
		synctest.Wait()
		r.rename(logPath + ".1")
		r.reopened() // while the sync is held
		r.put("two\n")
		r.appended()
		r.want("two\n")
		close(gate)
		<-waited
		r.close()
		h := &history{accepted: []string{"one", "two"}, synced: map[string]bool{"one": true, "two": true}}
		h.powerCuts(t, r.fs)
		h.check(t, contents(t, r.fs), 0, true)
	})
}

// When the file before cannot be synced, the new one takes its lines over.
func TestReopenAndFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		r.put("one\n")
		r.synced()
		r.put("two\n")
		r.appended()
		r.rename(logPath + ".1")
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" && op.Path == logPath+".1" {
				return syscall.EIO
			}
			return nil
		})
		r.reopened()
		r.put("three\n")
		synctest.Wait()
		r.synced()
		if got := contents(t, r.fs)["access.log"]; !slices.Equal(slices.Sorted(slices.Values(got)), []string{"three", "two"}) {
			t.Errorf("the new file has %q", got)
		}
		r.close()
	})
}

// Lines of two files are told apart, also where one ends at the offset at which the
// writer begins in the other.
func TestReopenOfAFileThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		r.put("one\n")
		r.synced()
		r.put("two\n")
		r.appended()
		r.rename(logPath + ".1")
		seed("abc\ndef\n")(r.fs)
		gate := make(chan struct{})
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "sync" && op.Path == logPath+".1" {
				<-gate
				return syscall.EIO
			}
			return nil
		})
		r.reopened()
		r.put("three\n")
		r.appended()
		close(gate)
		synctest.Wait()
		r.close()
		r.want("abc\n", "def\n", "three\n", "two\n")
	})
}

// The file before cannot be synced while a write to the new one fails: what is taken
// over is not forgotten over the lines that wait, and none is acknowledged too early.
func TestTakeOverDuringAFailedWrite(t *testing.T) {
	for _, kind := range []crashfs.Kind{crashfs.NotDone, crashfs.DoneButFailed, crashfs.Short} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			r.put("one\n")
			r.appended()
			r.rename(logPath + ".1")
			var second Pos
			r.fs.Hook(func(_ int, op crashfs.Op) error {
				if op.Name != "sync" || op.Path != logPath+".1" {
					return nil
				}
				r.fs.FailAt(1, kind, syscall.EIO)
				second = r.append1("two, and some more\n")
				if err := r.Wait(context.Background(), second, settle.Appended); err == nil {
					t.Error("the write has not failed")
				}
				return syscall.EIO
			})
			r.reopened()
			synctest.Wait()
			if err := r.Wait(context.Background(), second, settle.Synced); err != nil {
				t.Error(err)
			}
			h := &history{accepted: []string{"one", "two, and some more"}, synced: map[string]bool{"one": true, "two, and some more": true}}
			files := contents(t, r.fs)
			h.check(t, files, 1, true) // "one" is also in the file before
			delete(files, "access.log.1")
			h.check(t, files, 0, true)
			r.close()
		})
	}
}

// When the path cannot be opened, the file before stays in use.
func TestReopenFails(t *testing.T) {
	r := newRig(t, Options{}, nil)
	r.put("one\n")
	r.appended()
	r.rename(logPath + ".1")
	r.fs.FailAt(1, crashfs.NotDone, syscall.EMFILE)
	if err := r.Reopen(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Reopen = %v", err)
	}
	r.put("two\n")
	r.close()
	if got := string(r.fs.Bytes(logPath + ".1")); got != "one\ntwo\n" {
		t.Errorf("the file before holds %q", got)
	}
}

// A write that failed and yet has left lines in the file before is not repeated in
// the new one, and its torn end is marked.
func TestReopenAfterAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		var fail atomic.Bool
		fail.Store(true)
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if fail.Load() && op.Name == "read" { // the look at what the write has left
				return syscall.EIO
			}
			return nil
		})
		r.fs.FailAt(1, crashfs.DoneButFailed, syscall.EIO)
		r.put("one\n")
		synctest.Wait()
		r.rename(logPath + ".1")
		fail.Store(false)
		r.reopened()
		r.put("two\n")
		r.close()
		r.want("two\n")
		if got := string(r.fs.Bytes(logPath + ".1")); got != "one\n" {
			t.Errorf("the file before holds %q", got)
		}
	})
}

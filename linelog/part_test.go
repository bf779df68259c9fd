package linelog

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// A write fails while a sync does that fails, too. What it has left in the file that is
// set aside is in the fresh one as well, and counted as such; so it is where the disk
// does not tell what is there. The same where the file was renamed meanwhile.
func TestFailedWriteToAFileThatIsLeft(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kind   crashfs.Kind
		unread bool
		again  uint64 // lines
		aside  []string
	}{
		{"done", crashfs.DoneButFailed, false, 3, []string{"one", "two", "three"}},
		{"done and unreadable", crashfs.DoneButFailed, true, 3, []string{"one", "two", "three"}},
		{"not done", crashfs.NotDone, false, 1, []string{"one"}},
		{"not done and unreadable", crashfs.NotDone, true, 1, []string{"one"}},
	} {
		for _, renamed := range []bool{false, true} {
			name := tc.name
			if renamed {
				name += ", renamed"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, Options{}, nil)
					pos := r.append1("one\n")
					r.appended()
					syncing, release := make(chan struct{}), make(chan struct{})
					r.fs.Hook(func(_ int, op crashfs.Op) error {
						if op.Name == "sync" {
							close(syncing)
							<-release
							return syscall.EIO
						}
						return nil
					})
					r.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
						if op.Name == "write" || op.Name == "read" && tc.unread {
							return tc.kind, syscall.EIO
						}
						return 0, nil
					})
					result := make(chan error)
					go func() { result <- r.Wait(context.Background(), pos, settle.Synced) }()
					<-syncing
					r.put("two\nthree\n")
					if err := r.Wait(context.Background(), r.Pos(), settle.Appended); !errors.Is(err, syscall.EIO) {
						t.Errorf("Wait for a write that fails: %v", err)
					}
					if renamed {
						if err := r.fs.Rename(logPath, logPath+".1"); err != nil {
							t.Error(err)
						}
					}
					close(release)
					if err := <-result; !errors.Is(err, ErrSync) {
						t.Errorf("Wait for a sync that fails: %v", err)
					}
					r.fs.Hook(nil)
					r.fs.FailWhen(nil)
					r.synced()
					r.want("one\n", "two\n", "three\n")
					if st := r.Stats(); st.Again != tc.again || st.SetAside != 1 || st.Lost != 0 {
						t.Errorf("%+v, want %d lines again", st, tc.again)
					}
					for name, lines := range contents(t, r.fs) {
						if name != "access.log" && !slices.Equal(lines, tc.aside) {
							t.Errorf("%s has %q, want %q", name, lines, tc.aside)
						}
					}
					r.close()
				})
			})
		}
	}
}

// A short write has left whole lines, and their file is exchanged after a failed sync.
// That they are in the fresh one is no ack for the rest of the batch, which is not.
func TestShortWriteBeforeAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		short := true
		r.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
			if op.Name == "write" && short {
				short = false
				return crashfs.Short, io.ErrShortWrite
			}
			return 0, nil
		})
		r.put("one\ntwo\nthree\nfour\n")
		r.appended()
		var fail atomic.Bool
		fail.Store(true)
		r.failSyncs(&fail)
		if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
			t.Errorf("Sync = %v", err)
		}
		fail.Store(false)
		r.synced()
		for seed := range uint64(10) {
			if got := string(r.fs.PowerCut(seed).Bytes(logPath)); got != "one\ntwo\nthree\nfour\n" {
				t.Errorf("after a sync and a power cut the log holds %q", got)
			}
		}
		r.close()
	})
}

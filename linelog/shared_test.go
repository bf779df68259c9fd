package linelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// another is a second writer of the log of r.
func (r *rig) another(o Options) *rig {
	r.t.Helper()
	o.FS = r.fs
	w, err := Open(logPath, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return &rig{Writer: w, t: r.t, fs: r.fs}
}

// With Trailing the lines of a short process are one write, by Close or when somebody
// waits, and no line waits for longer than the window.
func TestTrailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		r := newRig(t, Options{Shared: true, CloseUnsynced: true, Trailing: true, Window: time.Second}, seed("before\n"))
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "write" {
				writes++
			}
			return nil
		})
		r.put("one\n")
		r.put("two\n")
		time.Sleep(time.Second - 1)
		synctest.Wait()
		r.want("before\n")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.want("before\n", "one\n", "two\n")
		time.Sleep(time.Hour)
		r.put("three\n")
		synctest.Wait()
		r.want("before\n", "one\n", "two\n")
		r.appended() // who waits has it written at once
		r.want("before\n", "one\n", "two\n", "three\n")
		r.put("four\n")
		r.put("five\n")
		r.close()
		r.want("before\n", "one\n", "two\n", "three\n", "four\n", "five\n")
		if writes != 3 {
			t.Errorf("%d writes of five lines, want 3", writes)
		}
	})
}

// What is seen at the end of a shared file is not touched before a write of ours has
// come behind it; then it is marked, whether its writer is dead or not.
func TestSharedLeavesWhatItMerelySees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			torn Torn
			tail string
			want []string
		}{
			{Comment, "half a li", []string{"whole\n", "#alf a li\n", "next\n"}},
			{Spaces, "half a li", []string{"whole\n", "         \n", "next\n"}},
			{Comment, "h", []string{"whole\n", "#\n", "next\n"}},
			{Comment, "", []string{"whole\n", "next\n"}},
		} {
			r := newRig(t, Options{Shared: true, Torn: tt.torn}, seed("whole\n"+tt.tail))
			r.want("whole\n", tt.tail)
			r.put("next\n")
			r.appended()
			r.want(tt.want...)
			r.close()
			r.want(tt.want...)
		}
	})
}

// A write in progress that was seen at the open and has ended since: no newline more
// than needed.
func TestSharedLooksAgainBeforeTheFirstWrite(t *testing.T) {
	r := newRig(t, Options{Shared: true}, seed("in prog"))
	f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("ress\n"), 7); err != nil {
		t.Fatal(err)
	}
	r.put("next\n")
	r.close()
	r.want("in progress\n", "next\n")
}

// A writer that was there before another has died in the middle of a line is glued to
// that, sees it and marks it.
func TestSharedMarksWhatItWasGluedTo(t *testing.T) {
	for _, torn := range []Torn{Comment, Spaces} {
		r := newRig(t, Options{Shared: true, Torn: torn, Buffer: 64}, nil)
		r.put("first\n")
		r.appended()
		f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Append([]byte("theirs\ntheir la")); err != nil {
			t.Fatal(err)
		}
		r.put("second\n")
		r.appended()
		mark := "#heir l\n"
		if torn == Spaces {
			mark = "       \n"
		}
		r.want("first\n", "theirs\n", mark, "second\n")
		if st := r.Stats(); st.Torn != 1 {
			t.Errorf("Torn = %d, want 1", st.Torn)
		}
		r.close()
	}
}

// A short write of ours while another appends behind it: the piece is marked where it
// is, our line comes again, theirs is whole.
func TestSharedShortWriteWithAnotherBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Shared: true}, nil)
		other := r.another(Options{Shared: true})
		r.put("first\n")
		r.appended()
		other.put("theirs 1\n")
		other.appended()
		line := strings.Repeat("s", 500)
		repairs, writes := 0, 0
		r.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
			if op.Name != "write" {
				return 0, nil
			}
			if writes++; writes == 1 {
				return crashfs.Short, syscall.EIO
			}
			if repairs++; repairs <= 1 { // the mark of the piece fails, too
				return crashfs.NotDone, syscall.EIO
			}
			return 0, nil
		})
		r.put(line + "\n")
		if err := r.Wait(context.Background(), r.Pos(), settle.Appended); err == nil {
			t.Error("the write was short, its repair failed: no error")
		}
		other.put("theirs 2\n")
		other.appended()
		r.appended()
		r.close()
		other.close()
		got := strings.Split(strings.TrimSuffix(string(r.fs.Bytes(logPath)), "\n"), "\n")
		if len(got) != 5 || got[0] != "first" || got[1] != "theirs 1" || got[2] == "" || strings.Trim(got[2], "#") != "" || got[3] != "theirs 2" || got[4] != line {
			t.Errorf("%q", got)
		}
	})
}

// A file that is cut to nothing (copytruncate) between a write and its repair gets no
// hole, and what comes later is whole.
func TestSharedTruncatedBeforeARepair(t *testing.T) {
	for _, shared := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Shared: shared}, nil)
			r.put("first\n")
			r.appended()
			writes := 0
			r.fs.FailWhen(func(_ int, op crashfs.Op) (crashfs.Kind, error) {
				if writes++; op.Name == "write" && writes > 1 {
					return crashfs.NotDone, syscall.EIO
				}
				return crashfs.Short, syscall.EIO
			})
			r.put(strings.Repeat("s", 500) + "\n")
			if err := r.Wait(context.Background(), r.Pos(), settle.Appended); err == nil {
				t.Error("no error")
			}
			r.fs.FailWhen(nil)
			f, err := r.fs.OpenFile(logPath, os.O_RDWR|os.O_TRUNC, 0)
			if err != nil {
				t.Fatal(err)
			}
			_ = f
			r.put("next\n")
			r.appended()
			r.close()
			r.want(strings.Repeat("s", 500)+"\n", "next\n")
		})
	}
}

// A failed sync of a shared file: those who wait are told, the file stays, and what is
// not known to be on the disk is written to its end again.
func TestSharedFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Shared: true}, nil)
		r.put("first\n")
		r.synced()
		r.put("second\n")
		r.appended()
		r.fs.FailAt(1, crashfs.NotDone, syscall.EIO)
		if err := r.Sync(context.Background()); !errors.Is(err, ErrSync) {
			t.Errorf("Sync: %v", err)
		}
		r.synced()
		for seed := range uint64(20) {
			b := r.fs.PowerCut(seed).Bytes(logPath)
			if n := strings.Count(string(b), "\nsecond\n"); n == 0 {
				t.Fatalf("power cut %d: the second Sync returned nil, and a line is lost: %q", seed, b)
			}
		}
		got := strings.Split(string(r.fs.Bytes(logPath)), "\n")
		if len(got) != 5 || got[1] != "second" || !strings.HasPrefix(got[2], "# linelog: ") || !strings.HasSuffix(got[2], "lines written again after a failed sync: 1") || got[3] != "second" {
			t.Errorf("%q", got)
		}
		if st := r.Stats(); st.SetAside != 0 || st.Again != 1 {
			t.Errorf("%+v", st)
		}
		r.close()
	})
}

// The lock is taken for each batch; a batch that does not get it waits in memory, no
// caller waits, and once it is free all goes on.
func TestLockTimesOut(t *testing.T) {
	for _, k := range []vfs.LockKind{vfs.Flock, vfs.Fcntl} {
		synctest.Test(t, func(t *testing.T) {
			o := Options{Shared: true, LockTimeout: time.Second, Lock: LockFlock}
			if k == vfs.Fcntl {
				o.Lock = LockFcntl
			}
			r := newRig(t, o, nil)
			r.put("first\n")
			r.appended()
			f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Lock(k, false); err != nil {
				t.Fatalf("the lock is held between batches: %v", err)
			}
			begin := time.Now()
			r.put("second\n")
			if d := time.Since(begin); d != 0 {
				t.Errorf("Write waited %v", d)
			}
			if err := r.Wait(context.Background(), r.Pos(), settle.Appended); !errors.Is(err, ErrLock) || !strings.Contains(err.Error(), "1s") {
				t.Errorf("Wait: %v", err)
			}
			time.Sleep(20 * time.Second)
			r.want("first\n")
			if err := f.Unlock(k); err != nil {
				t.Fatal(err)
			}
			r.appended()
			r.want("first\n", "second\n")
			if st := r.Stats(); st.LockWaits == 0 || st.LockErrors == 0 {
				t.Errorf("%+v", st)
			}
			r.close()
		})
	}
}

// Auto takes no lock on a local file system until somebody else is seen to have one.
func TestLockAutoFollowsAForeignLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Shared: true}, nil)
		locks := 0
		r.fs.Hook(func(_ int, op crashfs.Op) error {
			if op.Name == "lock" {
				locks++
			}
			return nil
		})
		r.put("first\n")
		r.appended()
		if locks != 0 {
			t.Errorf("%d locks", locks)
		}
		f, err := r.fs.OpenFile(logPath, os.O_RDWR, 0)
		if err == nil {
			err = f.Lock(vfs.Fcntl, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.put("second\n")
		time.Sleep(time.Second)
		r.want("first\n")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r.appended()
		before := locks
		r.put("third\n")
		r.appended()
		if locks == before {
			t.Error("a foreign lock was seen, and the next batch has none")
		}
		if !strings.Contains(r.words(), "locks it (fcntl)") {
			t.Errorf("said: %s", r.words())
		}
		r.close()
		r.want("first\n", "second\n", "third\n")
	})
}

// On a network file system auto means fcntl; where such locks do not leave the host it
// is refused, with the reason.
func TestLockOnANetworkFileSystem(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mount vfs.Mount
		o     Options
		locks bool
		err   error
	}{
		{"local", vfs.Mount{}, Options{Shared: true}, false, nil},
		{"nfs", vfs.Mount{Type: "nfs4", Network: true}, Options{Shared: true}, true, nil},
		{"nfs, owned", vfs.Mount{Type: "nfs4", Network: true}, Options{}, false, nil},
		{"nfs, none", vfs.Mount{Type: "nfs4", Network: true}, Options{Shared: true, Lock: LockNone}, false, nil},
		{"nfs nolock", vfs.Mount{Type: "nfs", Network: true, HostFcntl: true, HostFlock: true}, Options{Shared: true}, false, ErrHosts},
		{"local flock", vfs.Mount{Type: "nfs", Network: true, HostFlock: true}, Options{Shared: true, Lock: LockFlock}, false, ErrHosts},
		{"local flock, fcntl", vfs.Mount{Type: "nfs", Network: true, HostFlock: true}, Options{Shared: true}, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := crashfs.New(1)
			if err := fs.MkdirAll("/var/log", 0o755); err != nil {
				t.Fatal(err)
			}
			fs.SetMount(tt.mount)
			locks := 0
			fs.Hook(func(_ int, op crashfs.Op) error {
				if op.Name == "lock" {
					locks++
				}
				return nil
			})
			tt.o.FS = fs
			w, err := Open(logPath, tt.o)
			if !errors.Is(err, tt.err) {
				t.Fatalf("Open: %v, want %v", err, tt.err)
			}
			if tt.err != nil {
				if !strings.Contains(err.Error(), tt.mount.Type) || !strings.Contains(err.Error(), "lock none") {
					t.Errorf("Open: %v", err)
				}
				return
			}
			fmt.Fprintln(w, "line")
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if (locks > 0) != tt.locks {
				t.Errorf("%d locks", locks)
			}
		})
	}
}

func TestParseLock(t *testing.T) {
	for _, s := range []string{"auto", "none", "flock", "fcntl"} {
		l, err := ParseLock(s)
		if err != nil || l.String() != s {
			t.Errorf("ParseLock(%q) = %v, %v", s, l, err)
		}
	}
	var l Lock
	var le *LockError
	if err := l.UnmarshalText([]byte("x")); !errors.As(err, &le) || err.Error() != `invalid lock "x": want auto, none, flock, or fcntl` {
		t.Errorf("%v", err)
	}
}

// Who shares a log does not rotate it.
func TestSharedIsNotRotated(t *testing.T) {
	r := newRig(t, Options{Shared: true}, nil)
	r.put("line\n")
	r.appended()
	if err := r.Rotate(); !errors.Is(err, ErrNotOwned) {
		t.Errorf("Rotate: %v", err)
	}
	if w, err := Open(logPath, Options{FS: r.fs, Shared: true, Rotate: Rotation{Size: 100}}); !errors.Is(err, ErrNotOwned) {
		t.Errorf("Open = %v, %v", w, err)
	}
	r.close()
	r.want("line\n")
}

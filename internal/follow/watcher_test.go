//go:build linux

package follow

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const machine = "00112233445566778899aabbccddeeff"

// limited is a context that ends a test that hangs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func watch(t *testing.T, dirs ...string) *Watcher {
	t.Helper()
	w, err := Watch(dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func write(t *testing.T, path, s string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(s); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatcherEvents(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, root, sub string)
		want []Event // paths below root
	}{
		{"a new file", func(t *testing.T, _, sub string) {
			write(t, filepath.Join(sub, "a.journal"), "x")
		}, []Event{{Changed, machine + "/a.journal"}}},
		{"many writes are one event", func(t *testing.T, root, sub string) {
			for range 10 {
				write(t, filepath.Join(sub, "old.journal"), "x")
				write(t, filepath.Join(root, "b.journal~"), "x")
			}
		}, []Event{{Changed, machine + "/old.journal"}, {Changed, "b.journal~"}}},
		{"truncated to the same size", func(t *testing.T, _, sub string) {
			must(t, os.Truncate(filepath.Join(sub, "old.journal"), 3))
		}, []Event{{Changed, machine + "/old.journal"}}},
		{"renamed", func(t *testing.T, _, sub string) {
			must(t, os.Rename(filepath.Join(sub, "old.journal"), filepath.Join(sub, "old@1.journal")))
			write(t, filepath.Join(sub, "old.journal"), "x")
		}, []Event{{Gone, machine + "/old.journal"}, {Changed, machine + "/old@1.journal"}, {Changed, machine + "/old.journal"}}},
		{"deleted", func(t *testing.T, _, sub string) {
			must(t, os.Remove(filepath.Join(sub, "old.journal")))
		}, []Event{{Gone, machine + "/old.journal"}}},
		{"from a name that is none", func(t *testing.T, _, sub string) {
			write(t, filepath.Join(sub, ".next"), "x")
			must(t, os.Rename(filepath.Join(sub, ".next"), filepath.Join(sub, "n.journal")))
		}, []Event{{Changed, machine + "/n.journal"}}},
		{"readable now", func(t *testing.T, _, sub string) {
			must(t, os.Chmod(filepath.Join(sub, "old.journal"), 0o640))
		}, []Event{{Changed, machine + "/old.journal"}}},
		{"a directory of a namespace", func(t *testing.T, root, sub string) {
			must(t, os.Mkdir(sub+".web", 0o700))
			must(t, os.Mkdir(filepath.Join(root, "elsewhere"), 0o700))
			write(t, filepath.Join(root, "elsewhere", "x.journal"), "x")
		}, []Event{{Rescan, ""}}},
		{"a directory deleted", func(t *testing.T, _, sub string) {
			must(t, os.RemoveAll(sub))
		}, []Event{{Gone, machine + "/old.journal"}, {Rescan, ""}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			sub := filepath.Join(root, machine)
			must(t, os.Mkdir(sub, 0o700))
			write(t, filepath.Join(sub, "old.journal"), "xxx")
			w := watch(t, root, filepath.Join(root, "not there"))
			tc.do(t, root, sub)
			must(t, w.Wait(limited(t)))
			var got []Event
			for _, e := range w.Take() {
				if e.Path != "" {
					e.Path, _ = filepath.Rel(root, e.Path)
				}
				got = append(got, e)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			// Whatever happened, the directories that are there are watched.
			must(t, os.MkdirAll(sub, 0o700))
			for !contains(w, filepath.Join(sub, "last.journal")) {
				write(t, filepath.Join(sub, "last.journal"), "x")
				must(t, w.Wait(limited(t)))
			}
		})
	}
}

func contains(w *Watcher, path string) bool {
	for _, e := range w.Take() {
		if e.Path == path {
			return true
		}
	}
	return false
}

func TestWatcherRenamedDirectory(t *testing.T) {
	root := t.TempDir()
	sub, other := filepath.Join(root, machine), filepath.Join(root, machine+".web")
	must(t, os.Mkdir(sub, 0o700))
	w := watch(t, root)
	must(t, os.Rename(sub, other))
	must(t, w.Wait(limited(t)))
	for !contains(w, filepath.Join(other, "x.journal")) { // by its new name
		write(t, filepath.Join(other, "x.journal"), "x")
		must(t, w.Wait(limited(t)))
	}
}

func TestWatcherLostEvents(t *testing.T) {
	root := t.TempDir()
	w := watch(t, root)
	// As after an overflow: the directory came, and its event did not.
	sub := filepath.Join(root, machine)
	must(t, os.Mkdir(sub, 0o700))
	must(t, w.Wait(limited(t)))
	w.Take()
	for wd := range w.dirs {
		if w.dirs[wd].paths[0] == sub {
			must(t, w.inConn.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) }))
			delete(w.dirs, wd)
		}
	}
	w.handle(-1, unix.IN_Q_OVERFLOW, "")
	must(t, w.Wait(limited(t)))
	if d := cmp.Diff([]Event{{Rescan, ""}}, w.Take()); d != "" {
		t.Error(d)
	}
	for !contains(w, filepath.Join(sub, "x.journal")) {
		write(t, filepath.Join(sub, "x.journal"), "x")
		must(t, w.Wait(limited(t)))
	}
}

func TestWatchFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	w, err := WatchFiles([]string{"./a.journal", filepath.Join(dir, "odd name")})
	must(t, err)
	defer w.Close()
	write(t, "b.journal", "x")
	write(t, "a.journal", "x")
	write(t, "odd name", "x")
	must(t, w.Wait(limited(t)))
	if d := cmp.Diff([]Event{{Changed, "./a.journal"}, {Changed, filepath.Join(dir, "odd name")}}, w.Take()); d != "" {
		t.Error(d)
	}
}

func TestWatchNothing(t *testing.T) {
	if _, err := Watch([]string{filepath.Join(t.TempDir(), "absent")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	if _, err := Watch([]string{file}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("got %v", err)
	}
}

func TestWaitEnds(t *testing.T) {
	t.Run("by its context", func(t *testing.T) {
		dir := t.TempDir()
		w := watch(t, dir)
		for range 100 {
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			if err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
		}
		write(t, filepath.Join(dir, "a.journal"), "x") // and it goes on working
		must(t, w.Wait(limited(t)))
	})
	t.Run("by Close", func(t *testing.T) {
		w := watch(t, t.TempDir())
		done := make(chan error)
		go func() { done <- w.Wait(limited(t)) }()
		must(t, w.Close())
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := w.Wait(limited(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: got %v", err)
		}
	})
	t.Run("when nobody reads the output", func(t *testing.T) {
		dir := t.TempDir()
		w := watch(t, dir)
		r, out, err := os.Pipe()
		must(t, err)
		defer out.Close()
		must(t, w.HangUp(out))
		write(t, filepath.Join(dir, "a.journal"), "x")
		must(t, w.Wait(limited(t)))
		w.Take()
		done := make(chan error)
		go func() { done <- w.Wait(limited(t)) }()
		must(t, r.Close())
		if err := <-done; !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a regular file never hangs up", func(t *testing.T) {
		dir := t.TempDir()
		w := watch(t, dir)
		f, err := os.Create(filepath.Join(dir, "out"))
		must(t, err)
		defer f.Close()
		must(t, w.HangUp(f))
		write(t, filepath.Join(dir, "a.journal"), "x")
		must(t, w.Wait(limited(t)))
	})
}

package linelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// opened returns a log as a client opens it.
func opened(t *testing.T, path string) (app, fix *os.File) {
	t.Helper()
	app, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if fix, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	return app, fix
}

// A writer that is given open files opens no path, also not when they are renamed, and
// refuses those that are of no use.
func TestOpenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("torn"), 0o640); err != nil {
		t.Fatal(err)
	}
	app, fix := opened(t, path)
	w, err := OpenFiles(app, fix, Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it was not taken over: %v", err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(w, "line")
	if err := w.Reopen(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Reopen: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path + ".1"); string(b) != "#orn\nline\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path was opened: %v", err)
	}

	app, fix = opened(t, path)
	other, err := os.OpenFile(path+".1", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFiles(app, other, Options{}); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("a file for repairs of another file: %v", err)
	}
	if _, err := OpenFiles(fix, nil, Options{}); err == nil || !strings.Contains(err.Error(), "second descriptor") {
		t.Errorf("no file for repairs: %v", err)
	}
	app, fix = opened(t, path)
	if _, err := OpenFiles(fix, app, Options{}); err == nil || !strings.Contains(err.Error(), "O_APPEND") {
		t.Errorf("exchanged: %v", err)
	}
}

// Repair marks what a killed writer has left, unless somebody may be writing.
func TestRepair(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("whole\ntorn"), 0o640); err != nil {
		t.Fatal(err)
	}
	w, err := Open(path, Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Repair(path, Options{}); !errors.Is(err, ErrInUse) || r.Bytes != 0 {
		t.Errorf("with a writer: %+v, %v", r, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := unix.Flock(int(reader.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if r, err := Repair(path, Options{}); !errors.Is(err, ErrInUse) || r.Bytes != 0 {
		t.Errorf("with a lock: %+v, %v", r, err)
	}
	if err := unix.Flock(int(reader.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Repaired{{6, 4}, {}} {
		if r, err := Repair(path, Options{}); r != want || err != nil {
			t.Errorf("Repair = %+v, %v, want %+v", r, err, want)
		}
	}
	if b, err := os.ReadFile(path); string(b) != "whole\n#or\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A caller that waits for nothing makes no call of the file system, whatever it gives:
// they all come from the settlers' goroutines.
func TestCallersMakeNoCalls(t *testing.T) {
	for name, o := range map[string]Options{
		"owned":  {Sync: settle.All(), Rotate: Rotation{Size: 100_000, Compression: Plain, Keep: 2}},
		"shared": {Shared: true, Sync: settle.Every(time.Millisecond), Window: -1},
		"flock":  {Shared: true, Sync: settle.All(), Lock: LockFlock},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, bad atomic.Int64
			fs := new(hookfs.FS)
			fs.Set(func(string, string) error {
				calls.Add(1)
				if bytes.Contains(debug.Stack(), []byte("linelog.callers(")) {
					bad.Add(1)
				}
				return nil
			})
			o.FS = fs
			w, err := Open(filepath.Join(t.TempDir(), "log"), o)
			if err != nil {
				t.Fatal(err)
			}
			before := calls.Load()
			callers(t, w)
			if err := w.Sync(context.Background()); err != nil {
				t.Error(err)
			}
			if n := calls.Load() - before; bad.Load() > 0 || n < 10 {
				t.Errorf("%d of %d calls were made by callers", bad.Load(), n)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// callers gives w lines in every way that waits for nothing.
func callers(t *testing.T, w *Writer) {
	s := w.Stream()
	line := bytes.Repeat([]byte("x"), 99)
	for range 3000 {
		_, err := w.Append(context.Background(), line)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err == nil {
			_, err = s.Write(line[:50])
		}
		if err != nil {
			t.Fatal(err)
		}
		w.Stats()
		w.Pos()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An append and the wait for it allocate nothing, with a lock neither.
func TestSharedAllocatesNothing(t *testing.T) {
	for _, l := range []Lock{LockAuto, LockFlock, LockFcntl} {
		w, err := Open(filepath.Join(t.TempDir(), "log"), Options{Shared: true, Lock: l, Window: -1})
		if err != nil {
			t.Fatal(err)
		}
		line := []byte("hello world\n")
		n := testing.AllocsPerRun(200, func() {
			pos, err := w.Append(context.Background(), line)
			if err == nil {
				err = w.Wait(context.Background(), pos, settle.Appended)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if n >= 1 {
			t.Errorf("lock %s: %.1f allocations a call", l, n)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

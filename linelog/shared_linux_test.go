package linelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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

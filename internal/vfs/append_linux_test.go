package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// openAppend opens a file for appending, with a path beside it.
func openAppend(t *testing.T) (File, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	f, err := OS{}.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, name
}

// Append goes to the end, wherever others have moved it, and tells where its
// own bytes are.
func TestAppendTellsWhereItWrote(t *testing.T) {
	f, name := openAppend(t)
	if n, end, err := f.Append([]byte("one\n")); n != 4 || end != 4 || err != nil {
		t.Fatal(n, end, err)
	}
	if err := os.Truncate(name, 1); err != nil { // as copytruncate does
		t.Fatal(err)
	}
	if n, end, err := f.Append([]byte("two\n")); n != 4 || end != 5 || err != nil {
		t.Fatal(n, end, err)
	}
	if b, err := os.ReadFile(name); string(b) != "otwo\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A write that is cut short is one write(2), not continued: by RLIMIT_FSIZE.
func TestAppendReportsAShortWrite(t *testing.T) {
	if os.Getenv("VFS_CHILD") == "" {
		child(t, "TestAppendReportsAShortWrite")
		return
	}
	f, name := openAppend(t)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		t.Skipf("setrlimit: %v", err)
	}
	b := bytes.Repeat([]byte("x"), 600)
	if n, end, err := f.Append(b); n != 600 || end != 600 || err != nil {
		t.Fatal(n, end, err)
	}
	if n, end, err := f.Append(b); n != 400 || end != 1000 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("across the limit: %d, %d, %v", n, end, err)
	}
	if n, _, err := f.Append(b); n != 0 || !errors.Is(err, unix.EFBIG) {
		t.Errorf("behind the limit: %d, %v", n, err)
	}
	if st, err := os.Stat(name); err != nil || st.Size() != 1000 {
		t.Error(st.Size(), err)
	}
}

// A pipe has no offsets and is no regular file.
func TestAppendToAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Skipf("mkfifo: %v", err)
	}
	r, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := OS{}.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Regular() {
		t.Error("a pipe is said to be a regular file")
	}
	if n, end, err := f.Append([]byte("x\n")); n != 2 || end != 0 || err != nil {
		t.Error(n, end, err)
	}
}

// IsAt follows a rename, a replacement and a link.
func TestIsAt(t *testing.T) {
	f, name := openAppend(t)
	if !f.Regular() || !f.IsAt(name) {
		t.Fatal("the file is not at its own name, or not regular")
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if f.IsAt(name) || !f.IsAt(name+".1") {
		t.Error("after a rename")
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.IsAt(name) {
		t.Error("another file stands at the name")
	}
	if err := os.Symlink(name+".1", name+".link"); err != nil {
		t.Fatal(err)
	}
	if !f.IsAt(name + ".link") {
		t.Error("a link to it")
	}
}

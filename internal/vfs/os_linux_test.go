package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func openTemp(t *testing.T) (File, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS{}.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, name
}

func TestOpenFileClosesOnExec(t *testing.T) {
	f, name := openTemp(t)
	flags, err := unix.FcntlInt(uintptr(f.(*osFile).fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	if st, err := (OS{}).Stat(name); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	var pe *fs.PathError
	if _, err := (OS{}).OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640); !errors.Is(err, fs.ErrExist) || !errors.As(err, &pe) || pe.Path != name {
		t.Errorf("O_EXCL on a file that exists: %v", err)
	}
}

func TestReadAtAndWriteAt(t *testing.T) {
	f, _ := openTemp(t)
	if n, err := f.WriteAt([]byte("hello"), 10); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	b := make([]byte, 5)
	if n, err := f.ReadAt(b, 10); n != 5 || err != nil || string(b) != "hello" {
		t.Errorf("ReadAt = %d, %v, %q", n, err, b)
	}
	if n, err := f.ReadAt(b, 12); n != 3 || !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt across the end = %d, %v", n, err)
	}
	if size, err := f.Size(); size != 15 || err != nil {
		t.Errorf("Size = %d, %v", size, err)
	}
}

// Again opens the file that is open, not what has its name by now.
func TestAgainIsTheSameFile(t *testing.T) {
	f, name := openTemp(t)
	if err := os.Rename(name, name+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := f.(*osFile).Again(os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := again.WriteAt([]byte("one"), 0); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	b := make([]byte, 3)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "one" {
		t.Errorf("the first descriptor reads %q, %v", b, err)
	}
	if again.Name() != name || again.IsAt(name) || !again.IsAt(name+".old") {
		t.Errorf("%s: at its old name: %t, at its new one: %t", again.Name(), again.IsAt(name), again.IsAt(name+".old"))
	}
}

// Identify says what fstat(2) says.
func TestIdentify(t *testing.T) {
	f, _ := openTemp(t)
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{f.(*osFile).fd, pipe[0], pipe[1]} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		if id, err := Identify(fd); err != nil || id != (Identity{st.Dev, st.Ino, st.Mode & unix.S_IFMT}) {
			t.Errorf("Identify(%d) = %+v, %v, want device %d, inode %d, type %#o", fd, id, err, st.Dev, st.Ino, st.Mode&unix.S_IFMT)
		}
	}
	if err := errors.Join(unix.Close(pipe[0]), unix.Close(pipe[1])); err != nil {
		t.Error(err)
	}
	if _, err := Identify(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("Identify(-1): %v", err)
	}
}

// A write that is cut short is one pwrite, and says how much it wrote: here by
// RLIMIT_FSIZE, which ends a write with a count and the next with EFBIG.
func TestWriteAtReportsAShortWrite(t *testing.T) {
	if os.Getenv("VFS_CHILD") == "" {
		child(t, "TestWriteAtReportsAShortWrite")
		return
	}
	f, _ := openTemp(t)
	limit := unix.Rlimit{Cur: 1000, Max: 1000}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Skipf("setrlimit: %v", err)
	}
	b := bytes.Repeat([]byte("x"), 600)
	if n, err := f.WriteAt(b, 600); n != 400 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("WriteAt beyond the limit = %d, %v", n, err)
	}
	if n, err := f.WriteAt(b, 1000); n != 0 || !errors.Is(err, syscall.EFBIG) {
		t.Errorf("WriteAt behind the limit = %d, %v", n, err)
	}
}

func TestAllocateAndTruncate(t *testing.T) {
	f, _ := openTemp(t)
	if err := f.Allocate(0, 8192); err != nil {
		t.Fatal(err)
	}
	if err := f.Allocate(4096, 100); err != nil { // inside: no change
		t.Fatal(err)
	}
	if size, _ := f.Size(); size != 8192 {
		t.Errorf("size %d after Allocate", size)
	}
	b := make([]byte, 8192)
	if _, err := f.ReadAt(b, 0); err != nil || len(bytes.TrimLeft(b, "\x00")) != 0 {
		t.Errorf("allocated bytes are not zero: %v", err)
	}
	if err := f.Truncate(100); err != nil {
		t.Fatal(err)
	}
	if size, _ := f.Size(); size != 100 {
		t.Errorf("size %d after Truncate", size)
	}
	for _, sync := range []func() error{f.Datasync, f.Sync} {
		if err := sync(); err != nil {
			t.Error(err)
		}
	}
}

func TestNamesAndSpace(t *testing.T) {
	f, name := openTemp(t)
	dir := filepath.Dir(name)
	if err := (OS{}).Rename(name, name+"2"); err != nil {
		t.Fatal(err)
	}
	if err := (OS{}).SyncDir(dir); err != nil {
		t.Error(err)
	}
	if list, err := (OS{}).ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "f2" {
		t.Errorf("ReadDir = %v, %v", list, err)
	}
	if avail, total, err := (OS{}).Free(dir); err != nil || avail == 0 || total < avail {
		t.Errorf("Free = %d, %d, %v", avail, total, err)
	}
	if err := (OS{}).Remove(name + "2"); err != nil {
		t.Error(err)
	}
	if f.Name() != name {
		t.Errorf("Name = %q", f.Name())
	}
	if err := (OS{}).SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SyncDir of nothing: %v", err)
	}
}

// A sync of a file that somebody has removed promises nothing.
func TestSyncOfARemovedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS{}.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Datasync(), f.Sync()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := f.Datasync(); !errors.Is(err, unix.EIDRM) {
		t.Errorf("Datasync = %v, want EIDRM", err)
	}
	if err := f.Sync(); !errors.Is(err, unix.EIDRM) {
		t.Errorf("Sync = %v, want EIDRM", err)
	}
}

package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// fullDisk is a lock file on a full disk, which has given a block to it or not.
type fullDisk struct {
	block bool
	b     []byte
	err   error // of a write without a block
}

func (f *fullDisk) WriteAt(b []byte, off int64) (int, error) {
	if !f.block {
		return 0, f.err
	}
	if need := int(off) + len(b); need > len(f.b) {
		f.b = append(f.b, make([]byte, need-len(f.b))...)
	}
	return copy(f.b[off:], b), nil
}

func (f *fullDisk) Truncate(size int64) error {
	f.b = append(f.b, make([]byte, max(0, int(size)-len(f.b)))...)[:size]
	f.block = f.block && size > 0
	return nil
}

// TestLockFullDisk locks a directory on a disk that has no block to give away.
func TestLockFullDisk(t *testing.T) {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	tests := []struct {
		name string
		file fullDisk
		want string
		err  error
	}{
		{"the file of an earlier run", fullDisk{block: true, b: []byte("4194303999\n"), err: syscall.ENOSPC}, pid, nil},
		{"a new file", fullDisk{err: syscall.ENOSPC}, "", nil},
		{"over quota", fullDisk{err: syscall.EDQUOT}, "", nil},
		{"a pid that cannot be written over", fullDisk{b: []byte("7\n"), err: syscall.ENOSPC}, "", nil},
		{"a broken disk", fullDisk{err: syscall.EIO}, "", syscall.EIO},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := notePID(&tt.file)
			if !errors.Is(err, tt.err) || string(tt.file.b) != tt.want {
				t.Fatalf("%q, %v; want %q, %v", tt.file.b, err, tt.want, tt.err)
			}
		})
	}
}

// TestLockNamesHolder has a lock refuse a second one and name who has it, also
// where the file has a longer pid of an earlier run.
func TestLockNamesHolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte("4194303999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	_, err = LockDir(dir)
	if e, ok := errors.AsType[*InUseError](err); !ok || e.PID != os.Getpid() {
		t.Fatalf("the second lock: %v, want pid %d in use", err, os.Getpid())
	}
}

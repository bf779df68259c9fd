package crashfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

func create(t *testing.T, fs *FS, name string) vfs.File {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f vfs.File, off int64, b []byte) {
	t.Helper()
	if n, err := f.WriteAt(b, off); n != len(b) || err != nil {
		t.Fatal(n, err)
	}
}

func TestFileHoldsWhatIsWritten(t *testing.T) {
	fs := New(1)
	f := create(t, fs, "/a")
	write(t, f, 4090, bytes.Repeat([]byte("x"), 10000))
	b := make([]byte, 20)
	if n, err := f.ReadAt(b, 4080); n != 20 || err != nil || string(b) != "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00xxxxxxxxxx" {
		t.Errorf("%d %v %q", n, err, b)
	}
	if err := f.Truncate(4095); err != nil {
		t.Fatal(err)
	}
	if err := f.Allocate(0, 8192); err != nil {
		t.Fatal(err)
	}
	if b := fs.Bytes("/a"); len(b) != 8192 || bytes.Count(b, []byte("x")) != 5 {
		t.Errorf("%d bytes, %d of them x", len(b), bytes.Count(b, []byte("x")))
	}
	if n, err := f.ReadAt(b, 8185); n != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("read across the end: %d, %v", n, err)
	}
}

// What is synced survives every power cut; of what is not, pages survive
// independently, in some version they had.
func TestPowerCut(t *testing.T) {
	fs := New(1)
	f := create(t, fs, "/a")
	page := func(c byte) []byte { return bytes.Repeat([]byte{c}, pageSize) }
	write(t, f, 0, append(page('a'), page('a')...))
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	write(t, f, 0, append(page('b'), page('b')...))
	write(t, f, 0, append(page('c'), page('c')...))
	seen := map[string]int{}
	for seed := range uint64(400) {
		b := fs.PowerCut(seed).Bytes("/a")
		if !bytes.Equal(b, fs.PowerCut(seed).Bytes("/a")) {
			t.Fatalf("seed %d means two things", seed)
		}
		seen[string(b[0])+string(b[pageSize])]++
	}
	if len(seen) != 9 {
		t.Errorf("power cuts left %v, want all 9 pairs of a, b, c", seen)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		if b := fs.PowerCut(seed).Bytes("/a"); b[0] != 'c' || b[pageSize] != 'c' {
			t.Fatalf("synced pages are %c, %c", b[0], b[pageSize])
		}
	}
}

func TestPowerCutOfNames(t *testing.T) {
	fs := New(1)
	create(t, fs, "/a")
	if err := fs.Rename("/a", "/b"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for seed := range uint64(200) {
		c := fs.PowerCut(seed)
		for _, n := range []string{"/a", "/b"} {
			if c.Bytes(n) != nil {
				seen[n]++
			}
		}
	}
	if seen["/a"] == 0 || seen["/b"] == 0 || seen["/a"]+seen["/b"] == 200 {
		t.Errorf("names survive %v times of 200; want either, or none", seen)
	}
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		if c := fs.PowerCut(seed); c.Bytes("/a") != nil || c.Bytes("/b") == nil {
			t.Fatal("a synced rename was undone")
		}
	}
}

// After a failed sync, one that succeeds does not cover what the first lost.
func TestFailedSyncLosesPages(t *testing.T) {
	fs := New(1)
	f := create(t, fs, "/a")
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	write(t, f, 0, []byte("x"))
	fs.FailAt(1, NotDone, syscall.EIO)
	if err := f.Datasync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for seed := range uint64(100) {
		if b := fs.PowerCut(seed).Bytes("/a"); len(b) == 0 || b[0] != 'x' {
			lost++
		}
	}
	if lost == 0 {
		t.Error("the second sync covered what the first had lost")
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		kind Kind
		want func(n int, err error, b []byte) bool
	}{
		{"not done", NotDone, func(n int, err error, b []byte) bool { return n == 0 && errors.Is(err, syscall.EIO) && len(b) == 0 }},
		{"done but failed", DoneButFailed, func(n int, err error, b []byte) bool {
			return n == 0 && errors.Is(err, syscall.EIO) && len(b) == 10000
		}},
		{"short", Short, func(n int, err error, b []byte) bool {
			return n < 10000 && errors.Is(err, io.ErrShortWrite) && len(b) == n
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := New(5)
			f := create(t, fs, "/a")
			fs.FailAt(2, tt.kind, syscall.EIO)
			if _, err := f.ReadAt(nil, 0); err != nil {
				t.Errorf("call 1: %v", err)
			}
			n, err := f.WriteAt(make([]byte, 10000), 0)
			if b := fs.Bytes("/a"); !tt.want(n, err, b) {
				t.Errorf("call 2: %d, %v, file of %d bytes", n, err, len(b))
			}
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				t.Errorf("call 3: %v", err)
			}
		})
	}
}

func TestFailWhen(t *testing.T) {
	fs := New(1)
	f := create(t, fs, "/a")
	writes := 0
	fs.FailWhen(func(_ int, op Op) (Kind, error) {
		if op.Name != "write" {
			return 0, nil
		}
		if writes++; writes%3 != 0 {
			return 0, nil
		}
		return DoneButFailed, syscall.EIO
	})
	for i := range int64(6) {
		if _, err := f.WriteAt([]byte("x"), i); errors.Is(err, syscall.EIO) != (i%3 == 2) {
			t.Errorf("write %d: %v", i+1, err)
		}
	}
	if b := fs.Bytes("/a"); string(b) != "xxxxxx" {
		t.Errorf("the file has %q: a failed write was not done", b)
	}
}

func TestStopTearsAtAPageBoundary(t *testing.T) {
	for seed := range uint64(30) {
		fs := New(seed)
		f := create(t, fs, "/a")
		fs.StopAt(1)
		if _, err := f.WriteAt(bytes.Repeat([]byte("x"), 5*pageSize), 100); !errors.Is(err, ErrKilled) {
			t.Fatal(err)
		}
		if err := f.Datasync(); !errors.Is(err, ErrKilled) {
			t.Errorf("a call after death: %v", err)
		}
		c := fs.Survivors()
		if n := len(c.Bytes("/a")); n%pageSize != 0 && n != 5*pageSize+100 {
			t.Errorf("seed %d: torn at %d", seed, n)
		}
		if _, err := c.OpenFile("/a", os.O_RDWR, 0); err != nil {
			t.Errorf("the clone is dead too: %v", err)
		}
	}
}

func TestSpaceEnds(t *testing.T) {
	fs := New(1)
	fs.SetSpace(3 * pageSize)
	f := create(t, fs, "/a")
	if err := f.Allocate(0, 4*pageSize); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Allocate: %v", err)
	}
	if err := f.Allocate(0, pageSize); err != nil {
		t.Error(err)
	}
	if n, err := f.WriteAt(make([]byte, 4*pageSize), 0); n != 3*pageSize || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	if n, err := f.WriteAt(make([]byte, 10), 3*pageSize); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt on a full disk = %d, %v", n, err)
	}
	write(t, f, 10, []byte("in place"))
	fs.SetSpace(-1)
	write(t, f, 3*pageSize, make([]byte, 10))
}

// Append writes at the end, counts and fails as a write does, and says where its
// bytes are; IsAt knows the name a file has now.
func TestAppend(t *testing.T) {
	fs := New(1)
	f := create(t, fs, "/a")
	if n, end, err := f.Append([]byte("one\n")); n != 4 || end != 4 || err != nil {
		t.Fatal(n, end, err)
	}
	fs.FailAt(1, NotDone, syscall.EIO)
	if n, _, err := f.Append([]byte("two\n")); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("not done: %d, %v", n, err)
	}
	fs.FailAt(1, Short, syscall.EIO)
	n, end, err := f.Append(bytes.Repeat([]byte("x"), 100))
	if n == 100 || end != int64(4+n) || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short: %d, %d, %v", n, end, err)
	}
	if err := fs.Rename("/a", "/b"); err != nil {
		t.Fatal(err)
	}
	if f.IsAt("/a") || !f.IsAt("/b") || !f.Regular() {
		t.Error("the file is not where it was renamed to")
	}
}

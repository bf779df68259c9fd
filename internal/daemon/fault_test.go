package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/vfs"
)

// faultFS is the machine's file system, whose files take nothing while a
// symbolic link is there: what it points to is the number of the error. A child
// can be told that way too, and between two writes.
type faultFS struct {
	vfs.OS
	link string
}

func (f faultFS) fault() error {
	to, err := os.Readlink(f.link)
	if err != nil {
		return nil
	}
	n, err := strconv.Atoi(to)
	if err != nil {
		return err
	}
	return syscall.Errno(n)
}

// OpenFile implements vfs.FS.
func (f faultFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return faultFile{file, f}, nil
}

type faultFile struct {
	vfs.File
	fs faultFS
}

// WriteAt implements vfs.File.
func (f faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.fault(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// Allocate implements vfs.File.
func (f faultFile) Allocate(off, n int64) error {
	if err := f.fs.fault(); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

// newFaultyPlace is a place whose disk can be made to fail.
func newFaultyPlace(t *testing.T) place {
	t.Helper()
	p := newPlace(t)
	p.Fault = filepath.Join(t.TempDir(), "fault")
	return p
}

// fail makes every write of the place fail, from now on; 0 heals it.
func (p place) fail(t *testing.T, errno syscall.Errno) {
	t.Helper()
	if err := os.Remove(p.Fault); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if errno == 0 {
		return
	}
	if err := os.Symlink(strconv.Itoa(int(errno)), p.Fault); err != nil {
		t.Fatal(err)
	}
}

// TestReadiness: /readyz is what the store can do, and why not; /metrics tell
// the store's state. Nothing is lost meanwhile.
func TestReadiness(t *testing.T) {
	p := newFaultyPlace(t)
	r := start(t, p)
	ready := func(want string) {
		t.Helper()
		waitUntil(t, r, "readyz "+want, func() bool { return get(t, url(r.lines)+"readyz") == want })
	}
	if got := get(t, url(r.lines)+"readyz"); got != "200 ready" {
		t.Errorf("at the start: %s", got)
	}
	for _, tt := range []struct {
		errno syscall.Errno
		want  string
	}{
		{syscall.ENOSPC, "503 the disk is full: entries wait or are refused"},
		{syscall.EIO, "503 writes fail and are tried again: "},
	} {
		p.fail(t, tt.errno)
		native(t, p, tt.errno.Error())
		waitUntil(t, r, tt.want, func() bool { return strings.HasPrefix(get(t, url(r.lines)+"readyz"), tt.want) })
		full := "\ntidemark_disk_full " + strconv.Itoa(map[bool]int{true: 1, false: 0}[tt.errno == syscall.ENOSPC]) + "\n"
		if got := get(t, url(r.lines)+"metrics"); !strings.Contains(got, full) || !strings.Contains(got, `tidemark_info{version="test"} 1`) {
			t.Errorf("metrics without %q:\n%s", full, got)
		}
		p.fail(t, 0)
		ready("200 ready")
	}
	command(t, p, control.MethodSynchronize)
	if diff := cmp.Diff([]string{syscall.ENOSPC.Error(), syscall.EIO.Error()}, messages(t, p)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(ownEntries(t, p), func(e string) bool { return strings.Contains(e, "disk was full") }) {
		t.Errorf("no entry tells of the full disk: %q", ownEntries(t, p))
	}
}

package linelog

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mounted returns a directory of a file system of its own, which ends with the last
// descriptor of it: it has no name, so that nothing is left, however the test ends.
func mounted(t *testing.T, fstype string) *os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	mnt := t.TempDir()
	if fstype == "tmpfs" {
		if err := unix.Mount("none", mnt, "tmpfs", 0, "size=4m"); err != nil {
			t.Skipf("tmpfs cannot be mounted here: %v", err)
		}
	} else {
		image := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, 400<<20); err != nil {
			t.Fatal(err)
		}
		mkfs, err := exec.LookPath("mkfs." + fstype)
		if err != nil {
			t.Skipf("needs mkfs.%s: %v", fstype, err)
		}
		if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", mkfs, err, out)
		}
		if out, err := exec.Command("mount", "-t", fstype, "-o", "loop", image, mnt).CombinedOutput(); err != nil {
			t.Skipf("%s cannot be mounted here: %v: %s", fstype, err, out)
		}
	}
	dir, err := os.Open(mnt)
	if err := unix.Unmount(mnt, unix.MNT_DETACH); err != nil {
		t.Errorf("unmount: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// fill leaves about so much space.
func fill(t *testing.T, name string, space int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for step := int64(64 << 20); step >= 4096; {
		if unix.Fallocate(int(f.Fd()), 0, size, step) != nil {
			step /= 2
			continue
		}
		size += step
	}
	if err := f.Truncate(max(0, size-space)); err != nil {
		t.Fatal(err)
	}
}

// Processes fill the disk. What they were told is there; the others wait, and once
// there is space again all goes on: no line is torn, none is lost.
func TestProcessesOnAFullDisk(t *testing.T) {
	ownProcesses(t)
	types := []string{"tmpfs"}
	if os.Getenv("TIDEMARK_FULL") != "" {
		types = append(types, "xfs", "ext4")
	}
	for _, fstype := range types {
		for size, batch := range map[string]int{"lines": 1, "batches": 300} {
			t.Run(fstype+", "+size, func(t *testing.T) {
				dir := mounted(t, fstype)
				in := "/proc/self/fd/3/"
				here := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/"
				fill(t, here+"ballast", 300<<10)
				all, want := make([]*running, 4), map[int]int{}
				for i := range all {
					p := process{Path: in + "log", ID: i, Lines: 3000, Size: 100, Batch: batch}
					all[i], want[i] = p.start(t, dir), p.Lines
				}
				for i, r := range all {
					for r.failed.Load() == 0 {
						select {
						case <-r.read:
							t.Fatalf("process %d has ended: it found space for %d lines", i, r.acked.Load())
						case <-time.After(time.Millisecond):
						}
					}
				}
				if err := os.Remove(here + "ballast"); err != nil {
					t.Fatal(err)
				}
				for i, r := range all {
					if err := r.end(); err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				}
				b, err := os.ReadFile(here + "log")
				if err != nil {
					t.Fatal(err)
				}
				f := examine(t, b)
				f.check(t, want, true)
				t.Logf("%d pieces were marked, %d of one byte", f.marks, f.blank)
			})
		}
	}
}

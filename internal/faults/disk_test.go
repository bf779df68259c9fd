package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/slowfs"
)

// imageSize is the size of a file system in a file, in bytes: what btrfs and XFS
// need at the least, and some.
const imageSize = 400 << 20

// loop makes a file system of a type in a file of dir, which may be on a slow disk,
// and mounts it until the test ends. It skips the test, with a reason, where that
// cannot be.
func loop(t testing.TB, fstype, dir string) (mnt string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a loop device")
	}
	mkfs := "mkfs." + fstype
	needTool(t, mkfs)
	image := filepath.Join(dir, fstype+".image")
	noError(t, os.WriteFile(image, nil, 0o600))
	noError(t, os.Truncate(image, imageSize))
	force := map[string]string{"ext4": "-F", "xfs": "-f", "btrfs": "-f"}
	if out, err := exec.Command(mkfs, "-q", force[fstype], image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
	mnt = t.TempDir()
	if out, err := exec.Command("mount", "-t", fstype, "-o", "loop", image, mnt).CombinedOutput(); err != nil {
		t.Skipf("%s cannot be mounted here: %v: %s", fstype, err, out)
	}
	stop := unmountWithUs(t, mnt)
	t.Cleanup(func() {
		if err := unix.Unmount(mnt, 0); err != nil {
			t.Errorf("unmount %s: %v", mnt, err)
		}
		stop()
	})
	return mnt
}

// unmountWithUs has what is mounted at a place unmounted when this process ends
// before stop is called, however it ends.
func unmountWithUs(t testing.TB, mnt string) (stop func()) {
	t.Helper()
	guard := exec.Command("sh", "-c", `read -r end; umount -l "$1" 2>/dev/null; exit 0`, "sh", mnt)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test
	in, err := guard.StdinPipe()
	noError(t, err)
	noError(t, guard.Start())
	return func() {
		noError(t, in.Close())
		noError(t, guard.Wait())
	}
}

// slowDisk is loop on a slow disk. What the file system inside wants to be on the
// disk for sure is an fsync of its file.
func slowDisk(t testing.TB, fstype string) (mnt string, disk *slowfs.FS) {
	t.Helper()
	disk = slowfs.Mount(t, t.TempDir(), slowfs.Options{})
	return loop(t, fstype, disk.Path()), disk
}

// full reports whether everything is tested, or some.
func full() bool { return os.Getenv("TIDEMARK_FULL") != "" }

// fileSystems that a test looks at: all of them, or the first.
func fileSystems() []string {
	if !full() {
		return []string{"ext4"}
	}
	return []string{"ext4", "xfs", "btrfs"}
}

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each kind of lock keeps out another open file of this process, does not see the other
// kind, and ends with Close.
func TestLock(t *testing.T) {
	for _, k := range []LockKind{Flock, Fcntl} {
		name := filepath.Join(t.TempDir(), "f")
		var f [2]File
		for i := range f {
			var err error
			if f[i], err = (OS{}).OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f[0].Lock(k, true); err != nil {
			t.Fatal(err)
		}
		if err := f[1].Lock(k, false); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the second lock: %v", k, err)
		}
		if pid, err := f[1].LockedBy(); err != nil || (pid != 0) != (k == Fcntl) {
			t.Errorf("%s: LockedBy = %d, %v", k, pid, err)
		}
		if pid, err := f[0].LockedBy(); err != nil || pid != 0 {
			t.Errorf("%s: its own lock: LockedBy = %d, %v", k, pid, err)
		}
		other := Flock + Fcntl - k
		if err := f[1].Lock(other, false); err != nil {
			t.Errorf("%s is kept out by %s: %v", other, k, err)
		}
		if err := f[0].Unlock(k); err != nil {
			t.Fatal(err)
		}
		if err := f[1].Lock(k, false); err != nil {
			t.Errorf("%s after Unlock: %v", k, err)
		}
		got := make(chan error)
		go func() { got <- f[0].Lock(k, true) }()
		if err := f[1].Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("%s after Close: %v", k, err)
		}
		if err := f[0].Close(); err != nil {
			t.Error(err)
		}
	}
}

// LockedBy names a process with a lock of the old kind, as cat -l has.
func TestLockedByAProcess(t *testing.T) {
	f, name := openTemp(t)
	g, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := unix.FcntlFlock(g.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	if pid, err := f.LockedBy(); pid != os.Getpid() || err != nil {
		t.Errorf("LockedBy = %d, %v, want %d", pid, err, os.Getpid())
	}
}

func TestNoWriter(t *testing.T) {
	f, name := openTemp(t)
	g, err := OS{}.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.NoWriter(); errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no leases on the file system of %s: %v", name, err)
	} else if !errors.Is(err, ErrInUse) {
		t.Errorf("with a writer: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.NoWriter(); err != nil {
		t.Errorf("without a writer: %v", err)
	}
}

// What is known of mounts, by their lines in mountinfo.
func TestMount(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:41 / /home rw,relatime shared:1 - nfs4 srv:/home rw,vers=4.2,local_lock=none,addr=10.0.0.1
41 22 0:42 / /old rw - nfs srv:/old rw,vers=3,nolock,local_lock=all
42 22 0:43 / /flock rw - nfs srv:/f rw,vers=3,local_lock=flock
43 22 0:44 / /ssh rw - fuse.sshfs me@srv: rw,user_id=0
44 22 0:45 / /mnt rw - fuse.slowfs slowfs rw,user_id=0
45 22 0:46 / /win rw - cifs //srv/x rw,nobrl
`
	for _, tt := range []struct {
		minor uint32
		want  Mount
	}{
		{41, Mount{"nfs4", true, false, false}},
		{42, Mount{"nfs", true, true, true}},
		{43, Mount{"nfs", true, true, false}},
		{44, Mount{"fuse.sshfs", true, true, true}},
		{45, Mount{"fuse.slowfs", false, false, false}},
		{46, Mount{"cifs", true, true, true}},
	} {
		if m := classify(mountOf(strings.NewReader(info), unix.Mkdev(0, tt.minor))); m != tt.want {
			t.Errorf("0:%d: %+v, want %+v", tt.minor, m, tt.want)
		}
	}
	if name, _ := mountOf(strings.NewReader(info), unix.Mkdev(9, 9)); name != "" {
		t.Errorf("a device that is not there is %s", name)
	}
	f, _ := openTemp(t)
	if m, err := f.Mount(); m != (Mount{}) || err != nil {
		t.Errorf("Mount of a temporary file = %+v, %v", m, err)
	}
}

package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is flock(2) or fcntl(2).
func (f *osFile) Lock(k LockKind, wait bool) error {
	var err error
	switch {
	case k == Flock && wait:
		err = retry(func() error { return unix.Flock(f.fd, unix.LOCK_EX) })
	case k == Flock:
		err = retry(func() error { return unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) })
	case wait:
		err = f.fcntl(unix.F_OFD_SETLKW, unix.F_WRLCK)
	default:
		err = f.fcntl(unix.F_OFD_SETLK, unix.F_WRLCK)
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = ErrLocked
	}
	return f.error("lock", err)
}

// Unlock is flock(2) or fcntl(2).
func (f *osFile) Unlock(k LockKind) error {
	if k == Flock {
		return f.error("unlock", retry(func() error { return unix.Flock(f.fd, unix.LOCK_UN) }))
	}
	return f.error("unlock", f.fcntl(unix.F_OFD_SETLK, unix.F_UNLCK))
}

func (f *osFile) fcntl(cmd int, kind int16) error {
	lk := unix.Flock_t{Type: kind}
	return retry(func() error { return unix.FcntlFlock(uintptr(f.fd), cmd, &lk) })
}

// LockedBy is fcntl(F_OFD_GETLK).
func (f *osFile) LockedBy() (pid int, err error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	if err := retry(func() error { return unix.FcntlFlock(uintptr(f.fd), unix.F_OFD_GETLK, &lk) }); err != nil {
		return 0, f.error("look for locks", err)
	}
	if lk.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(lk.Pid), nil
}

// NoWriter asks for a read lease (fcntl(F_SETLEASE)), which nobody gets while the file
// is open for writing, and gives it back.
func (f *osFile) NoWriter() error {
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	})
	switch {
	case err == nil:
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
	case errors.Is(err, unix.EAGAIN):
		err = ErrInUse
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOTSUP):
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return f.error("ask for a lease", err)
}

// Mount is fstatfs(2); for a network file system or FUSE also a look at
// /proc/self/mountinfo.
func (f *osFile) Mount() (Mount, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(f.fd, &st) }); err != nil {
		return Mount{}, f.error("statfs", err)
	}
	name := remote(int64(st.Type))
	if name == "" {
		return Mount{}, nil
	}
	at, err := Identify(f.fd)
	if err != nil {
		return Mount{}, f.error("stat", err)
	}
	options := ""
	if info, err := os.Open("/proc/self/mountinfo"); err == nil {
		if t, o := mountOf(info, at.Dev); t != "" {
			name, options = t, o
		}
		if err := info.Close(); err != nil {
			return Mount{}, err
		}
	}
	return classify(name, options), nil
}

// remote is the name of a file system that is, or may be, of another host. FUSE is
// told apart by its subtype.
func remote(magic int64) string {
	switch magic & math.MaxUint32 {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CODA_SUPER_MAGIC:
		return "coda"
	case unix.OCFS2_SUPER_MAGIC:
		return "ocfs2"
	case 0x01161970: // GFS2_MAGIC
		return "gfs2"
	case 0x0BD00BD0: // LL_SUPER_MAGIC
		return "lustre"
	case 0x47504653: // GPFS
		return "gpfs"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	}
	return ""
}

// mountOf finds the type and the options of the device in mountinfo(5).
func mountOf(info io.Reader, dev uint64) (name, options string) {
	id := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for lines := bufio.NewScanner(info); lines.Scan(); {
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if ok && len(m) > 2 && m[2] == id && len(s) > 2 {
			name, options = s[0], s[2] // the last one is on top
		}
	}
	return name, options
}

// classify knows what locks do on a mounted file system.
func classify(name, options string) Mount {
	m := Mount{Type: name, Network: true}
	has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
	switch name {
	case "nfs", "nfs4":
		all := has("nolock") || has("local_lock=all")
		m.HostFlock, m.HostFcntl = all || has("local_lock=flock"), all || has("local_lock=posix")
	case "cifs", "smb3":
		m.HostFlock, m.HostFcntl = has("nobrl"), has("nobrl")
	case "lustre":
		local := has("localflock") || has("noflock")
		m.HostFlock, m.HostFcntl = local, local
	case "afs", "coda",
		"fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.goofys", "fuse.gcsfuse", "fuse.mountpoint-s3", "fuse.curlftpfs", "fuse.davfs", "fuse.davfs2", "fuse.cifs":
		m.HostFlock, m.HostFcntl = true, true
	case "9p", "ceph", "gfs2", "ocfs2", "gpfs",
		"fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.moosefs", "fuse.mfs", "fuse.juicefs", "fuse.seaweedfs":
	default: // FUSE on this host
		m.Network = false
	}
	return m
}

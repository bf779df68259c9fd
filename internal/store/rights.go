package store

import (
	"encoding/binary"
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// takeDirectory makes the directories and locks them.
func (s *Store) takeDirectory() error {
	if s.fs == nil {
		if err := vfs.MakeDirs(vfs.OS{}, s.cfg.Dir, dirMode()); err != nil {
			return err
		}
		lock, err := LockDir(s.cfg.Dir)
		if err != nil {
			return err
		}
		s.lock = lock
		s.fs = vfs.OS{}
	}
	if err := s.makeDir(); err != nil {
		s.lock.Release()
		return err
	}
	return nil
}

// makeDir makes the directory of the files, which survives a power cut before any
// file in it is promised to, and which no symbolic link may stand for. As root it is given to the group of journal readers, which new files
// inherit.
func (s *Store) makeDir() error {
	if err := vfs.MakeDirs(s.fs, s.dir, dirMode()); err != nil {
		return err
	}
	info, err := s.fs.Stat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &os.PathError{Op: "open", Path: s.dir, Err: syscall.ENOTDIR}
	}
	gid, ok := readerGroup()
	if s.lock == nil || os.Geteuid() != 0 || !ok {
		return nil
	}
	if err := os.Lchown(s.dir, -1, gid); err != nil {
		return err
	}
	return os.Chmod(s.dir, dirMode()|os.ModeSetgid)
}

// dirMode is for everyone to enter as root, whose files are given to readers
// one by one; else for the user alone.
func dirMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o755
	}
	return 0o700
}

// readerGroup is the group that may read the system's log: systemd-journal,
// else adm.
func readerGroup() (gid int, ok bool) {
	for _, name := range []string{"systemd-journal", "adm"} {
		g, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		if gid, err := strconv.Atoi(g.Gid); err == nil {
			return gid, true
		}
	}
	return 0, false
}

// allow lets the user uid read the file path, by an ACL where the file system
// has them. It does not wait for the disk. later tells that the disk was full, so that
// it may do another time.
func (s *Store) allow(path string, uid uint32) (later bool) {
	f, err := s.fs.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err == nil {
		err = errors.Join(f.SetXattr("system.posix_acl_access", acl(uid)), f.Close())
	}
	if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.ENOSYS) {
		s.saySeldom("let user "+strconv.FormatUint(uint64(uid), 10)+" read its file", err)
	}
	return outOfSpace(err)
}

// share lets the user of sl read f, now or, when the disk is full, later: see
// shareAgain.
func (s *Store) share(f *file, sl *slot) {
	if sl.uid != 0 {
		f.unshared.Store(s.allow(f.w.Path(), sl.uid))
	}
}

// shareAgain is share of the current files for which the disk was full. It returns how
// long until the next try.
func (s *Store) shareAgain() time.Duration {
	next := never
	for _, sl := range s.slots() {
		f := sl.shown.Load()
		if f == nil || !f.unshared.Load() {
			continue
		}
		if s.share(f, sl); f.unshared.Load() {
			next = retryPause
		} else {
			s.progress.ring()
		}
	}
	return next
}

// acl is rw for the owner, r for the user uid and for the group, nothing for
// others: mode 0640 and one line more. Layout: posix_acl_xattr.h of Linux.
func acl(uid uint32) []byte {
	const (
		version                                = 2
		userObj, userID, groupObj, mask, other = 0x01, 0x02, 0x04, 0x10, 0x20
		read, write                            = 4, 2
		nobody                                 = ^uint32(0)
	)
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{
		{userObj, read | write, nobody},
		{userID, read, uid},
		{groupObj, read, nobody},
		{mask, read, nobody},
		{other, 0, nobody},
	} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

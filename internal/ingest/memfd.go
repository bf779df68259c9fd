package ingest

import (
	"context"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

const (
	// allSeals make a memfd unchangeable.
	allSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	// maxSparse is the size in bytes up to which a sealed file may have holes. A
	// hole costs its sender nothing, and is read as zeroes that cost us as much as
	// anything else.
	maxSparse = 1 << 20
	// blockSize is the unit of Stat_t.Blocks.
	blockSize = 512
	// mapFrom is the size from which a sealed file is mapped. Below it the file is
	// read, so that no absent page can hold up the process; above it a copy would
	// take the memory that the sender has already been charged for.
	mapFrom = 64 << 20
)

// file takes entries from the file that a message has brought instead of data.
// It is handed over at once, behind what was decoded before it.
func (n *native) file(ctx context.Context, m *message) {
	data, why := n.contents(m)
	if why != noReason {
		n.in.counts.add(why, 1)
		return
	}
	defer unix.Munmap(data) //nolint:errcheck // cannot fail for a mapping of ours
	n.decode(ctx, m, data, true)
	n.send(ctx)                       //nolint:errcheck // run sees the end of ctx with the next batch
	n.decoder = entry.NativeDecoder{} // large fields are in its arena
	*n.batch = batch{}                // and the batch points there
}

// contents maps the file that m has brought, unless its user has sent too much.
// Root may send as much as it likes: a core dump is not to be refused, and who is
// root has other ways to keep us busy.
func (n *native) contents(m *message) ([]byte, reason) {
	return fileContents(m.fds[0], m, n.in.cfg.MaxPassed, func(size int) bool {
		switch {
		case !m.known:
			return n.passed.admit(noID, size, n.now)
		case m.uid == 0:
			return true
		}
		return n.passed.admit(m.uid, size, n.now)
	})
}

// fileContents maps the contents of fd to memory, by reading them if the file
// could still change. The mapping is the caller's. Sealed memfds are taken from
// everyone, other files from root, or if they are regular files that lie right
// in /dev/shm, /tmp or /var/tmp. One that has more than limit bytes, or a large
// one with holes, is refused before any byte is read, and so is one that admit does
// not let in for its size.
func fileContents(fd int, m *message, limit int64, admit func(size int) bool) ([]byte, reason) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	sealed := err == nil && seals&allSeals == allSeals
	if !sealed && (!m.known || m.uid != 0) && !inTemporaryDir(fd) {
		return nil, nativeFDPath
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nativeFDKind
	}
	switch {
	case st.Size > limit:
		return nil, nativeTooLarge
	case st.Size <= 0, sealed && st.Size > maxSparse && st.Blocks*blockSize < st.Size:
		return nil, nativeFDSize
	}
	if !sealed && slowOrLocked(fd) {
		return nil, nativeFDPath
	}
	if !admit(int(st.Size)) {
		return nil, nativeFDRate
	}
	if sealed && st.Size >= mapFrom {
		b, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_PRIVATE)
		if err != nil {
			return nil, nativeFDRead
		}
		return b, noReason
	}
	return readAll(fd, int(st.Size))
}

// readAll reads size bytes, or as many as there are by now, to a mapping.
func readAll(fd, size int) ([]byte, reason) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nativeFDRead
	}
	n := 0
	for n < size {
		m, err := unix.Pread(fd, b[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			unix.Munmap(b) //nolint:errcheck // cannot fail for a mapping of ours
			return nil, nativeFDRead
		}
		if m == 0 {
			break
		}
		n += m
	}
	if n == 0 {
		unix.Munmap(b) //nolint:errcheck // cannot fail for a mapping of ours
		return nil, nativeFDSize
	}
	// Zeroes behind the end of a file that has become shorter are noise.
	return b, noReason
}

// inTemporaryDir reports whether fd is a file right in a directory for everyone.
func inTemporaryDir(fd int) bool {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), buf)
	if err != nil || n == len(buf) {
		return false
	}
	dir, name := path.Split(string(buf[:n]))
	switch dir {
	case "/dev/shm/", "/tmp/", "/var/tmp/":
		return name != "" // also that of a file without a name: "#N (deleted)"
	}
	return false
}

// slowOrLocked reports whether reading fd may wait for somebody: a file system
// with mandatory locks, one in a user's process, or a network's.
func slowOrLocked(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil || st.Flags&unix.ST_MANDLOCK != 0 {
		return true
	}
	switch uint32(st.Type) {
	case unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return true
	}
	return false
}

package crashfs

import (
	"os"
	"syscall"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// locks of an inode. Guarded by FS.mu.
type locks struct {
	owner map[vfs.LockKind]*file
	freed map[vfs.LockKind]chan struct{} // closed when the owner gives it back
}

// SetMount has every file say that it is on such a file system.
func (f *FS) SetMount(m vfs.Mount) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mount = m
}

// Lock counts as "lock".
func (h *file) Lock(k vfs.LockKind, wait bool) error {
	flt, err := h.fs.begin(h.op("lock", 0, 0))
	if err != nil {
		return pathErr("lock", h.name, err)
	}
	for {
		l := &h.in.locks
		if l.owner == nil {
			l.owner, l.freed = map[vfs.LockKind]*file{}, map[vfs.LockKind]chan struct{}{}
		}
		switch l.owner[k] {
		case nil, h:
			l.owner[k] = h
			if l.freed[k] == nil {
				l.freed[k] = make(chan struct{})
			}
			h.fs.mu.Unlock()
			return pathErr("lock", h.name, flt.err)
		}
		freed := l.freed[k]
		h.fs.mu.Unlock()
		if !wait {
			return pathErr("lock", h.name, vfs.ErrLocked)
		}
		<-freed
		h.fs.mu.Lock()
	}
}

// Unlock counts as "unlock".
func (h *file) Unlock(k vfs.LockKind) error {
	flt, err := h.fs.begin(h.op("unlock", 0, 0))
	if err != nil {
		return pathErr("unlock", h.name, err)
	}
	defer h.fs.mu.Unlock()
	h.unlock(k)
	return pathErr("unlock", h.name, flt.err)
}

// unlock is called with fs.mu held.
func (h *file) unlock(k vfs.LockKind) {
	if l := &h.in.locks; l.owner[k] == h {
		delete(l.owner, k)
		close(l.freed[k])
		delete(l.freed, k)
	}
}

func (h *file) LockedBy() (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if o := h.in.locks.owner[vfs.Fcntl]; o == nil || o == h {
		return 0, nil
	}
	return os.Getpid(), nil
}

// NoWriter cannot know.
func (h *file) NoWriter() error { return pathErr("ask for a lease", h.name, syscall.EOPNOTSUPP) }

func (h *file) Mount() (vfs.Mount, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.fs.mount, nil
}

// Close gives back its locks.
func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.unlock(vfs.Flock)
	h.unlock(vfs.Fcntl)
	return nil
}

package slowfs

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// file is an open file.
type file struct {
	*fs.LoopbackFile
	n      *node
	writes bool // it was opened for writing
}

// back takes a call that writes back through the gate. What was written before is
// written back when the gate lets it go: who comes meanwhile waits as long.
func (f *file) back(ctx context.Context, c Call) (fault, syscall.Errno) {
	upTo := f.n.wrote.Load()
	p, errno := f.n.pass(ctx, passage{call: c, dirty: f.writes && upTo > f.n.clean.Load()})
	if f.writes && errno == 0 && p.errno == 0 {
		f.n.cleanTo(upTo)
	}
	return p, errno
}

// wrap makes a file of go-fuse's.
func (s *Server) wrap(in *fs.Inode, fh fs.FileHandle, flags uint32) fs.FileHandle {
	if l, ok := fh.(*fs.LoopbackFile); ok {
		if n, ok := in.Operations().(*node); ok {
			return &file{LoopbackFile: l, n: n, writes: flags&syscall.O_ACCMODE != syscall.O_RDONLY}
		}
	}
	return fh
}

// PassthroughFd keeps the kernel from going past us to the file behind, which it
// does for root.
func (f *file) PassthroughFd() (int, bool) { return 0, false }

// Ioctl may clone and punch files: there is none.
func (f *file) Ioctl(context.Context, uint32, uint64, []byte, []byte) (int32, syscall.Errno) {
	return 0, syscall.ENOTTY
}

// grows returns by how many bytes a file that must reach end becomes longer.
func (f *file) grows(ctx context.Context, end int64) int64 {
	var out fuse.AttrOut
	if errno := f.Getattr(ctx, &out); errno != 0 {
		return 0
	}
	return max(0, end-int64(out.Size))
}

// Write is write(2), and the writeback of mapped pages.
func (f *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	p, errno := f.n.pass(ctx, passage{call: Write, size: len(data), grows: f.grows(ctx, off+int64(len(data)))})
	if p.keep >= 0 && p.keep < len(data) {
		data = data[:p.keep]
	}
	var n uint32
	errno = p.around(errno, func() syscall.Errno {
		return f.n.s.disk.change(func() (errno syscall.Errno) {
			n, errno = f.LoopbackFile.Write(ctx, data, off)
			return errno
		}, func() { f.n.s.disk.write(f.n.ino(), data[:n], off) })
	})
	if n > 0 {
		f.n.wrote.Add(1)
	}
	return n, errno
}

// Fsync is fsync(2) and fdatasync(2).
func (f *file) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	d := f.n.s.disk
	mark := d.mark() // writes that come while it is held may miss it
	p, errno := f.back(ctx, Fsync)
	if errno == 0 && p.errno != 0 && !p.done {
		return max(p.errno, d.synced(f.n.ino(), mark, true))
	}
	return p.around(errno, func() syscall.Errno {
		errno := f.LoopbackFile.Fsync(ctx, flags)
		return max(errno, d.synced(f.n.ino(), mark, errno != 0))
	})
}

// Flush is close(2).
func (f *file) Flush(ctx context.Context) syscall.Errno {
	p, errno := f.back(ctx, Flush)
	return p.around(errno, func() syscall.Errno { return f.LoopbackFile.Flush(ctx) })
}

// Allocate is fallocate(2), of the modes whose effect can be noted.
func (f *file) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	const punch, zeros = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE
	d, end := f.n.s.disk, int64(off+size)
	grows := int64(0)
	switch mode {
	case 0, zeros:
		grows = f.grows(ctx, end)
	case punch, unix.FALLOC_FL_KEEP_SIZE, zeros | unix.FALLOC_FL_KEEP_SIZE:
	default:
		return syscall.EOPNOTSUPP
	}
	p, errno := f.n.pass(ctx, passage{call: Allocate, grows: grows})
	return p.around(errno, func() syscall.Errno {
		return d.change(func() syscall.Errno { return f.LoopbackFile.Allocate(ctx, off, size, mode) }, func() {
			if mode != 0 && mode != unix.FALLOC_FL_KEEP_SIZE {
				d.zero(f.n.ino(), int64(off), int64(size))
			}
			if mode == 0 || mode == zeros {
				d.grow(f.n.ino(), end)
			}
		})
	})
}

// Setlk is flock(2) and fcntl(2) that do not wait, and unlocking.
func (f *file) Setlk(ctx context.Context, owner uint64, lk *fuse.FileLock, flags uint32) syscall.Errno {
	pass := func() (fault, syscall.Errno) { return f.n.pass(ctx, passage{call: Lock}) }
	if lk.Typ == syscall.F_UNLCK {
		pass = func() (fault, syscall.Errno) { return f.back(ctx, Unlock) }
	}
	p, errno := pass()
	return p.around(errno, func() syscall.Errno { return f.tryLock(ctx, owner, lk, flags) })
}

// Setlkw is flock(2) and fcntl(2) that wait, and flock's unlocking.
func (f *file) Setlkw(ctx context.Context, owner uint64, lk *fuse.FileLock, flags uint32) syscall.Errno {
	if lk.Typ == syscall.F_UNLCK {
		return f.Setlk(ctx, owner, lk, flags)
	}
	p, errno := f.n.pass(ctx, passage{call: Lock})
	return p.around(errno, func() syscall.Errno {
		// To wait in the kernel, for the file behind, could not be ended when
		// the caller is killed.
		look := time.NewTicker(lookAfter)
		defer look.Stop()
		for {
			unlocked := f.n.s.unlocked.next()
			if errno := f.tryLock(ctx, owner, lk, flags); errno != syscall.EAGAIN {
				return errno
			}
			select {
			case <-unlocked:
			case <-look.C:
				if dying(pid(ctx)) {
					return syscall.EINTR
				}
			}
		}
	})
}

// tryLock takes or leaves a lock, and tells those who wait that there may be room.
func (f *file) tryLock(ctx context.Context, owner uint64, lk *fuse.FileLock, flags uint32) syscall.Errno {
	errno := f.LoopbackFile.Setlk(ctx, owner, lk, flags)
	if errno == 0 && lk.Typ != syscall.F_WRLCK {
		f.n.s.unlocked.ring()
	}
	return errno
}

// Release is the end of the last descriptor, and of its locks.
func (f *file) Release(ctx context.Context) syscall.Errno {
	errno := f.LoopbackFile.Release(ctx)
	f.n.s.unlocked.ring()
	return errno
}

// bell wakes all who wait. Its zero value is ready.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns what is closed by the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

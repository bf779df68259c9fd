package slowfs

import (
	"context"
	iofs "io/fs"
	"path"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// node is a file or directory: go-fuse's, with what changes names noted, and
// sizes through the gate.
type node struct {
	*fs.LoopbackNode
	s *Server

	wrote, clean atomic.Int64 // writes, and those of them that are written back
}

// cleanTo takes note that the first upTo writes are written back.
func (n *node) cleanTo(upTo int64) {
	for was := n.clean.Load(); was < upTo && !n.clean.CompareAndSwap(was, upTo); was = n.clean.Load() {
	}
}

// WrapChild makes nodes of what go-fuse makes.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	if l, ok := ops.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: l, s: n.s}
	}
	return ops
}

// rel is the path from the root, "." for that.
func (n *node) rel() string { return path.Join(".", n.Path(n.Root())) }

func (n *node) ino() uint64 { return n.StableAttr().Ino }

// pass takes a call on the node through the gate.
func (n *node) pass(ctx context.Context, p passage) (fault, syscall.Errno) {
	p.name, p.pid = path.Base(n.rel()), pid(ctx)
	return n.s.gate.pass(p)
}

// pid is the thread that called; 0: the kernel, on its own.
func pid(ctx context.Context) uint32 {
	if caller, ok := fuse.FromContext(ctx); ok {
		return caller.Pid
	}
	return 0
}

// made notes what was created under a name.
func (n *node) made(name string, ch *fs.Inode, out *fuse.EntryOut, target string) {
	mode := iofs.FileMode(out.Mode & 0o777)
	switch out.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= iofs.ModeDir
	case syscall.S_IFLNK:
		mode |= iofs.ModeSymlink
	case syscall.S_IFREG:
	default:
		mode |= iofs.ModeIrregular
	}
	n.s.disk.add(path.Join(n.rel(), name), ch.StableAttr().Ino, mode, target)
}

// Create is open(2) of a new file.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (ch *fs.Inode, fh fs.FileHandle, fuseFlags uint32, errno syscall.Errno) {
	errno = n.s.disk.change(func() (errno syscall.Errno) {
		// O_EXCL: what is noted as new must be.
		ch, fh, fuseFlags, errno = n.LoopbackNode.Create(ctx, name, flags|syscall.O_EXCL, mode, out)
		return errno
	}, func() { n.made(name, ch, out, "") })
	return ch, n.s.wrap(ch, fh, flags), fuseFlags, errno
}

// Mknod is mknod(2).
func (n *node) Mknod(ctx context.Context, name string, mode, rdev uint32, out *fuse.EntryOut) (ch *fs.Inode, errno syscall.Errno) {
	errno = n.s.disk.change(func() (errno syscall.Errno) {
		ch, errno = n.LoopbackNode.Mknod(ctx, name, mode, rdev, out)
		return errno
	}, func() { n.made(name, ch, out, "") })
	return ch, errno
}

// Mkdir is mkdir(2).
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (ch *fs.Inode, errno syscall.Errno) {
	errno = n.s.disk.change(func() (errno syscall.Errno) {
		ch, errno = n.LoopbackNode.Mkdir(ctx, name, mode, out)
		return errno
	}, func() { n.made(name, ch, out, "") })
	return ch, errno
}

// Symlink is symlink(2).
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (ch *fs.Inode, errno syscall.Errno) {
	errno = n.s.disk.change(func() (errno syscall.Errno) {
		ch, errno = n.LoopbackNode.Symlink(ctx, target, name, out)
		return errno
	}, func() { n.made(name, ch, out, target) })
	return ch, errno
}

// Link is link(2).
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (ch *fs.Inode, errno syscall.Errno) {
	d := n.s.disk
	errno = d.change(func() (errno syscall.Errno) {
		ch, errno = n.LoopbackNode.Link(ctx, target, name, out)
		return errno
	}, func() {
		if in := d.inodes[ch.StableAttr().Ino]; in != nil {
			d.rename(map[string]*inode{path.Join(n.rel(), name): in}, n.rel())
		}
	})
	return ch, errno
}

// Unlink is unlink(2).
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.s.disk.change(func() syscall.Errno { return n.LoopbackNode.Unlink(ctx, name) },
		func() { n.s.disk.remove(path.Join(n.rel(), name)) })
}

// Rmdir is rmdir(2).
func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.s.disk.change(func() syscall.Errno { return n.LoopbackNode.Rmdir(ctx, name) },
		func() { n.s.disk.remove(path.Join(n.rel(), name)) })
}

// Rename is renameat2(2).
func (n *node) Rename(ctx context.Context, name string, newParent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*node)
	if !ok || flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return syscall.EINVAL
	}
	return n.s.disk.change(func() syscall.Errno {
		return n.LoopbackNode.Rename(ctx, name, newParent, newName, flags)
	}, func() {
		n.s.disk.move(path.Join(n.rel(), name), path.Join(to.rel(), newName), flags&unix.RENAME_EXCHANGE != 0)
	})
}

// Open is open(2) of a file that is there. The kernel truncates by Setattr.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_TRUNC)
	return n.s.wrap(n.EmbeddedInode(), fh, flags), fuseFlags, errno
}

// Setattr is chmod, chown, utimes and truncate.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resize := in.GetSize()
	do := func() syscall.Errno { return n.LoopbackNode.Setattr(ctx, f, in, out) }
	note := func() {
		i := n.s.disk.inodes[n.ino()]
		if mode, ok := in.GetMode(); ok && i != nil {
			i.mode = i.mode&^iofs.ModePerm | iofs.FileMode(mode&0o777)
		}
		if resize {
			n.s.disk.resize(n.ino(), int64(size))
		}
	}
	if !resize {
		return n.s.disk.change(do, note)
	}
	p, errno := n.pass(ctx, passage{call: Truncate})
	return p.around(errno, func() syscall.Errno { return n.s.disk.change(do, note) })
}

// CopyFileRange would copy past the gate: the kernel reads and writes instead.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS
}

// OpendirHandle is opendir(3).
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if ds, ok := fh.(dirStream); ok && errno == 0 {
		fh = &dir{dirStream: ds, n: n}
	}
	return fh, fuseFlags, errno
}

// dirStream is what go-fuse's handle of a directory can do.
type dirStream interface {
	fs.FileReaddirenter
	fs.FileSeekdirer
	fs.FileReleasedirer
	fs.FileFsyncdirer
}

// dir is an open directory.
type dir struct {
	dirStream
	n *node
}

// Fsyncdir is fsync(2) of a directory.
func (d *dir) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	mark := d.n.s.disk.mark()
	p, errno := d.n.pass(ctx, passage{call: SyncDir})
	return p.around(errno, func() syscall.Errno {
		if errno := d.dirStream.Fsyncdir(ctx, flags); errno != 0 {
			return errno
		}
		return d.n.s.disk.syncedDir(d.n.rel(), mark)
	})
}

// around does a call as the gate has said.
func (f fault) around(errno syscall.Errno, do func() syscall.Errno) syscall.Errno {
	if errno != 0 {
		return errno
	}
	if f.errno != 0 && !f.done {
		return f.errno
	}
	if errno := do(); errno != 0 {
		return errno
	}
	return f.errno
}

package slowfs

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const pageSize = 4096

// disk remembers what was written and what of it a sync has covered: everything
// that an image needs. The directory behind the mount holds what there is now.
type disk struct {
	mu  sync.Mutex
	seq uint64 // of the last change
	cut bool   // nothing changes any more

	inodes  map[uint64]*inode // by number
	names   map[string]*inode // now; by path from the root, without a slash in front
	durable map[string]*inode // after a power cut, at the least
	pending []nameOp          // since their directories were synced, in order
}

type inode struct {
	mode   fs.FileMode // with the type
	target string      // of a symbolic link
	pages  map[int64]*page
	sizes  []sizeVersion
}

// page holds its versions since the last sync that covered it, that one first.
type page struct{ versions []pageVersion }

type pageVersion struct {
	seq  uint64
	lost bool   // a sync failed since: no later one covers it
	data []byte // nil: zeros
}

type sizeVersion struct {
	seq  uint64
	lost bool
	size int64
}

// nameOp is one creation, renaming or removal.
type nameOp struct {
	seq  uint64
	dirs [2]string
	set  map[string]*inode // nil: the name is gone
}

func newDisk() *disk {
	return &disk{inodes: map[uint64]*inode{}, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// change does something to the directory behind the mount and notes it, as one
// step. With no disk to note it on, it only does it.
func (d *disk) change(do func() syscall.Errno, note func()) syscall.Errno {
	if d == nil {
		return do()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return syscall.EIO
	}
	errno := do()
	if errno == 0 {
		d.seq++
		note()
	}
	return errno
}

// mark returns what a sync that begins now covers.
func (d *disk) mark() uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seq
}

// synced notes that a file was synced up to a mark, or that this failed.
func (d *disk) synced(ino, mark uint64, failed bool) syscall.Errno {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return syscall.EIO // the image may not have it
	}
	in := d.inodes[ino]
	switch {
	case in == nil:
	case failed:
		in.forget(mark)
	default:
		in.settle(mark)
	}
	return 0
}

// settle drops what can no longer be seen: what is older than the last
// contents up to the mark.
func (in *inode) settle(mark uint64) {
	for _, p := range in.pages {
		for i := len(p.versions) - 1; i > 0; i-- {
			if v := p.versions[i]; v.seq <= mark && !v.lost {
				p.versions = slices.Delete(p.versions, 0, i)
				break
			}
		}
	}
	for i := len(in.sizes) - 1; i > 0; i-- {
		if v := in.sizes[i]; v.seq <= mark && !v.lost {
			in.sizes = slices.Delete(in.sizes, 0, i)
			break
		}
	}
}

// forget notes that a sync of all up to the mark failed.
func (in *inode) forget(mark uint64) {
	for _, p := range in.pages {
		for i := 1; i < len(p.versions) && p.versions[i].seq <= mark; i++ {
			p.versions[i].lost = true
		}
	}
	for i := 1; i < len(in.sizes) && in.sizes[i].seq <= mark; i++ {
		in.sizes[i].lost = true
	}
}

func (in *inode) size() int64 { return in.sizes[len(in.sizes)-1].size }

func (in *inode) setSize(seq uint64, n int64) {
	if n != in.size() {
		in.sizes = append(in.sizes, sizeVersion{seq: seq, size: n})
	}
}

// put changes the part of one page from off on. A nil b means n zeros.
func (in *inode) put(seq uint64, i, off int64, b []byte, n int64) {
	p := in.pages[i]
	if p == nil {
		if b == nil {
			return
		}
		p = &page{versions: []pageVersion{{}}}
		in.pages[i] = p
	}
	data := make([]byte, pageSize)
	copy(data, p.versions[len(p.versions)-1].data)
	if b == nil {
		clear(data[off : off+n])
	} else {
		copy(data[off:], b)
	}
	p.versions = append(p.versions, pageVersion{seq: seq, data: data})
}

// write notes a write, as a part of change.
func (d *disk) write(ino uint64, b []byte, off int64) {
	in := d.inodes[ino]
	if in == nil {
		return
	}
	end := off + int64(len(b))
	for len(b) > 0 {
		n := min(pageSize-off%pageSize, int64(len(b)))
		in.put(d.seq, off/pageSize, off%pageSize, b[:n], n)
		b, off = b[n:], off+n
	}
	in.setSize(d.seq, max(in.size(), end))
}

// zero notes that a range became zeros, as a part of change.
func (d *disk) zero(ino uint64, off, n int64) {
	in := d.inodes[ino]
	if in == nil {
		return
	}
	end := off + n
	for i, p := range in.pages {
		from, to := max(off, i*pageSize), min(end, (i+1)*pageSize)
		if from < to && p != nil {
			in.put(d.seq, i, from-i*pageSize, nil, to-from)
		}
	}
}

// resize notes a new size, as a part of change.
func (d *disk) resize(ino uint64, size int64) {
	in := d.inodes[ino]
	if in == nil {
		return
	}
	if old := in.size(); size < old {
		d.zero(ino, size, (old/pageSize+1)*pageSize-size)
	}
	in.setSize(d.seq, size)
}

// grow notes that a file is at least that long, as a part of change.
func (d *disk) grow(ino uint64, size int64) {
	if in := d.inodes[ino]; in != nil && in.size() < size {
		in.setSize(d.seq, size)
	}
}

// add notes a new file, directory or link, as a part of change.
func (d *disk) add(name string, ino uint64, mode fs.FileMode, target string) {
	in := &inode{mode: mode, target: target, pages: map[int64]*page{}, sizes: []sizeVersion{{}}}
	d.inodes[ino] = in
	d.rename(map[string]*inode{name: in}, path.Dir(name))
}

// remove notes that a name is gone, as a part of change.
func (d *disk) remove(name string) { d.rename(map[string]*inode{name: nil}, path.Dir(name)) }

// move notes a renaming, or with swap an exchange, as a part of change.
func (d *disk) move(from, to string, swap bool) {
	set := map[string]*inode{}
	for name, in := range d.names {
		if rest, ok := below(name, from); ok {
			if _, taken := set[name]; !taken {
				set[name] = nil
			}
			set[to+rest] = in
		}
		if rest, ok := below(name, to); ok && swap {
			set[from+rest] = in
		}
	}
	d.rename(set, path.Dir(from), path.Dir(to))
}

// below tells whether a name is dir, or in it, and what follows dir in it.
func below(name, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

func (d *disk) rename(set map[string]*inode, dirs ...string) {
	op := nameOp{seq: d.seq, set: set, dirs: [2]string{dirs[0], dirs[len(dirs)-1]}}
	op.apply(d.names)
	d.pending = append(d.pending, op)
}

func (op nameOp) apply(names map[string]*inode) {
	for name, in := range op.set {
		if in == nil {
			delete(names, name)
		} else {
			names[name] = in
		}
	}
}

// syncedDir notes that a directory was synced up to a mark.
func (d *disk) syncedDir(dir string, mark uint64) syscall.Errno {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return syscall.EIO
	}
	var left []nameOp
	for _, op := range d.pending {
		if op.seq > mark || !slices.Contains(op.dirs[:], dir) {
			left = append(left, op)
			continue
		}
		op.apply(d.durable)
		// A renaming may be synced through either of its directories: what was
		// pending for the same names is past.
		for _, older := range left {
			maps.DeleteFunc(older.set, func(name string, _ *inode) bool { _, ok := op.set[name]; return ok })
		}
	}
	d.pending = left
	return 0
}

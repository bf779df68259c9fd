package crashfs

import (
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

const pageSize = 4096

// inode is a file's contents. Guarded by FS.mu.
type inode struct {
	perm     fs.FileMode
	pages    map[int64]*page
	sizes    []int64 // sizes since the last sync, the last one is now
	reserved int64   // bytes from 0 on that are allocated
	xattr    map[string][]byte
	locks    locks
}

// page has what it held since the last sync that covered it. A nil version is
// all zero. The last one is now; versions never change once they are here.
type page struct {
	versions [][]byte
	lost     bool // a sync of it failed, and it was not written since
}

func (in *inode) size() int64 { return in.sizes[len(in.sizes)-1] }

func (in *inode) setSize(n int64) {
	if n != in.size() {
		in.sizes = append(in.sizes, n)
	}
}

func (in *inode) page(i int64) *page {
	p := in.pages[i]
	if p == nil {
		p = &page{versions: [][]byte{nil}}
		in.pages[i] = p
	}
	return p
}

func (p *page) now() []byte { return p.versions[len(p.versions)-1] }

// put writes b to off inside the page.
func (p *page) put(off int64, b []byte) {
	v := make([]byte, pageSize)
	copy(v, p.now())
	copy(v[off:], b)
	p.versions = append(p.versions, v)
	p.lost = false
}

func (in *inode) write(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	in.setSize(max(in.size(), off+int64(len(b))))
	for len(b) > 0 {
		i, o := off/pageSize, off%pageSize
		n := min(int64(len(b)), pageSize-o)
		in.page(i).put(o, b[:n])
		b, off = b[n:], off+n
	}
}

func (in *inode) read(b []byte, off int64) int {
	n := min(int64(len(b)), in.size()-off)
	if n <= 0 {
		return 0
	}
	b = b[:n]
	clear(b)
	for at := int64(0); at < n; {
		i, o := (off+at)/pageSize, (off+at)%pageSize
		step := min(n-at, pageSize-o)
		if p := in.pages[i]; p != nil && p.now() != nil {
			copy(b[at:at+step], p.now()[o:])
		}
		at += step
	}
	return int(n)
}

func (in *inode) truncate(size int64) {
	if size < in.size() {
		for i, p := range in.pages {
			switch at := i * pageSize; {
			case at >= size:
				p.versions = append(p.versions, nil)
				p.lost = false
			case at+pageSize > size && p.now() != nil:
				p.put(size-at, make([]byte, at+pageSize-size))
			}
		}
		in.reserved = min(in.reserved, size)
	}
	in.setSize(size)
}

// sync makes what is there now survive.
func (in *inode) sync() {
	for _, p := range in.pages {
		if !p.lost {
			p.versions = p.versions[len(p.versions)-1:]
		}
	}
	in.sizes = in.sizes[len(in.sizes)-1:]
}

// failSync is what a failed sync leaves of a file.
func (f *FS) failSync(name string) {
	if in := f.names[name]; in != nil {
		for _, p := range in.pages {
			p.lost = p.lost || len(p.versions) > 1
		}
	}
}

// file is an open inode.
type file struct {
	fs   *FS
	in   *inode
	name string
}

func (h *file) Name() string { return h.name }

func (h *file) op(name string, off int64, n int) Op { return Op{name, h.path(), off, n} }

// path is the current name of the inode, which renames change.
func (h *file) path() string {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	for n, in := range h.fs.names {
		if in == h.in {
			return n
		}
	}
	return h.name
}

func (h *file) ReadAt(b []byte, off int64) (int, error) {
	flt, err := h.fs.begin(h.op("read", off, len(b)))
	if err != nil {
		return 0, pathErr("read", h.name, err)
	}
	defer h.fs.mu.Unlock()
	if flt.err != nil {
		return 0, pathErr("read", h.name, flt.err)
	}
	n := h.in.read(b, off)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) WriteAt(b []byte, off int64) (int, error) {
	flt, err := h.fs.begin(h.op("write", off, len(b)))
	if err != nil {
		return 0, pathErr("write", h.name, err)
	}
	defer h.fs.mu.Unlock()
	return h.write(flt, b, off)
}

// Append counts as a write, to where the file ended before the call.
func (h *file) Append(b []byte) (n int, end int64, err error) {
	size, err := h.Size()
	if err != nil {
		return 0, 0, err
	}
	flt, err := h.fs.begin(h.op("write", size, len(b)))
	if err != nil {
		return 0, 0, pathErr("write", h.name, err)
	}
	defer h.fs.mu.Unlock()
	size = h.in.size()
	n, err = h.write(flt, b, size)
	return n, size + int64(n), err
}

// write is a write of b that fails as flt says. Called with fs.mu held.
func (h *file) write(flt fault, b []byte, off int64) (int, error) {
	n := len(b)
	if flt.kind == Short && flt.err != nil {
		n = h.fs.shortened(off, len(b), h.fs.dead)
	}
	fit := h.room(off, n)
	h.in.write(b[:fit], off)
	switch {
	case fit < n && fit == 0:
		return 0, pathErr("write", h.name, syscall.ENOSPC)
	case flt.kind == DoneButFailed && flt.err != nil:
		return 0, pathErr("write", h.name, flt.err)
	case h.fs.dead:
		return 0, pathErr("write", h.name, ErrKilled)
	case fit < len(b):
		return fit, pathErr("write", h.name, io.ErrShortWrite)
	}
	return fit, nil
}

// shortened is how much of a write of n bytes to off gets done: a killed one
// ends at a page boundary, another anywhere.
func (f *FS) shortened(off int64, n int, killed bool) int {
	k := f.rng.IntN(n + 1)
	if killed && k < n {
		k = max(0, int((off+int64(k))/pageSize*pageSize-off))
	}
	return k
}

// room tells how many of n bytes at off the file system has space for, and
// takes it.
func (h *file) room(off int64, n int) int {
	if !h.fs.limited {
		return n
	}
	end := off + int64(n)
	for at := off / pageSize * pageSize; at < end; at += pageSize {
		if at < h.in.reserved {
			continue
		}
		if p := h.in.pages[at/pageSize]; p != nil && p.now() != nil {
			continue
		}
		if h.fs.space < pageSize {
			return int(max(at-off, 0))
		}
		h.fs.space -= pageSize
	}
	return n
}

func (h *file) Allocate(off, n int64) error {
	flt, err := h.fs.begin(h.op("allocate", off, int(n)))
	if err != nil {
		return pathErr("allocate", h.name, err)
	}
	defer h.fs.mu.Unlock()
	if more := off + n - max(h.in.reserved, off); more > 0 && !h.fs.sparse {
		if h.fs.limited {
			if h.fs.space < more {
				return pathErr("allocate", h.name, syscall.ENOSPC)
			}
			h.fs.space -= more
		}
		if off <= h.in.reserved {
			h.in.reserved = off + n
		}
	}
	h.in.setSize(max(h.in.size(), off+n))
	return pathErr("allocate", h.name, flt.err)
}

func (h *file) Truncate(size int64) error {
	flt, err := h.fs.begin(h.op("truncate", size, 0))
	if err != nil {
		return pathErr("truncate", h.name, err)
	}
	defer h.fs.mu.Unlock()
	h.in.truncate(size)
	return pathErr("truncate", h.name, flt.err)
}

func (h *file) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.in.size(), nil
}

func (*file) Regular() bool { return true }

func (h *file) IsAt(name string) bool {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.fs.names[filepath.Clean(name)] == h.in
}

func (h *file) Datasync() error {
	flt, err := h.fs.begin(h.op("sync", 0, 0))
	if err != nil {
		return pathErr("sync", h.name, err)
	}
	defer h.fs.mu.Unlock()
	h.in.sync()
	return pathErr("sync", h.name, flt.err)
}

func (h *file) Sync() error { return h.Datasync() }

func (h *file) SetXattr(name string, value []byte) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.in.xattr[name] = append([]byte(nil), value...)
	return nil
}

func (h *file) HasXattr(name string) bool {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	_, ok := h.in.xattr[name]
	return ok
}

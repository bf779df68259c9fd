package journal

import (
	"errors"
	"io"
	"os"
)

// Reading by pread goes through windows of the file: aligned blocks that are
// kept and reused. Windows of all files of a Journal come from one pool, so
// that many files cost no more memory than one.
const (
	windowBits  = 13
	windowSize  = 1 << windowBits // bytes
	windowSlots = 256             // per file, direct mapped
	// poolWindows bounds a Journal's windows to 16 MiB.
	poolWindows = 2048
)

// window is one block of a file.
type window struct {
	owner *access // nil: free
	slot  int     // index in owner.slots
	block uint64  // off >> windowBits
	n     int     // bytes that are valid, from the front
	buf   []byte  // windowSize
}

// windowPool hands out windows, at most max of them; then it takes the oldest
// away from its owner.
type windowPool struct {
	max  int
	all  []*window
	hand int
}

func (p *windowPool) get() *window {
	if len(p.all) < p.max {
		w := &window{buf: make([]byte, windowSize)}
		p.all = append(p.all, w)
		return w
	}
	w := p.all[p.hand]
	p.hand = (p.hand + 1) % len(p.all)
	if w.owner != nil {
		w.owner.slots[w.slot] = nil
		w.owner = nil
	}
	return w
}

// access reads bytes of one file, mapped or through windows. What it returns
// is valid until the next call.
type access struct {
	r     io.ReaderAt
	size  func() int64
	end   uint64 // bytes of the file, as known; never more than it had
	m     []byte // the mapping; nil: windows
	lazy  bool   // to be mapped when mapAfter windows have been read
	loads int    // windows read, while lazy
	short bool   // a read has found the file shorter than end
	pool  *windowPool
	slots []*window // windowSlots, made with the first
	spill []byte    // for what lies across windows
}

// errBeyond says that the file ends before the bytes asked for.
var errBeyond = errors.New("beyond the end of the file")

// shorter is errBeyond for what was there when end was set.
func (a *access) shorter() error {
	a.short = true
	return errBeyond
}

// at returns the n bytes at off. It fails with errBeyond or the error of the
// read, and allocates no more than the file has bytes.
func (a *access) at(off, n uint64) ([]byte, error) {
	if off+n > uint64(len(a.m)) || off+n < off {
		return a.atSlow(off, n)
	}
	return a.m[off : off+n : off+n], nil
}

func (a *access) atSlow(off, n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if off > a.end || n > a.end-off {
		return nil, errBeyond
	}
	block := off >> windowBits
	if (off+n-1)>>windowBits == block {
		w, err := a.load(block)
		if err != nil {
			return a.readLarge(off, n) // the error may be of another part of the window
		}
		i := off & (windowSize - 1)
		if i+n > uint64(w.n) {
			return nil, a.shorter()
		}
		return w.buf[i : i+n : i+n], nil
	}
	if n > windowSize {
		return a.readLarge(off, n)
	}
	a.spill = a.spill[:0]
	for begin, all := off, n; n > 0; {
		w, err := a.load(off >> windowBits)
		if err != nil {
			return a.readLarge(begin, all)
		}
		i := off & (windowSize - 1)
		part := min(n, windowSize-i)
		if i+part > uint64(w.n) {
			return nil, a.shorter()
		}
		a.spill = append(a.spill, w.buf[i:i+part]...)
		off += part
		n -= part
	}
	return a.spill, nil
}

// largeStep bounds how far memory is allocated ahead of the bytes read.
const largeStep = 4 << 20

func (a *access) readLarge(off, n uint64) ([]byte, error) {
	a.spill = a.spill[:0]
	for n > 0 {
		have := len(a.spill)
		part := int(min(n, largeStep))
		if cap(a.spill)-have < part {
			grown := make([]byte, have, max(2*cap(a.spill), have+part))
			copy(grown, a.spill)
			a.spill = grown
		}
		a.spill = a.spill[:have+part]
		got, err := a.r.ReadAt(a.spill[have:], int64(off))
		if got < part {
			if err = readError(err); errors.Is(err, errBeyond) {
				err = a.shorter()
			}
			return nil, err
		}
		off += uint64(part)
		n -= uint64(part)
	}
	return a.spill, nil
}

func readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errBeyond
	}
	return err
}

// mapAfter is how many windows are read of a file before it is mapped: of most of
// the files in a directory a query needs a few.
const mapAfter = 24

// mapDue maps a file that is read more than a little.
func (a *access) mapDue() {
	if a.loads++; a.loads < mapAfter {
		return
	}
	a.lazy = false
	if osf, ok := a.r.(*os.File); ok {
		if m, err := mapFile(osf, int64(a.end)); err == nil { //nolint:gosec // a file's size
			a.m = m
		}
	}
}

// load returns the window that holds block.
func (a *access) load(block uint64) (*window, error) {
	slot := int(block % windowSlots)
	if a.slots == nil {
		a.slots = make([]*window, windowSlots)
	}
	w := a.slots[slot]
	if w != nil && w.block == block {
		return w, nil
	}
	if w == nil {
		if a.pool == nil {
			a.pool = &windowPool{max: windowSlots}
		}
		w = a.pool.get()
		w.owner, w.slot = a, slot
		a.slots[slot] = w
	}
	if a.lazy {
		a.mapDue()
	}
	// Until it is read the window must not be found under either number.
	w.block, w.n = ^uint64(0), 0
	off := block << windowBits
	n, err := a.r.ReadAt(w.buf[:min(windowSize, a.end-off)], int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	w.block, w.n = block, n
	return w, nil
}

// forget drops what is kept of the file, so that later reads see what its
// writer has changed since.
func (a *access) forget() {
	for _, w := range a.slots {
		if w != nil {
			w.block, w.n = ^uint64(0), 0
		}
	}
}

// setPool moves the file's windows to another pool.
func (a *access) setPool(p *windowPool) {
	a.release()
	a.pool = p
}

// release gives all memory back.
func (a *access) release() {
	for i, w := range a.slots {
		if w != nil {
			w.owner = nil
			w.block, w.n = ^uint64(0), 0
			a.slots[i] = nil
		}
	}
	a.spill = nil
}

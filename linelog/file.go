package linelog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// file is the open log. Its methods are called with Writer.io held, but for sync.
//
// A repair goes through a second descriptor: pwrite on one with O_APPEND appends.
type file struct {
	app     vfs.File // O_APPEND: for new lines
	fix     vfs.File // without it: to read and to repair; nil for a device
	lock    *locker
	path    string  // symbolic links followed
	archive string  // what a rotation has renamed it to; "": nothing
	via     conduit // to the daemon that writes it; nil: this process does
	given   bool    // the descriptors were given, or path is a link: no name of its own is known
	regular bool
	shared  bool // others append, too
	torn    Torn
	maxLine int

	end    int64      // where the last write of ours has ended
	lines  int64      // where the whole lines of it have ended
	pieces []fragment // what is to be marked, in this order
	marked int        // how many were, and are not counted yet
	unsure bool       // the last write failed: it may have left something behind end

	started bool // shared: end is that of a line, after a write of ours
	lead    bool // shared: the next write begins with a newline
	glue    seam // shared: where the last write of ours begins
	buf     [1 + seamLen]byte

	flushed bool // its write-back was begun, after it was rotated

	dirty  bool   // written to since the last sync began
	named  uint64 // the names it had when the directory was synced; used by the sync effect only
	failed error  // of its sync; nil: none has failed

	names atomic.Uint64 // how many it has had, by rotations; 0: none is known
}

// maxReadAhead is what is read at once where more may follow.
const maxReadAhead = 64 << 10

// open opens the path of w. Called with io held, or before w is used.
func (w *Writer) open() (*file, error) {
	path, named := w.path, true
	if _, ok := w.o.FS.(vfs.OS); ok {
		if f := w.openBrief(path); f != nil {
			return f, nil
		}
		path, named = resolve(path)
	}
	f, err := w.openPath(path, w.o.Perm)
	if err == nil {
		if f.given = !named && f.regular; f.given {
			f.names.Store(0)
		}
	}
	return f, err
}

// errExchanged says that somebody has renamed or removed a file while it was opened.
var errExchanged = errors.New("it was exchanged meanwhile")

// openTries is how often a file is opened that is exchanged meanwhile.
const openTries = 10

// openPath opens a file, which is made with perm if it is not there.
func (w *Writer) openPath(path string, perm fs.FileMode) (f *file, err error) {
	for range openTries {
		if f, err = w.tryPath(path, perm); !errors.Is(err, errExchanged) {
			break
		}
	}
	return f, err
}

// tryPath opens a file twice, the second time by the first descriptor where the system
// can: the path is not walked again, which a network file system would take round trips
// for, and it is the same file for certain. Else what others do to the path in between
// is errExchanged.
func (w *Writer) tryPath(path string, perm fs.FileMode) (_ *file, err error) {
	f := &file{path: path}
	f.names.Store(1)
	if f.app, err = w.o.FS.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm); err != nil {
		return nil, err
	}
	if f.regular = f.app.Regular(); !f.regular {
		return f, nil
	}
	if f.fix = again(f.app); f.fix == nil {
		f.fix, err = w.o.FS.OpenFile(f.path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!f.app.IsAt(f.path) || !f.fix.IsAt(f.path)) {
			err = &fs.PathError{Op: "open", Path: f.path, Err: errExchanged}
		}
	}
	if err == nil {
		err = w.ready(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// ready makes a regular file ready to be written to.
func (w *Writer) ready(f *file) (err error) {
	f.torn, f.maxLine, f.shared = w.o.Torn, w.o.MaxLine, w.o.Shared
	if w.via != "" {
		f.via, err = newConduit(w.via, f)
		return err
	}
	if f.lock, err = newLocker(f.fix, &w.o); err != nil {
		return err
	}
	if f.shared {
		return nil // what is seen at its end may be a write in progress; tidy looks before the first write
	}
	if f.end, err = f.app.Size(); err != nil {
		return err
	}
	if err := f.findTail(f.end); err != nil {
		return err
	}
	// What cannot be repaired now (an I/O error) is before the first write.
	f.repair() //nolint:errcheck // write tries again, and tells
	return nil
}

// write appends p, whole lines, with one write(2), and returns how many bytes of it
// need not be written again: whole lines, or on a device any. All of them with an
// error: something before them is still to be marked.
//
// The system calls: write(O_APPEND), lseek, in a shared file pread of what is around
// the seam, or under a lock of all of them fstat and pread of the end before; after a
// short one pread and pwrite over the piece; before the one after a failed one fstat and
// pread, since that may have written something.
func (f *file) write(p []byte) (n int, err error) {
	if f.via != nil {
		if err := f.via.append(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if err := f.repair(); err != nil {
		return 0, err
	}
	if f.unsure {
		if n, err := f.found(p); n > 0 || err != nil {
			return n, err
		}
	}
	if f.shared && f.regular {
		if err := f.tidy(); err != nil {
			return 0, err
		}
	}
	q := f.led(p)
	n, end, err := f.app.Append(q)
	switch {
	case !f.regular:
		return n, err
	case n == 0 && err != nil:
		f.unsure = true
		return 0, err
	}
	// The kernel has said so, unless somebody has moved the offset of a file that was given.
	end = max(end, int64(n))
	f.end, f.lines = end, end
	if f.shared {
		f.started = true
		f.seam(q[:n])
	}
	if err != nil {
		return max(f.took(q, n)-(len(q)-len(p)), 0), err
	}
	return len(p), f.repair()
}

// took is what a write that left n bytes of p before end has come to.
func (f *file) took(p []byte, n int) int {
	whole := bytes.LastIndexByte(p[:n], '\n') + 1
	f.lines = f.end - int64(n-whole)
	if n > whole {
		f.pieces = append(f.pieces, fragment{off: f.lines, text: bytes.Clone(p[whole:n])})
	}
	f.repair() //nolint:errcheck // write tries again, and tells
	return whole
}

// found finds out what a failed write of p has left, as write does.
func (f *file) found(p []byte) (n int, err error) {
	q := f.led(p)
	n, err = f.look(q)
	return max(n-(len(q)-len(p)), 0), err
}

// look finds out what a failed write of p has left behind end, as took does. What
// is there and is not p comes from somebody else. In a shared file it is taken for
// ours only if nothing else is there; who cannot know writes it again.
func (f *file) look(p []byte) (int, error) {
	size, err := f.app.Size()
	if err != nil {
		return 0, err
	}
	n := int(min(size-f.end, int64(len(p))))
	if f.shared && size-f.end > int64(len(p)) {
		n = 0
	}
	if n > 0 {
		b := make([]byte, n)
		if _, err := f.fix.ReadAt(b, f.end); err != nil {
			return 0, err
		}
		if !bytes.Equal(b, p[:n]) {
			n = 0
		}
	}
	f.unsure = false
	if n <= 0 {
		f.end, f.started = size, false
		return 0, nil
	}
	f.end += int64(n)
	if f.shared {
		f.started = true
		f.seam(p[:n])
	}
	return f.took(p, n), f.repair()
}

// settle marks what a write has torn, in a file that gets no more of them. What is
// behind the writes of ours in a shared file may be of others.
func (f *file) settle() error {
	if f.unsure && !f.shared {
		size, err := f.app.Size()
		if err != nil {
			return err
		}
		if n := size - f.end; n > 0 {
			b := make([]byte, n)
			if _, err := f.fix.ReadAt(b, f.end); err != nil {
				return err
			}
			if whole := bytes.LastIndexByte(b, '\n') + 1; whole < len(b) {
				f.pieces = append(f.pieces, fragment{off: f.end + int64(whole), text: b[whole:]})
			}
		}
	}
	f.unsure = false
	return f.repair()
}

// sync is fdatasync, and the first time a sync of the directory too, so that the
// name survives as well. condemned: what is in the file is not known to be on the
// disk, and no later sync can tell.
func (f *file) sync(fsys vfs.FS) (condemned bool, err error) {
	if !f.regular {
		return false, nil
	}
	if f.via != nil {
		if err := f.via.sync(); err != nil {
			return false, err // what becomes of the lines is the daemon's to decide
		}
	} else if err := f.app.Datasync(); err != nil {
		return true, err
	}
	names := f.names.Load() // first: it may get another during the sync
	if f.named != names {
		err := fsys.SyncDir(filepath.Dir(f.path))
		// A log may be in a directory that its writer may not read.
		if all, ok := f.app.(interface{ SyncFS() error }); ok && errors.Is(err, fs.ErrPermission) {
			err = all.SyncFS()
		}
		if err != nil {
			return false, err
		}
		f.named = names
	}
	return false, nil
}

func (f *file) close() error {
	var err error
	switch {
	case f.lock != nil:
		err = f.lock.shut()
	case f.fix != nil:
		err = f.fix.Close()
	}
	if f.via != nil {
		err = errors.Join(err, f.via.close())
	}
	if _, both := f.fix.(*brief); both {
		return err
	}
	return errors.Join(err, f.app.Close())
}

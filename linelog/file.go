package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// file is the open log. Its methods are called with Writer.io held, but for sync.
//
// A repair goes through a second descriptor: pwrite on one with O_APPEND appends.
type file struct {
	app     vfs.File // O_APPEND: for new lines
	fix     vfs.File // without it: to read and to repair; nil for a device
	path    string   // symbolic links followed
	archive string   // what a rotation has renamed it to; "": nothing
	regular bool
	torn    Torn

	end    int64 // where the last write of ours has ended
	lines  int64 // where the whole lines of it have ended
	piece  int64 // offset of the piece of a line that is to be marked
	pieceN int64 // its length; 0: there is none
	whole  bool  // the text of the piece is not to be kept
	unsure bool  // the last write failed: it may have left something behind end

	dirty  bool  // written to since the last sync began
	named  bool  // a sync of the directory has been done; used by the sync effect only
	failed error // of its sync; nil: none has failed
}

// maxReadAhead bounds what is read at once.
const maxReadAhead = 64 << 10

// open opens the path of w. Called with io held, or before w is used.
func (w *Writer) open() (*file, error) {
	path := w.path
	if _, ok := w.o.FS.(vfs.OS); ok {
		path = resolve(path)
	}
	return w.openPath(path, w.o.Perm)
}

// openPath opens a file, which is made with perm if it is not there.
func (w *Writer) openPath(path string, perm fs.FileMode) (_ *file, err error) {
	f := &file{path: path, torn: w.o.Torn}
	if f.app, err = w.o.FS.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm); err != nil {
		return nil, err
	}
	if f.regular = f.app.Regular(); !f.regular {
		return f, nil
	}
	if f.fix, err = w.o.FS.OpenFile(f.path, os.O_RDWR, 0); err == nil && (!f.app.IsAt(f.path) || !f.fix.IsAt(f.path)) {
		err = &fs.PathError{Op: "open", Path: f.path, Err: errors.New("it was exchanged meanwhile")}
	}
	if err == nil {
		err = f.findTail(w.o.MaxLine)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	// What cannot be repaired now (an I/O error) is before the first write.
	f.repair() //nolint:errcheck // write tries again, and tells
	return f, nil
}

// findTail finds the part of a line at the end of the file that a killed writer has
// left.
func (f *file) findTail(maxLine int) error {
	size, err := f.app.Size()
	if err != nil || size == 0 {
		return err
	}
	f.end = size
	for n := int64(0); n < size && n <= int64(maxLine); {
		step := min(size-n, maxReadAhead)
		b := make([]byte, step)
		if _, err := f.fix.ReadAt(b, size-n-step); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			f.piece = size - n - step + int64(i) + 1
			f.pieceN = size - f.piece
			return nil
		}
		n += step
		f.piece, f.pieceN = size-n, n
	}
	if f.pieceN < size {
		// No line of ours is so long. Its end becomes the end of a line, so that the
		// next one has its own.
		f.piece, f.pieceN, f.whole = size-1, 1, true
	}
	return nil
}

// repair marks the piece, in place: its blocks are there, so this works on a full
// disk. '#' comes before the newline: a kill in between leaves what the next open
// finds.
func (f *file) repair() error {
	if f.pieceN == 0 {
		return nil
	}
	put := func(b []byte, off int64) error {
		for len(b) > 0 {
			n, err := f.fix.WriteAt(b, off)
			if err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)) {
				return err
			}
			b, off = b[n:], off+int64(n)
		}
		return nil
	}
	last := f.piece + f.pieceN - 1
	var err error
	switch {
	case f.pieceN == 1:
	case f.torn == Comment && !f.whole:
		err = put([]byte{'#'}, f.piece)
	default:
		fill := byte(' ')
		if f.torn == Comment {
			fill = '#'
		}
		b := bytes.Repeat([]byte{fill}, int(min(f.pieceN-1, maxReadAhead)))
		for off := f.piece; err == nil && off < last; off += int64(len(b)) {
			err = put(b[:min(int64(len(b)), last-off)], off)
		}
	}
	if err == nil {
		err = put(newline, last)
	}
	if err != nil {
		return fmt.Errorf("mark a torn line: %w", err)
	}
	f.pieceN, f.whole = 0, false
	return nil
}

// write appends p, whole lines, with one write(2), and returns how many bytes of it
// need not be written again: whole lines, or on a device any.
//
// The system calls: write(O_APPEND), lseek; after a short one pwrite of '#'s and
// pwrite of '\n' over the piece; before the one after a failed one fstat and pread,
// since that may have written something.
func (f *file) write(p []byte) (int, error) {
	if err := f.repair(); err != nil {
		return 0, err
	}
	if f.unsure {
		if n, err := f.look(p); n > 0 || err != nil {
			return n, err
		}
	}
	n, end, err := f.app.Append(p)
	switch {
	case err == nil, !f.regular:
		f.end, f.lines = end, end
		return n, err
	case n == 0:
		f.unsure = true
		return 0, err
	}
	f.end = end
	return f.took(p, n), err
}

// took is what a write that left n bytes of p before end has come to.
func (f *file) took(p []byte, n int) int {
	whole := bytes.LastIndexByte(p[:n], '\n') + 1
	f.lines = f.end - int64(n-whole)
	if n > whole {
		f.piece, f.pieceN, f.whole = f.lines, int64(n-whole), true
		f.repair() //nolint:errcheck // write tries again, and tells
	}
	return whole
}

// look finds out what a failed write of p has left behind end, as took does. What
// is there and is not p comes from somebody else.
func (f *file) look(p []byte) (int, error) {
	size, err := f.app.Size()
	if err != nil {
		return 0, err
	}
	n := int(min(size-f.end, int64(len(p))))
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
		f.end = size
		return 0, nil
	}
	f.end += int64(n)
	return f.took(p, n), nil
}

// settle marks what a write has torn, in a file that gets no more of them.
func (f *file) settle() error {
	if f.unsure {
		size, err := f.app.Size()
		if err != nil {
			return err
		}
		if n := size - f.end; n > 0 {
			b := make([]byte, n)
			if _, err := f.fix.ReadAt(b, f.end); err != nil {
				return err
			}
			whole := int64(bytes.LastIndexByte(b, '\n') + 1)
			f.piece, f.pieceN, f.whole = f.end+whole, n-whole, true
		}
		f.unsure = false
	}
	return f.repair()
}

// sync is fdatasync, and the first time a sync of the directory too, so that the
// name survives as well. condemned: what is in the file is not known to be on the
// disk, and no later sync can tell.
func (f *file) sync(fsys vfs.FS) (condemned bool, err error) {
	if !f.regular {
		return false, nil
	}
	if err := f.app.Datasync(); err != nil {
		return true, err
	}
	if !f.named {
		if err := fsys.SyncDir(filepath.Dir(f.path)); err != nil {
			return false, err
		}
		f.named = true
	}
	return false, nil
}

func (f *file) close() error {
	var err error
	if f.fix != nil {
		err = f.fix.Close()
	}
	return errors.Join(err, f.app.Close())
}

package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// fragment is a part of a line that a fault has left in the file. It is marked in
// place: its blocks are there, so this works on a full disk, and nothing moves that
// others have appended behind it. To mark it twice, or by two processes at a time, is
// to mark it once.
type fragment struct {
	off  int64
	text []byte // what is there
	keep bool   // all but its first and last byte: there is no other copy of the line
}

// seamLen is how much of a batch is compared, to know that it is still where it was
// written.
const seamLen = 32

// seam is where the last batch begins: what stands before it is looked at once.
type seam struct {
	open bool // it is to be looked at
	lead bool // the batch began with a newline of its own
	at   int64
	n    int // how much of head is used
	head [seamLen]byte
}

// owes reports whether repair has something to do.
func (f *file) owes() bool { return f.glue.open || len(f.pieces) > 0 }

// repair looks at the seam and marks what is to be marked.
func (f *file) repair() error {
	if f.glue.open {
		if err := f.checkSeam(); err != nil {
			return fmt.Errorf("look for a torn line: %w", err)
		}
	}
	for len(f.pieces) > 0 {
		if err := f.mark(&f.pieces[0]); err != nil {
			return fmt.Errorf("mark a torn line: %w", err)
		}
		f.pieces = slices.Delete(f.pieces, 0, 1)
		f.marked++
	}
	return nil
}

// mark marks a fragment, if it is still there: a file that was truncated meanwhile
// would get a hole. Where the text is kept the '#' comes before the newline: a kill in
// between leaves a comment.
func (f *file) mark(x *fragment) error {
	got := make([]byte, len(x.text))
	if _, err := f.fix.ReadAt(got, x.off); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if !x.is(got) {
		return nil
	}
	last := len(x.text) - 1
	if x.keep && f.torn == Comment {
		if last > 0 {
			if err := f.over([]byte{'#'}, x.off); err != nil {
				return err
			}
		}
		return f.over(newline, x.off+int64(last))
	}
	fill := byte(' ')
	if f.torn == Comment {
		fill = '#'
	}
	return f.over(append(bytes.Repeat([]byte{fill}, last), '\n'), x.off)
}

// is reports whether got is the fragment, or what a mark of it has made of it.
func (x *fragment) is(got []byte) bool {
	for i, c := range got {
		if c != x.text[i] && c != '#' && c != ' ' && (c != '\n' || i < len(got)-1) {
			return false
		}
	}
	return true
}

// over overwrites what is at off.
func (f *file) over(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := f.fix.WriteAt(b, off)
		if err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)) {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// findTail finds the part of a line before end, which a killed writer has left.
func (f *file) findTail(end int64) error {
	x, err := f.tail(end)
	if err == nil && len(x.text) > 0 {
		f.pieces = slices.Insert(f.pieces, 0, x)
	}
	return err
}

// tail returns the part of a line that stands before end.
func (f *file) tail(end int64) (x fragment, err error) {
	ahead := int64(maxReadAhead)
	for b := []byte(nil); ; ahead = int64(len(b)) { // twice as much each time: what is copied stays in proportion
		step := min(end-int64(len(b)), ahead)
		switch {
		case step == 0:
			return fragment{0, b, true}, nil
		case len(b) >= f.maxLine:
			// No line of ours is so long. Its end becomes the end of a line, so that the
			// next one has its own.
			return fragment{end - 1, b[len(b)-1:], false}, nil
		}
		more := make([]byte, step, int(step)+len(b))
		off := end - int64(len(b)) - step
		if _, err := f.fix.ReadAt(more, off); err != nil {
			return fragment{}, err
		}
		b = append(more, b...)
		if i := bytes.LastIndexByte(more, '\n') + 1; i > 0 {
			return fragment{off + int64(i), b[i:], true}, nil
		}
	}
}

// tidy sees to it that a batch can be told from what is before it in a shared file. The
// end of the file may be a write in progress, so nothing is overwritten that is merely
// seen: if it is no end of a line, the first write of ours begins with a newline, and
// once it is written, its seam tells. A file that has grown since the last look is alive:
// then it is looked at again, and when it grows all the time the write of ours will come
// behind the end of another, and needs no newline. Under a lock that everyone takes there is
// no write in progress, and the part of a line at the end is marked before each write.
func (f *file) tidy() error {
	sole := f.lock.sole
	if f.started && !sole {
		return nil
	}
	last := int64(-1)
	for looks, still := 1, 1; ; looks++ {
		size, err := f.app.Size()
		if err != nil || f.started && size == f.end {
			return err
		}
		ragged, err := f.ragged(size)
		if err != nil {
			return err
		}
		f.end, f.lead = size, ragged && !sole
		if still++; size != last {
			last, still = size, 1
		}
		switch {
		case !ragged:
			return nil
		case sole:
			if err := f.findTail(size); err != nil {
				return err
			}
			return f.repair()
		case still == stillLooks:
			return nil
		case looks == maxLooks:
			f.lead = false
			return nil
		}
		// On most file systems a write of nothing waits for the one in progress.
		f.app.Append(nil) //nolint:errcheck // the next look tells
	}
}

// The end of a shared file is looked at before the first write: stillLooks times if it
// stays where it is, in the middle of a line, and at most maxLooks times.
const (
	stillLooks = 3
	maxLooks   = 30
)

// ragged reports whether the file, up to size, ends in the middle of a line.
func (f *file) ragged(size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	b := f.buf[:1]
	if _, err := f.fix.ReadAt(b, size-1); err != nil {
		if errors.Is(err, io.EOF) { // truncated meanwhile
			return false, nil
		}
		return false, err
	}
	return b[0] != '\n', nil
}

// led is p, behind a newline if it is to begin with one.
func (f *file) led(p []byte) []byte {
	if !f.lead {
		return p
	}
	return append(append(make([]byte, 0, len(p)+1), '\n'), p...)
}

// seam takes note of where p, a batch that was written up to f.end, begins.
func (f *file) seam(p []byte) {
	s := &f.glue
	s.at, s.lead = f.end-int64(len(p)), f.lead
	s.open = s.at > 0 && !f.lock.sole // under such a lock it was looked at before
	s.n = copy(s.head[:], p)
	f.lead = false
}

// checkSeam looks at the byte before the last batch. Writes are serialized, so the one
// before has ended: if that byte is no newline, its writer is dead, or repairing the
// same bytes.
func (f *file) checkSeam() error {
	s := &f.glue
	b := f.buf[:1+s.n]
	if _, err := f.fix.ReadAt(b, s.at-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if err != nil || !bytes.Equal(b[1:], s.head[:s.n]) {
		s.open = false // truncated meanwhile
		return nil
	}
	if b[0] != '\n' {
		x, err := f.tail(s.at)
		if err != nil {
			return err
		}
		if s.lead {
			x.text = append(x.text, '\n')
		}
		f.pieces = slices.Insert(f.pieces, 0, x)
	}
	s.open = false
	return nil
}

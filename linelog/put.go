package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// writeEffect is the effect of the settler write.
func (w *Writer) writeEffect(upTo uint64) (uint64, error) {
	w.io.Lock()
	err := w.put(upTo)
	pos := w.written
	w.io.Unlock()
	w.tell()
	return pos, err
}

// put writes what was accepted up to upTo, the oldest first. What an earlier call
// could not write is tried again before anything newer. Called with io held.
func (w *Writer) put(upTo uint64) error {
	if err := w.repairOwed(); err != nil {
		return w.writeFailed(err)
	}
	for w.written < upTo {
		if w.stage == nil && !w.next() {
			return nil
		}
		if err := w.putStage(); err != nil {
			return w.writeFailed(err)
		}
	}
	return nil
}

// next takes the oldest chunk. Without one everything accepted is written.
func (w *Writer) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stage = w.q.take(); w.stage == nil {
		w.written = w.pos
		return false
	}
	return true
}

// putStage writes the stage, or a part of it that is whole lines. Called with io
// held.
func (w *Writer) putStage() (err error) {
	if w.f == nil {
		if w.f, err = w.open(); err != nil {
			return err
		}
	}
	w.rotateIfDue(len(w.stage.buf))
	c, f := w.stage, w.f
	if err := w.lock(f); err != nil {
		return err
	}
	n, err := f.write(c.buf)
	w.unlock(f)
	if errors.Is(err, ErrUnanswered) {
		w.unanswered(err)
		return nil
	}
	short := errors.Is(err, io.ErrShortWrite)
	if short || f.marked > 0 {
		w.countTorn(f, short)
	}
	switch {
	case n == len(c.buf):
		w.staged(f)
		return err
	case n == 0 && err != nil:
		return err
	}
	w.partly(f, n)
	if short {
		return nil
	}
	return err
}

// repairOwed marks what a write has left to be marked, though all is written. Called with
// io held.
func (w *Writer) repairOwed() error {
	f := w.f
	if f == nil || !f.owes() {
		return nil
	}
	if err := w.lock(f); err != nil {
		return err
	}
	err := f.repair()
	w.unlock(f)
	w.countTorn(f, false)
	return err
}

// countTorn counts a short write, and what was marked.
func (w *Writer) countTorn(f *file, short bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if short {
		w.counts.short++
	}
	w.counts.torn += uint64(f.marked)
	f.marked = 0
}

// staged takes note that the stage is in f. Called with io held.
func (w *Writer) staged(f *file) {
	c := w.stage
	n := len(c.buf)
	w.stage, w.written = nil, c.pos
	w.wrote(f, c)
	w.works(n)
}

// partly takes note that n bytes of the stage are in f, whole lines, and the others
// are still to be written. On a device the rest just goes on. Called with io held.
func (w *Writer) partly(f *file, n int) {
	c := w.stage
	if f.regular {
		part := &chunk{buf: bytes.Clone(c.buf[:n]), lines: uint64(bytes.Count(c.buf[:n], newline)), pos: w.written, end: c.end}
		c.lines -= part.lines
		w.wrote(f, part)
	}
	c.buf, c.sum = c.buf[:copy(c.buf, c.buf[n:])], 0
	w.works(n)
}

// wrote keeps what has come into f until it is synced. Called with io held.
func (w *Writer) wrote(f *file, c *chunk) {
	if !f.regular || f.via != nil {
		f.dirty = f.regular
		w.recycle(c)
		return
	}
	f.dirty = true
	w.keep.add(f, c, f.lines)
}

// recycle gives a chunk to those who append.
func (w *Writer) recycle(c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.q.recycle(c)
}

// works takes note of n bytes that were written.
func (w *Writer) works(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.writes++
	w.q.release(n)
	if w.failing {
		w.failing, w.err = false, nil
		w.news = append(w.news, fmt.Sprintf("line log %s: writes work again", w.path))
	}
	if w.q.dropped > 0 && w.q.fits(noticeLen) {
		w.sayDropped()
	}
}

// writeFailed takes note of an error of a write.
func (w *Writer) writeFailed(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.writeErrors++
	w.err = err
	if !w.failing {
		w.failing = true
		w.news = append(w.news, fmt.Sprintf("line log: %v: lines wait in memory until it works again", err))
	}
	return err
}

// noticeLen is more than a notice has, in bytes.
const noticeLen = 200

// notice is a line of the writer's own.
func notice(format string, args ...any) []byte {
	return fmt.Appendf(nil, "# linelog: %s: %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
}

// sayDropped puts into the log, at the place where they are missing, how many lines
// were dropped. Called with mu held.
func (w *Writer) sayDropped() {
	q := &w.q
	if q.dropped == 0 {
		return
	}
	text := fmt.Sprintf("lines dropped: %d (%d bytes), while %d bytes were waiting to be written", q.dropped, q.droppedBytes, q.limit)
	q.dropped, q.droppedBytes = 0, 0
	line := notice("%s", text)
	w.pos++
	w.counts.lines++
	w.counts.bytes += uint64(len(line))
	q.add(line, nil, w.pos)
	w.noticed = true
	w.news = append(w.news, fmt.Sprintf("line log %s: %s", w.path, text))
}

// tell says what there is to say, and has notices written. Called without locks, at
// the end of an effect.
func (w *Writer) tell() {
	w.tellRotation()
	w.mu.Lock()
	news := w.news
	w.news = nil
	if w.noticed {
		w.noticed = false
		w.mark()
	} else {
		w.mu.Unlock()
	}
	if w.o.Say != nil {
		for _, text := range news {
			w.o.Say(text)
		}
	}
}

package linelog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
)

// copySlack is how much of a rest a chunk has room for beside what one read brings.
const copySlack = 4 << 10

// CopyFrom appends what it reads from r, as Write does, until r ends (nil), fails (its
// error) or ctx does. It is for pipes: what one read has brought is read into the place
// it is written from, up to Options.Buffer bytes, and its lines are in the file before
// the next read begins, so that the death of this process loses no line that was
// whole when that began. Nobody else may call a method of s meanwhile but Close.
//
// While writes fail it goes on to read until the buffer is full (Options.Limit), and
// with Block waits for room then. ctx ends that, and no read: who needs to has r's end.
// Of what was read nothing is lost by an error of r or of ctx; after ErrClosed the
// last read is.
func (s *Stream) CopyFrom(ctx context.Context, r io.Reader) (n int64, err error) {
	w := s.w
	for {
		c, err := s.place(ctx)
		if err != nil {
			return n, err
		}
		at := len(c.buf)
		m, rerr := r.Read(c.buf[at:min(cap(c.buf), at+w.o.Buffer)])
		c.buf = c.buf[:at+m]
		n += int64(m)
		pos, err := s.placed(c, at)
		if err != nil {
			return n, err
		}
		w.sync.Mark(pos)
		// An error of the write is that of the file: its lines wait, and more may come.
		w.write.MarkAndWait(ctx, pos) //nolint:errcheck // see above
		switch {
		case errors.Is(rerr, io.EOF):
			return n, nil
		case rerr != nil:
			return n, rerr
		}
	}
}

// place waits for room, and returns a chunk that begins with the rest.
func (s *Stream) place(ctx context.Context) (*chunk, error) {
	w := s.w
	w.mu.Lock()
	for !s.closed && w.o.Full == Block && !w.q.fits(w.o.Buffer) {
		w.counts.blocked++
		room := w.q.wait()
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		w.mu.Lock()
		if ctx.Err() != nil {
			break
		}
	}
	defer w.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	c := w.q.blank()
	if need := len(s.rest) + w.o.Buffer; cap(c.buf) < need {
		c.buf = slices.Grow(c.buf, max(need, w.o.Buffer+copySlack))
	}
	c.buf = append(c.buf, s.rest...)
	return c, nil
}

// placed accepts what stands in c, behind the rest of before, which ends at at. No
// settler knows of it yet.
func (s *Stream) placed(c *chunk, at int) (pos uint64, err error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	p := c.buf[at:]
	whole := at + bytes.LastIndexByte(p, '\n') + 1
	switch {
	case whole == at || w.o.Full == Drop || whole > w.o.MaxLine || w.o.Rotate.Size > 0 && int64(whole) > w.o.Rotate.Size, w.q.joins(whole):
		// It may have to be counted, or cut, by the line, or to go to several files. While
		// writes fail a chunk for each read would take many times the memory of its lines.
		s.take(p)
		w.q.recycle(c)
	case len(w.q.parts) > 0 && whole <= w.o.Buffer/4:
		s.take(p) // writes fail, and a chunk for each few lines would be much memory
		w.q.recycle(c)
	default:
		s.rest = append(s.rest[:0], c.buf[whole:]...)
		c.buf = c.buf[:whole]
		w.pos = w.q.push(c, w.pos)
		w.counts.lines += c.lines
		w.counts.bytes += uint64(len(c.buf))
	}
	w.q.urge = false // it is written at once
	return w.pos, nil
}

// take accepts p as Write does, or drops it. Called with Writer.mu held; there is room
// unless Options.Full is Drop.
func (s *Stream) take(p []byte) {
	p = s.skipped(p)
	whole := bytes.LastIndexByte(p, '\n') + 1
	if whole == 0 && len(s.rest)+len(p) < s.w.o.MaxLine {
		s.rest = append(s.rest, p...) // needs no room: it is bounded
		return
	}
	lines := whole
	if whole == 0 {
		lines = len(p) // the line is too long, and cut
	}
	if s.w.o.Full == Drop {
		if _, err := s.w.admit(len(s.rest)+lines, p[:lines]); err != nil {
			s.dropped(p, lines, whole)
			return
		}
	}
	s.accept(p, whole)
}

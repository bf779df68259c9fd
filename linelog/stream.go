package linelog

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"
)

// Stream is one source of lines of a Writer. It keeps a rest of its own, so that
// lines of different sources, in pieces of any size, do not mix. It implements
// io.WriteCloser. Its methods may be called concurrently.
type Stream struct {
	w      *Writer
	rest   []byte // what has come after the last newline; guarded by Writer.mu
	skip   bool   // the beginning of this line was dropped; guarded by Writer.mu
	closed bool   // guarded by Writer.mu
}

// Stream returns a new source. Who has no more use for it closes it; Close of the
// Writer does so too.
func (w *Writer) Stream() *Stream {
	s := &Stream{w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.closed = w.closing
	if !s.closed {
		w.streams = append(w.streams, s)
	}
	return s
}

// Write is Writer.Write for this source.
func (s *Stream) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := portion(p[done:], s.w.o.MaxLine)
		if err := s.write(p[done : done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// portion is how much of p is accepted at a time: whole lines, some size bytes of them
// or one that is longer, so that what others write comes between lines. What has no
// newline any more is a rest, of which a part may be cut at a time.
func portion(p []byte, size int) int {
	if len(p) <= size {
		return len(p)
	}
	if n := bytes.LastIndexByte(p[:size], '\n') + 1; n > 0 {
		return n
	}
	if n := bytes.IndexByte(p, '\n') + 1; n > 0 {
		return n
	}
	return size
}

// write accepts a portion.
func (s *Stream) write(p []byte) error {
	w := s.w
	w.mu.Lock()
	for {
		if s.closed {
			w.mu.Unlock()
			return ErrClosed
		}
		p = s.skipped(p)
		whole := bytes.LastIndexByte(p, '\n') + 1
		if whole == 0 && len(s.rest)+len(p) < w.o.MaxLine {
			s.rest = append(s.rest, p...) // needs no room: it is bounded
			w.mu.Unlock()
			return nil
		}
		take := whole
		if whole == 0 {
			take = len(p) // the line is too long, and cut
		}
		room, err := w.admit(len(s.rest)+take, p[:take])
		switch {
		case err == nil && room == nil:
			s.accept(p, whole)
			w.mark()
			return nil
		case room != nil:
			w.mu.Unlock()
			<-room
			w.mu.Lock()
			continue
		}
		s.dropped(p, take, whole)
		w.mu.Unlock()
		if errors.Is(err, ErrDropped) {
			return nil
		}
		return err
	}
}

// accept takes the lines of p up to whole, and the rest behind it. Called with
// Writer.mu held, when there is room.
func (s *Stream) accept(p []byte, whole int) {
	w := s.w
	if whole > 0 {
		w.addLines(s.rest, p[:whole])
		s.rest = s.rest[:0]
	}
	s.rest = append(s.rest, p[whole:]...)
	if len(s.rest) >= w.o.MaxLine {
		s.rest = append(s.rest[:0], w.addCut(s.rest)...)
	}
	if cap(s.rest) > 2*w.o.Buffer && len(s.rest) < w.o.Buffer {
		s.rest = bytes.Clone(s.rest) // one long line is no reason to keep its memory
	}
}

// dropped keeps of p, whose lines up to take were not accepted, the rest. Called with
// Writer.mu held.
func (s *Stream) dropped(p []byte, take, whole int) {
	s.rest = append(s.rest[:0], p[take:]...)
	s.skip = whole == 0
}

// skipped is p without what belongs to a line whose beginning was dropped. Called
// with Writer.mu held.
func (s *Stream) skipped(p []byte) []byte {
	if !s.skip {
		return p
	}
	_, after, found := bytes.Cut(p, newline)
	s.skip = !found
	return after
}

// Close terminates the rest, if there is one, and accepts nothing more. What was
// accepted is written as before; Close does not wait for that, and its error is
// nil.
func (s *Stream) Close() error {
	w := s.w
	w.mu.Lock()
	if s.closed {
		w.mu.Unlock()
		return nil
	}
	s.end()
	w.streams = slices.DeleteFunc(w.streams, func(x *Stream) bool { return x == s })
	w.mark()
	return nil
}

// end terminates the rest. It needs no room: it is bounded. Called with
// Writer.mu held.
func (s *Stream) end() {
	s.closed = true
	if len(s.rest) > 0 {
		s.w.addLine(nil, s.rest, newline)
	}
	s.rest = nil
}

// runeStart returns the largest n <= limit at which no rune of line is cut. Bytes
// that are no UTF-8 may be cut anywhere.
func runeStart(line []byte, limit int) int {
	for n := limit; n > limit-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(line[n]) {
			return n
		}
	}
	return limit
}

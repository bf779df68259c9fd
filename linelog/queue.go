package linelog

import "bytes"

// chunk is whole lines that go out with one write(2).
type chunk struct {
	buf   []byte
	lines uint64
	pos   uint64 // position behind its last line
	end   uint64 // position behind the call that its last line came with: a part of that may be in the next chunk
	sum   uint64 // of buf, as hash tells it; 0: not known
}

// maxFree bounds the empty chunks that are kept for reuse.
const maxFree = 32

// queue is what is accepted and not yet written. Guarded by Writer.mu.
type queue struct {
	size  int      // a chunk is closed at this many bytes
	limit int64    // bound of held
	parts []*chunk // oldest first; the last one may grow
	free  []*chunk // empty
	held  int64    // bytes in parts, and of what is being written
	room  chan struct{}
	urge  bool // a chunk was closed: it is to be written without waiting for the window

	dropped      uint64 // lines, since it was last said
	droppedBytes uint64
}

// fits reports whether there is room for n more bytes. What is alone always fits.
func (q *queue) fits(n int) bool { return q.held == 0 || q.held+int64(n) <= q.limit }

// wait returns a channel that is closed when there may be room.
func (q *queue) wait() <-chan struct{} {
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room
}

// wake has those look again who wait for room.
func (q *queue) wake() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// release says that n bytes are written.
func (q *queue) release(n int) {
	q.held -= int64(n)
	q.wake()
}

// last is the chunk to which n bytes are appended.
func (q *queue) last(n int) *chunk {
	if len(q.parts) > 0 {
		if c := q.parts[len(q.parts)-1]; len(c.buf)+n <= q.size || len(c.buf) == 0 {
			return c
		}
	}
	c := q.blank()
	q.urge = q.urge || len(q.parts) > 0
	q.parts = append(q.parts, c)
	return c
}

// blank returns an empty chunk.
func (q *queue) blank() *chunk {
	if n := len(q.free); n > 0 {
		c := q.free[n-1]
		q.free[n-1] = nil
		q.free = q.free[:n-1]
		return c
	}
	return &chunk{buf: make([]byte, 0, q.size)}
}

// recycle takes a chunk that nobody needs any more.
func (q *queue) recycle(c *chunk) {
	if len(q.free) < maxFree && cap(c.buf) <= 2*q.size {
		*c = chunk{buf: c.buf[:0]}
		q.free = append(q.free, c)
	}
}

// add appends one line, which is head and tail with a newline at its end, or at the
// end of head if tail is empty. pos is the position behind it.
func (q *queue) add(head, tail []byte, pos uint64) {
	c := q.last(len(head) + len(tail))
	c.buf = append(append(c.buf, head...), tail...)
	c.sum = 0
	c.lines++
	c.pos, c.end = pos, pos
	q.held += int64(len(head) + len(tail))
}

// addAll appends whole lines, and returns the position behind the last.
func (q *queue) addAll(p []byte, pos uint64) uint64 {
	q.held += int64(len(p))
	end := pos + uint64(bytes.Count(p, newline))
	for len(p) > 0 {
		n := len(p)
		if n > q.size {
			if n = bytes.LastIndexByte(p[:q.size], '\n') + 1; n == 0 {
				n = bytes.IndexByte(p, '\n') + 1
			}
		}
		c := q.last(n)
		c.buf = append(c.buf, p[:n]...)
		c.sum = 0
		lines := end - pos
		if n < len(p) {
			lines = uint64(bytes.Count(p[:n], newline))
		}
		pos += lines
		c.lines += lines
		c.pos, c.end = pos, end
		p = p[n:]
	}
	return pos
}

// joins reports whether n bytes that wait behind others have room in the last chunk.
func (q *queue) joins(n int) bool {
	return len(q.parts) > 0 && len(q.parts[len(q.parts)-1].buf)+n <= q.size
}

// push appends a chunk of whole lines, and returns the position behind the last.
func (q *queue) push(c *chunk, pos uint64) uint64 {
	c.lines, c.sum = tally(c.buf)
	c.pos = pos + c.lines
	c.end = c.pos
	q.held += int64(len(c.buf))
	q.parts = append(q.parts, c)
	return c.pos
}

// take removes the oldest chunk; nil when there is none.
func (q *queue) take() *chunk {
	if len(q.parts) == 0 {
		return nil
	}
	c := q.parts[0]
	n := copy(q.parts, q.parts[1:])
	q.parts[n] = nil
	q.parts = q.parts[:n]
	return c
}

// putBack puts chunks before all others. Their bytes are added to held.
func (q *queue) putBack(chunks []*chunk) {
	for _, c := range chunks {
		q.held += int64(len(c.buf))
	}
	q.parts = append(chunks, q.parts...)
}

// drop counts lines for which there was no room.
func (q *queue) drop(lines, n int) {
	q.dropped += uint64(lines)
	q.droppedBytes += uint64(n)
}

package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ExportError says why a Journal Export Format stream cannot be read on. It
// wraps one of the sentinels below, or the error of the underlying reader.
type ExportError struct {
	// Offset in the stream, in bytes, of the line that is at fault; where the
	// stream ends too early, of the incomplete entry.
	Offset int64
	// Detail says what was found.
	Detail string
	// Err is the kind of fault.
	Err error
}

// Error names the offset and the fault.
func (e *ExportError) Error() string {
	s := fmt.Sprintf("export stream: offset %d: %v", e.Offset, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the kind of fault.
func (e *ExportError) Unwrap() error { return e.Err }

// The kinds of fault of an export stream. Beside them an ExportError wraps
// io.ErrUnexpectedEOF when the stream ends inside an entry, which is lost then.
var (
	// ErrExportTime says that a time is no number, or 2^55 µs or more, or that a
	// realtime is 0.
	ErrExportTime = errors.New("invalid time stamp")
	// ErrExportBootID says that _BOOT_ID is no id.
	ErrExportBootID = errors.New("invalid _BOOT_ID")
	// ErrExportField says that a field is over Limits.Field.
	ErrExportField = errors.New("field too large")
	// ErrExportEntry says that an entry is over Limits.Entry.
	ErrExportEntry = errors.New("entry too large")
	// ErrExportBinary says that the length of a binary field does not lead to its
	// end.
	ErrExportBinary = errors.New("binary field without a newline behind it")
)

// DefaultExportBuffer is the size of an ExportReader's buffer in bytes.
const DefaultExportBuffer = 256 << 10

// ExportOptions are the options of an ExportReader. The zero value is what
// systemd-journal-remote does.
type ExportOptions struct {
	// Limits of one entry. An entry over Limits.Fields keeps the first ones.
	Limits Limits
	// Buffer is the size in bytes of the buffer that entries are read into; it
	// grows for an entry that does not fit. 0 means DefaultExportBuffer.
	Buffer int
}

// ExportCounts counts what an ExportReader has read and left out.
type ExportCounts struct {
	// Entries returned.
	Entries uint64
	// BadNames: lines dropped for an invalid field name.
	BadNames uint64
	// TooMany: fields dropped since their entry had the most it may have.
	TooMany uint64
	// ZeroBinary: binary fields of length 0, dropped.
	ZeroBinary uint64
	// Unknown: lines __NAME=… that mean nothing, dropped.
	Unknown uint64
	// Empty: entries without any field, dropped.
	Empty uint64
	// Untimed: entries without __REALTIME_TIMESTAMP before them, dropped.
	Untimed uint64
}

// ExportReader reads entries from a stream in the Journal Export Format, with
// the meaning that systemd-journal-remote gives it: times and boot persist for
// following entries that lack them, _BOOT_ID is a field too, __CURSOR and
// unknown __ lines are ignored, lines with an invalid name are skipped, and so
// are entries without fields or without a time. An error ends the stream.
//
// It holds one buffer that grows with an entry's bytes as they arrive, never
// ahead of them by more than a factor of two. In steady state it allocates
// nothing. It is not safe for concurrent use.
type ExportReader struct {
	src    io.Reader
	limits Limits
	size   int

	own  ExportBatch // what Next serves
	next int         // index in own.Entries

	buf     []byte // bytes read and not yet returned, in the batch being filled
	begin   int    // where the current entry begins in buf
	pos     int    // where the current line begins
	scanned int    // no newline between pos and here
	base    int64  // stream offset of buf[0]
	spans   []span // fields of the current entry

	realtime, monotonic uint64
	boot                ID
	counts              ExportCounts
	err                 error // sticky
}

// span is a field, relative to the begin of its entry.
type span struct{ from, to int }

// ExportBatch is the memory of a number of entries. The zero value is ready for
// use; it may be used again once nobody needs its entries any more.
type ExportBatch struct {
	// Entries of this batch, borrowed until the batch is used again.
	Entries []Entry

	buf    []byte
	fields []Field
	ends   []int
}

// NewExportReader returns a reader of the stream r.
func NewExportReader(r io.Reader, o ExportOptions) *ExportReader {
	size := o.Buffer
	if size <= 0 {
		size = DefaultExportBuffer
	}
	return &ExportReader{src: r, limits: o.Limits.withDefaults(), size: max(size, 16)}
}

// Counts returns what was read and left out so far.
func (r *ExportReader) Counts() ExportCounts { return r.counts }

// Next returns the next entry, borrowed until the next call. At the end of the
// stream it returns io.EOF, and an *ExportError where the stream is at fault;
// the entries before the fault have been returned then.
func (r *ExportReader) Next() (*Entry, error) {
	for r.next == len(r.own.Entries) {
		r.next = 0
		if err := r.NextBatch(&r.own); err != nil {
			return nil, err
		}
	}
	r.next++
	return &r.own.Entries[r.next-1], nil
}

// NextBatch fills b with the entries of the next part of the stream, at least
// one. It reads no further than it must for the first entry, or than its buffer
// holds. Two batches used in turn let one goroutine read while another one uses
// the entries of the other batch. It must not be mixed with Next. Errors are
// those of Next.
func (r *ExportReader) NextBatch(b *ExportBatch) error {
	b.Entries, b.fields, b.ends = b.Entries[:0], b.fields[:0], b.ends[:0]
	if r.err != nil {
		return r.err
	}
	r.takeBuffer(b)
	for {
		err := r.parse(b)
		if err == nil && len(b.Entries) == 0 {
			err = r.fill()
		}
		if err != nil {
			r.err = err
			break
		}
		if len(b.Entries) > 0 {
			break
		}
	}
	b.buf = r.buf
	start := 0
	for i, end := range b.ends {
		b.Entries[i].Fields = b.fields[start:end:end]
		start = end
	}
	if len(b.Entries) > 0 {
		return nil
	}
	return r.err
}

// takeBuffer moves the unfinished rest of the stream to the front of b's
// buffer and makes that the current one.
func (r *ExportReader) takeBuffer(b *ExportBatch) {
	rest := r.buf[r.begin:]
	into := b.buf
	if want := max(r.size, len(rest)); cap(into) < want || cap(into) > 4*want {
		into = make([]byte, 0, max(r.size, len(rest)+len(rest)/2))
	}
	into = into[:len(rest)]
	copy(into, rest)
	r.rebase(into)
}

// rebase makes into, which holds the bytes of the current entry and those
// behind it, the buffer.
func (r *ExportReader) rebase(into []byte) {
	r.base += int64(r.begin)
	r.pos -= r.begin
	r.scanned -= r.begin
	r.begin = 0
	r.buf = into
}

// fill reads more bytes. It returns io.EOF at a good end of the stream.
func (r *ExportReader) fill() error {
	if len(r.buf) == cap(r.buf) {
		if r.begin > 0 {
			// The entries so far were all left out: their room is free.
			n := copy(r.buf, r.buf[r.begin:])
			r.rebase(r.buf[:n])
		} else {
			if len(r.buf) >= r.limits.Entry {
				return r.fault(ErrExportEntry, r.begin, "")
			}
			r.buf = append(make([]byte, 0, min(2*cap(r.buf), r.limits.Entry)), r.buf...)
		}
	}
	for range 100 {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		switch {
		case n > 0:
			return nil // an error comes again at the next call
		case errors.Is(err, io.EOF):
			if len(r.buf) > r.begin {
				return r.fault(io.ErrUnexpectedEOF, r.begin, fmt.Sprintf("%d bytes of an incomplete entry are lost", len(r.buf)-r.begin))
			}
			return io.EOF
		case err != nil:
			return r.fault(err, r.begin, "")
		}
	}
	return r.fault(io.ErrNoProgress, r.begin, "")
}

func (r *ExportReader) fault(err error, at int, detail string) error {
	return &ExportError{Offset: r.base + int64(at), Detail: detail, Err: err}
}

// parse adds to b what is complete in the buffer. It stops without an error
// where more bytes are needed.
func (r *ExportReader) parse(b *ExportBatch) error {
	for {
		line := r.buf[r.pos:]
		n := nameLen(line)
		if n == len(line) {
			return nil
		}
		if line[n] == '\n' {
			if n == 0 {
				r.pos++
				if r.pos-r.begin > r.limits.Entry {
					return r.fault(ErrExportEntry, r.begin, "")
				}
				r.finish(b)
				continue
			}
			if validStart(line, n, true) {
				more, err := r.binaryField(line, n)
				if more || err != nil {
					return err
				}
				continue
			}
		}
		from := max(r.scanned-r.pos, n)
		nl := bytes.IndexByte(line[from:], '\n')
		if nl < 0 {
			r.scanned = len(r.buf)
			if len(line) > r.limits.Field {
				return r.fault(ErrExportField, r.pos, "")
			}
			return nil
		}
		nl += from
		if nl > r.limits.Field {
			return r.fault(ErrExportField, r.pos, "")
		}
		if line[n] != '=' || !validStart(line, n, true) {
			r.counts.BadNames++
			r.pos += nl + 1
			continue
		}
		keep := true
		if line[0] == '_' {
			var err error
			if keep, err = r.special(line[:nl], n); err != nil {
				return err
			}
		}
		if keep {
			r.addSpan(r.pos, r.pos+nl)
		}
		r.pos += nl + 1
	}
}

// addSpan adds the field buf[from:to] to the current entry.
func (r *ExportReader) addSpan(from, to int) {
	if len(r.spans) >= r.limits.Fields {
		r.counts.TooMany++
		return
	}
	r.spans = append(r.spans, span{from - r.begin, to - r.begin})
}

// finish ends the current entry at pos.
func (r *ExportReader) finish(b *ExportBatch) {
	switch {
	case len(r.spans) == 0:
		if r.pos-r.begin > 1 {
			r.counts.Empty++
		}
	case r.realtime == 0:
		r.counts.Untimed++
	default:
		data := r.buf[r.begin:r.pos]
		for _, s := range r.spans {
			b.fields = append(b.fields, data[s.from:s.to:s.to])
		}
		b.ends = append(b.ends, len(b.fields))
		b.Entries = append(b.Entries, Entry{Realtime: r.realtime, Monotonic: r.monotonic, BootID: r.boot})
		r.counts.Entries++
	}
	r.spans = r.spans[:0]
	r.begin = r.pos
}

// binaryField reads the field whose name are the n bytes at line, which begins
// at pos. more tells that it is not complete yet.
//
// The name is moved to just before the value, over the length, so that the
// field is NAME=value without a copy of the value.
func (r *ExportReader) binaryField(line []byte, n int) (more bool, err error) {
	head := n + 1 + 8
	if len(line) < head {
		return true, nil
	}
	size := binary.LittleEndian.Uint64(line[n+1:])
	if size > uint64(r.limits.Field) {
		return false, r.fault(ErrExportField, r.pos, fmt.Sprintf("%s declares %d bytes", line[:n], size))
	}
	end := head + int(size)
	if len(line) <= end {
		return true, nil
	}
	if line[end] != '\n' {
		return false, r.fault(ErrExportBinary, r.pos, fmt.Sprintf("%s of %d bytes is followed by %q", line[:n], size, line[end]))
	}
	if size == 0 {
		r.counts.ZeroBinary++
	} else {
		copy(line[8:], line[:n])
		line[head-1] = '='
		r.addSpan(r.pos+8, r.pos+end)
	}
	r.pos += end + 1
	return false, nil
}

// special handles a line that begins with '_' and whose name has n bytes. keep
// tells that it is a field of the entry.
func (r *ExportReader) special(line []byte, n int) (keep bool, err error) {
	value := line[n+1:]
	switch string(line[:n]) {
	case "__CURSOR":
	case "__REALTIME_TIMESTAMP":
		return false, r.setTime(&r.realtime, value, 1)
	case "__MONOTONIC_TIMESTAMP":
		return false, r.setTime(&r.monotonic, value, 0)
	case "_BOOT_ID":
		id, ok := parseID(cutNUL(value))
		if !ok {
			return false, r.fault(ErrExportBootID, r.pos, fmt.Sprintf("%.60q", value))
		}
		r.boot = id
		return true, nil
	default:
		if line[1] != '_' {
			return true, nil
		}
		r.counts.Unknown++
	}
	return false, nil
}

// setTime reads a time of at least lowest µs.
func (r *ExportReader) setTime(t *uint64, value []byte, lowest uint64) error {
	v, ok := parseUint(cutNUL(value))
	if !ok || v < lowest || v >= maxTime {
		return r.fault(ErrExportTime, r.pos, fmt.Sprintf("%.60q", value))
	}
	*t = v
	return nil
}

// maxTime is systemd's TIMESTAMP_UPPER_BOUND: times in µs are below it.
const maxTime = 1 << 55

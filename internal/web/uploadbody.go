package web

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxWindow bounds what a decoder keeps of what it has decoded, in bytes: zstd up
// to -19, xz up to -7. A body cannot claim more than that.
const maxWindow = 16 << 20

// knownCoding reports whether decode takes a Content-Encoding.
func knownCoding(coding string) bool {
	switch coding {
	case "", "identity", "gzip", "x-gzip", "zstd", "lz4", "xz":
		return true
	}
	return false
}

// decode undoes a Content-Encoding. It starts no goroutine, and what it keeps is
// bounded by maxWindow whatever the body says.
func decode(coding string, body io.Reader) (io.ReadCloser, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case "lz4":
		return io.NopCloser(lz4.NewReader(body)), nil
	case "xz":
		return io.NopCloser(newXZReader(body)), nil
	default:
		return io.NopCloser(body), nil
	}
}

// smallEntry is what an entry may take without asking for memory, in bytes.
const smallEntry = 1 << 20

// errMemory says that the entries that are being read are too large together.
var errMemory = errors.New("too many large entries are being received at once: send again later")

// metered counts what is read of a stream of entries, and reserves memory for an
// entry that grows large.
type metered struct {
	r        io.Reader
	memory   *atomic.Int64 // bytes reserved by all streams
	total    int64         // bytes read
	taken    int64         // of them, returned by take
	entry    int64         // bytes read since settle
	reserved int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.total += int64(n)
	m.entry += int64(n)
	// While its buffer grows an entry is there twice, the second time with as much
	// room again.
	if need := 3 * m.entry; m.entry > smallEntry && need > m.reserved {
		more := need - m.reserved + 3*smallEntry
		if m.memory.Add(more) > largeEntries {
			m.memory.Add(-more)
			return 0, fmt.Errorf("%w: this one has more than %d bytes", errMemory, m.entry)
		}
		m.reserved += more
	}
	return n, err
}

// settle gives back what was reserved, when an entry is done.
func (m *metered) settle() {
	if m.reserved > 0 {
		m.memory.Add(-m.reserved)
	}
	m.reserved, m.entry = 0, 0
}

// take returns how many bytes were read since it was last called.
func (m *metered) take() int64 {
	n := m.total - m.taken
	m.taken = m.total
	return n
}

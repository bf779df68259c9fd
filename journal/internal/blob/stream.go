package blob

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdMagic begins each frame.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// maxWindow bounds the memory of a stream's reader, in bytes; zstd --long makes
// windows of 128 MiB.
const maxWindow = 128 << 20

// IsZSTD reports whether a file that begins so is a zstd stream.
func IsZSTD(begin []byte) bool { return bytes.HasPrefix(begin, zstdMagic) }

// NewZSTDReader reads a zstd stream of any length. It starts no goroutine.
func NewZSTDReader(r io.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

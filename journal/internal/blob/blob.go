// Package blob puts the three compressions of a journal file behind one
// function. It starts no goroutine, and what it allocates is bounded by the
// limit of the caller and by what the input can really decode to, so that a
// hostile object of some bytes cannot claim gigabytes.
//
// Source of the framing: systemd 252, src/basic/compress.c.
package blob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// What Decompress may answer, wrapped.
var (
	// ErrCorrupt: the bytes are not what the flag says, or end early.
	ErrCorrupt = errors.New("corrupt compressed data")
	// ErrTooLarge: the uncompressed payload is larger than the limit.
	ErrTooLarge = errors.New("uncompressed data too large")
	// ErrNoSize: a zstd frame without its content size, which libsystemd refuses.
	ErrNoSize = errors.New("compressed frame without content size")
	// ErrFlags: no, or more than one, or an unknown compression flag.
	ErrFlags = errors.New("invalid compression flags")
)

// MaxSize is the largest uncompressed payload that any caller should accept:
// journald takes fields of up to 768 MiB.
const MaxSize = 768 << 20

const (
	lz4HeaderSize = 8   // u64, the uncompressed size
	lz4MaxRatio   = 255 // a byte of an LZ4 length adds at most 255 bytes
	zstdMinBlock  = 4   // 3 bytes of header and one of content
	zstdMaxBlock  = 128 << 10
)

// Decoder decompresses payloads and reuses its memory. The zero value is ready.
// It is not safe for concurrent use.
type Decoder struct {
	// Spent is what the last Decompress has decoded in bytes, or may have when it
	// failed: what a caller who bounds the work has to count.
	Spent int

	zstd *zstd.Decoder
}

// Decompress appends the uncompressed payload of src to dst and returns the
// longer slice. flags are the flags of the DATA object, of which one says how
// it is compressed. More than limit uncompressed bytes is ErrTooLarge and
// allocates nothing; limit <= 0 means MaxSize. On an error dst is returned as
// it came.
func (d *Decoder) Decompress(dst []byte, flags byte, src []byte, limit int) ([]byte, error) {
	if limit <= 0 || limit > MaxSize {
		limit = MaxSize
	}
	d.Spent = 0
	switch flags & object.CompressedAny {
	case object.CompressedZSTD:
		return d.decompressZSTD(dst, src, limit)
	case object.CompressedLZ4:
		return d.decompressLZ4(dst, src, limit)
	case object.CompressedXZ:
		return d.decompressXZ(dst, src, limit)
	default:
		return dst, fmt.Errorf("decompress: %w %#x", ErrFlags, flags)
	}
}

func (d *Decoder) decompressZSTD(dst, src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return dst, fmt.Errorf("decompress zstd: %w: %w", ErrCorrupt, err)
	}
	if h.Skippable || !h.HasFCS {
		return dst, fmt.Errorf("decompress zstd: %w", ErrNoSize)
	}
	if h.FrameContentSize > uint64(limit) {
		return dst, fmt.Errorf("decompress zstd: %w: %d > %d bytes", ErrTooLarge, h.FrameContentSize, limit)
	}
	size := int(h.FrameContentSize)
	if rest := len(src) - h.HeaderSize; size > (rest/zstdMinBlock+1)*zstdMaxBlock {
		return dst, fmt.Errorf("decompress zstd: %w: %d bytes cannot hold %d", ErrCorrupt, rest, size)
	}
	if d.zstd == nil {
		// The window of a frame is bounded by its content here; the decoder must
		// not refuse what the limit allows.
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxSize), zstd.WithDecoderMaxWindow(1<<30))
		if err != nil {
			return dst, fmt.Errorf("decompress zstd: %w", err)
		}
		d.zstd = z
	}
	d.Spent = size
	out, err := d.zstd.DecodeAll(src, dst)
	if err != nil {
		return dst, fmt.Errorf("decompress zstd: %w: %w", ErrCorrupt, err)
	}
	if len(out)-len(dst) != size {
		return dst, fmt.Errorf("decompress zstd: %w: %d bytes instead of %d", ErrCorrupt, len(out)-len(dst), size)
	}
	return out, nil
}

func (d *Decoder) decompressLZ4(dst, src []byte, limit int) ([]byte, error) {
	if len(src) <= lz4HeaderSize {
		return dst, fmt.Errorf("decompress lz4: %w: too short", ErrCorrupt)
	}
	claimed := binary.LittleEndian.Uint64(src)
	if claimed > uint64(limit) {
		return dst, fmt.Errorf("decompress lz4: %w: %d > %d bytes", ErrTooLarge, claimed, limit)
	}
	size, block := int(claimed), src[lz4HeaderSize:]
	if size == 0 || size > len(block)*lz4MaxRatio { // the decoder reads before an empty slice
		return dst, fmt.Errorf("decompress lz4: %w: %d bytes cannot hold %d", ErrCorrupt, len(block), size)
	}
	d.Spent = size
	out := grow(dst, size)
	n, err := lz4.UncompressBlock(block, out[len(dst):])
	if err != nil {
		return dst, fmt.Errorf("decompress lz4: %w: %w", ErrCorrupt, err)
	}
	if n != size {
		return dst, fmt.Errorf("decompress lz4: %w: %d bytes instead of %d", ErrCorrupt, n, size)
	}
	return out, nil
}

// grow returns dst longer by n bytes, in the same array where they fit.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst[: len(dst)+n : len(dst)+n]
	}
	out := make([]byte, len(dst)+n)
	copy(out, dst)
	return out
}

// decoders and encoders keep what the package functions reuse.
var (
	decoders = sync.Pool{New: func() any { return new(Decoder) }}
	encoders = sync.Pool{New: func() any { return new(Encoder) }}
)

// Decompress is Decoder.Decompress with a decoder that is shared with other
// callers. It is safe for concurrent use.
func Decompress(dst []byte, flags byte, src []byte, limit int) ([]byte, error) {
	d := decoders.Get().(*Decoder)
	defer decoders.Put(d)
	return d.Decompress(dst, flags, src, limit)
}

// Encoder compresses payloads and reuses its memory: about 2 MiB for payloads
// of up to 128 KiB. The zero value is ready. It is not safe for concurrent use.
type Encoder struct {
	small, large *zstd.Encoder
}

// zstdWindow is the window of libzstd's level 3. Up to this size a frame is a
// single segment, as libzstd writes it; beyond, a decoder need not keep all.
const zstdWindow = 2 << 20

// AppendZSTD appends src as one zstd frame with its content size to dst, at the
// default level, and returns the longer slice. The result may be longer than
// src: a caller then stores src as it is. With a dst of enough capacity it
// allocates nothing once it has seen payloads of that size.
func (e *Encoder) AppendZSTD(dst, src []byte) []byte {
	enc := &e.small
	if len(src) > zstdWindow {
		enc = &e.large
	}
	if *enc == nil {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithWindowSize(zstdWindow), zstd.WithZeroFrames(true),
			zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithSingleSegment(len(src) <= zstdWindow))
		if err != nil { // only for options out of range
			panic(err)
		}
		*enc = z
	}
	return (*enc).EncodeAll(src, dst)
}

// CompressZSTD is Encoder.AppendZSTD with an encoder that is shared with other
// callers. It is safe for concurrent use.
func CompressZSTD(dst, src []byte) []byte {
	e := encoders.Get().(*Encoder)
	defer encoders.Put(e)
	return e.AppendZSTD(dst, src)
}

// fits reports whether n more bytes stay within limit, for sums of sizes that
// a hostile file chose.
func fits(sum, n uint64, limit int) bool {
	return n <= math.MaxInt64 && sum+n <= uint64(limit)
}

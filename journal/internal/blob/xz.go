package blob

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

const (
	xzMagic      = "\xfd7zXZ\x00"
	xzHeaderSize = 12
	// xzMaxDict bounds the dictionary that a block may ask for, since the
	// decoder allocates it before it has read a byte. libsystemd writes 1 MiB,
	// and 8 MiB before version 246.
	xzMaxDict = 16 << 20
	// LZMA2: filter id, and the sizes that a chunk's control byte extends.
	xzFilterLZMA2 = 0x21
)

func (d *Decoder) decompressXZ(dst, src []byte, limit int) ([]byte, error) {
	size, err := scanXZ(src, limit)
	if err != nil {
		return dst, fmt.Errorf("decompress xz: %w", err)
	}
	r, err := xz.ReaderConfig{DictCap: lzma.MinDictCap, SingleStream: true}.NewReader(bytes.NewReader(src))
	if err != nil {
		return dst, fmt.Errorf("decompress xz: %w: %w", ErrCorrupt, err)
	}
	d.Spent = size
	out := grow(dst, size)
	if _, err := io.ReadFull(r, out[len(dst):]); err != nil {
		return dst, fmt.Errorf("decompress xz: %w: %w", ErrCorrupt, err)
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n != 0 || err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		return dst, fmt.Errorf("decompress xz: %w: no end after %d bytes", ErrCorrupt, size)
	}
	return out, nil
}

// scanXZ walks the blocks and LZMA2 chunks of an .xz stream without decoding
// them. It returns the exact size of the content, or an error when that is more
// than limit or when a block asks for too large a dictionary.
//
// Source: The .xz File Format 1.0.4, sections 2.1 and 3.1; LZMA2 chunk headers
// as in liblzma's lzma2_decoder.c.
func scanXZ(src []byte, limit int) (int, error) {
	if len(src) < xzHeaderSize || string(src[:len(xzMagic)]) != xzMagic {
		return 0, fmt.Errorf("%w: no stream header", ErrCorrupt)
	}
	check := xzCheckSize(src[7] & 0xf)
	var total uint64
	for p := xzHeaderSize; ; {
		if p >= len(src) {
			return 0, fmt.Errorf("%w: ends within the stream", ErrCorrupt)
		}
		if src[p] == 0 { // the index begins
			return int(total), nil
		}
		head := (int(src[p]) + 1) * 4
		if p+head > len(src) {
			return 0, fmt.Errorf("%w: ends within a block header", ErrCorrupt)
		}
		dict, err := xzDictSize(src[p : p+head])
		if err != nil {
			return 0, err
		}
		if dict > xzMaxDict {
			return 0, fmt.Errorf("%w: dictionary of %d bytes", ErrTooLarge, dict)
		}
		used, size, err := scanLZMA2(src[p+head:])
		if err != nil {
			return 0, err
		}
		if !fits(total, size, limit) {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		total += size
		p += head + (used+3)&^3 + check
	}
}

// xzCheckSize is the size of the check behind a block, by its type.
func xzCheckSize(kind byte) int {
	switch {
	case kind == 0:
		return 0
	case kind <= 3:
		return 4
	case kind <= 6:
		return 8
	case kind <= 9:
		return 16
	case kind <= 12:
		return 32
	default:
		return 64
	}
}

// xzDictSize returns the dictionary size that a block header with a single
// LZMA2 filter declares.
func xzDictSize(h []byte) (uint64, error) {
	flags, p := h[1], 2
	for _, bit := range []byte{0x40, 0x80} { // compressed size, uncompressed size
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(h[p:])
		if n <= 0 {
			return 0, fmt.Errorf("%w: block header", ErrCorrupt)
		}
		p += n
	}
	if flags&0x3f != 0 || p+3 > len(h) || h[p] != xzFilterLZMA2 || h[p+1] != 1 || h[p+2] > 40 {
		return 0, fmt.Errorf("%w: block filter other than LZMA2", ErrCorrupt)
	}
	bits := uint64(h[p+2])
	if bits == 40 {
		return 1<<32 - 1, nil
	}
	return (2 | bits&1) << (bits/2 + 11), nil
}

// scanLZMA2 adds up the chunks of an LZMA2 stream: bytes used and content.
func scanLZMA2(b []byte) (used int, size uint64, err error) {
	for p := 0; p < len(b); {
		control := b[p]
		switch {
		case control == 0:
			return p + 1, size, nil
		case control >= 0x80: // LZMA
			if p+5 > len(b) {
				return 0, 0, fmt.Errorf("%w: ends within a chunk header", ErrCorrupt)
			}
			size += uint64(control&0x1f)<<16 + uint64(binary.BigEndian.Uint16(b[p+1:])) + 1
			p += 5 + int(binary.BigEndian.Uint16(b[p+3:])) + 1
			if control >= 0xc0 { // a properties byte follows the sizes
				p++
			}
		case control <= 2: // stored
			if p+3 > len(b) {
				return 0, 0, fmt.Errorf("%w: ends within a chunk header", ErrCorrupt)
			}
			n := int(binary.BigEndian.Uint16(b[p+1:])) + 1
			size += uint64(n)
			p += 3 + n
		default:
			return 0, 0, fmt.Errorf("%w: chunk control byte %#x", ErrCorrupt, control)
		}
	}
	return 0, 0, fmt.Errorf("%w: ends within the chunks", ErrCorrupt)
}

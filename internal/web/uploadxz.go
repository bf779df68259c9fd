package web

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// errXZ is what is wrong with an .xz stream.
var errXZ = errors.New("not an .xz stream")

// xzReader reads .xz streams one after the other. The library's own reader
// allocates whatever dictionary a block asks for, up to 4 GiB; this one looks
// first. Checksums of contents are not compared: what is decoded is checked by who
// reads it, and the connection has checksums of its own.
//
// Source: The .xz File Format 1.0.4.
type xzReader struct {
	in    *bufio.Reader
	count int64 // bytes read of the current block
	check int   // size of the check behind a block
	block *lzma.Reader2
	begun bool // inside a stream
	some  bool // a stream was read
}

const xzMagic = "\xfd7zXZ\x00"

func newXZReader(r io.Reader) *xzReader { return &xzReader{in: bufio.NewReader(r)} }

// blockBytes gives the decoder the bytes of a block and counts them.
type blockBytes struct{ x *xzReader }

func (b blockBytes) Read(p []byte) (int, error) {
	n, err := b.x.in.Read(p)
	b.x.count += int64(n)
	return n, err
}

func (b blockBytes) ReadByte() (byte, error) {
	c, err := b.x.in.ReadByte()
	if err == nil {
		b.x.count++
	}
	return c, err
}

func (x *xzReader) Read(p []byte) (int, error) {
	for {
		if x.block != nil {
			n, err := x.block.Read(p)
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				x.block, err = nil, x.endBlock()
			}
			if n > 0 || err != nil {
				return n, inside(err)
			}
			continue
		}
		if !x.begun {
			if err := x.beginStream(); err != nil {
				return 0, err
			}
			continue
		}
		if err := x.nextBlock(); err != nil {
			return 0, inside(err)
		}
	}
}

// inside turns the end of the input into one that comes too early.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// beginStream reads a stream's header; io.EOF when there is no other stream.
func (x *xzReader) beginStream() error {
	for x.some { // streams may have padding between them
		pad, err := x.in.Peek(4)
		if len(pad) == 0 {
			return err
		}
		if len(pad) < 4 || [4]byte(pad) != [4]byte{} {
			break
		}
		x.in.Discard(4) //nolint:errcheck // peeked at
	}
	var h [12]byte
	if _, err := io.ReadFull(x.in, h[:]); err != nil {
		if !x.some {
			err = inside(err)
		}
		return err
	}
	if string(h[:6]) != xzMagic || h[6] != 0 || h[7] > 15 {
		return errXZ
	}
	x.check = [6]int{0, 4, 8, 16, 32, 64}[(int(h[7])+2)/3]
	x.begun, x.some = true, true
	return nil
}

// nextBlock begins the next block, or reads the index that ends the stream.
func (x *xzReader) nextBlock() error {
	x.count = 0
	b := blockBytes{x}
	size, err := b.ReadByte()
	if err != nil {
		return err
	}
	if size == 0 {
		return x.index(b)
	}
	h := make([]byte, (int(size)+1)*4)
	h[0] = size
	if _, err := io.ReadFull(b, h[1:]); err != nil {
		return err
	}
	dict, err := xzDict(h)
	if err != nil {
		return err
	}
	x.count = 0
	x.block, err = lzma.Reader2Config{DictCap: max(dict, lzma.MinDictCap)}.NewReader2(b)
	return err
}

// xzDict is the dictionary size of a block with LZMA2 alone.
func xzDict(h []byte) (int, error) {
	flags, p := h[1], 2
	for _, bit := range []byte{0x40, 0x80} { // compressed size, uncompressed size
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(h[p:])
		if n <= 0 {
			return 0, errXZ
		}
		p += n
	}
	if flags&0x3f != 0 || p+3 > len(h) || h[p] != 0x21 || h[p+1] != 1 || h[p+2] > 40 {
		return 0, fmt.Errorf("%w with LZMA2 alone", errXZ)
	}
	bits := uint64(h[p+2])
	if size := (2 | bits&1) << (bits/2 + 11); size <= maxWindow {
		return int(size), nil
	}
	return 0, fmt.Errorf("a dictionary of more than %d bytes: compress with xz -6", maxWindow)
}

// endBlock reads the padding and the check behind a block.
func (x *xzReader) endBlock() error {
	return x.skip(int(-x.count&3) + x.check)
}

// index reads what ends a stream: records of two numbers each, padding, a CRC and
// the footer.
func (x *xzReader) index(b blockBytes) error {
	records, err := binary.ReadUvarint(b)
	if err != nil {
		return err
	}
	for range 2 * min(records, 1<<32) {
		if _, err := binary.ReadUvarint(b); err != nil {
			return err
		}
	}
	x.begun = false
	return x.skip(int(-x.count&3) + 4 + 12)
}

func (x *xzReader) skip(n int) error {
	_, err := x.in.Discard(n)
	return err
}

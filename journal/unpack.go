package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Why what was compressed is not unpacked.
var (
	errNotPacked   = errors.New("no journal in it")
	errPackedSizes = errors.New("the sizes in the header of the journal in it contradict each other")
)

// maxUnpacked bounds what a compressed file may become, in bytes.
const maxUnpacked = 4 << 30

// Unpack returns f or, when that is a journal file which was compressed whole
// (`zstd FILE`), a temporary file with what it holds, in os.TempDir(). That has no name
// any more, or loses it when the process ends; f is closed then. Zeros take no
// space in it, nothing behind what the journal's header counts is unpacked, and one
// whose header contradicts itself, or counts 4 GiB or more, is not unpacked at all.
// From a compressed file that is cut short, or damaged, what comes before is
// unpacked. It takes at most half of what is free there: an error that wraps
// syscall.ENOSPC says that this is not enough.
//
// Errors are those of the file system, or a *FormatError; f is then still open.
func Unpack(f *os.File) (*os.File, error) {
	if !isPacked(f) {
		return f, nil
	}
	out, err := unpack(f, f.Name())
	if err != nil {
		return nil, err
	}
	_ = f.Close() // only read
	return out, nil
}

func isPacked(r io.ReaderAt) bool {
	var b [4]byte
	n, _ := r.ReadAt(b[:], 0)
	return blob.IsZSTD(b[:n])
}

func unpack(r io.Reader, name string) (out *os.File, err error) {
	z, err := blob.NewZSTDReader(r)
	if err != nil {
		return nil, &FormatError{Path: name, Err: corruptBecause{err}, Detail: "zstd"}
	}
	defer func() { _ = z.Close() }() // it never fails
	if out, err = os.CreateTemp("", "tidemark-*.journal"); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	_ = os.Remove(out.Name()) // where a file that is open can be removed
	size, broken, err := unpackInto(out, z, roomFor(out))
	switch {
	case errors.Is(broken, errNotPacked):
		err = &FormatError{Path: name, Err: ErrNotJournal, Detail: "zstd of something else"}
	case errors.Is(broken, errPackedSizes):
		err = &FormatError{Path: name, Err: corruptBecause{broken}, Detail: "zstd; what zstd -d makes of it is read as far as it goes"}
	case err == nil && broken != nil && size < object.HeaderSizeMin:
		err = &FormatError{Path: name, Err: corruptBecause{broken}, Detail: "zstd"}
	}
	if err == nil {
		err = out.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack %s: %w", name, err), out.Close())
	}
	return out, nil
}

// roomFor is how much may be written to out, a new file: half of what is free.
func roomFor(out *os.File) int64 {
	avail, _, err := vfs.OS{}.Free(filepath.Dir(out.Name()))
	if err != nil {
		return maxUnpacked // nobody knows
	}
	return int64(min(avail/2, maxUnpacked))
}

// unpackInto copies what z has into out, up to the end that the journal's header
// gives, and returns how much that is. broken tells that z had no more, or no
// journal, for another reason than its end; err is of out, or that it would have to
// write more than room.
func unpackInto(out *os.File, z io.Reader, room int64) (size int64, broken, err error) {
	buf := make([]byte, 256<<10)
	limit := int64(len(buf))
	for size < limit {
		n, broken := io.ReadFull(z, buf[:min(int64(len(buf)), limit-size)])
		b := buf[:n]
		if size == 0 {
			limit, err = packedSize(b, room)
			switch {
			case errors.Is(err, errNotPacked), errors.Is(err, errPackedSizes):
				return 0, err, nil // its size says nothing
			case err != nil:
				return 0, nil, err
			}
			b = b[:min(int64(n), limit)]
		}
		if len(bytes.TrimLeft(b, "\x00")) > 0 {
			if room -= int64(len(b)); room < 0 {
				return size, nil, errPackedRoom(size)
			}
			if _, err := out.WriteAt(b, size); err != nil {
				return size, nil, err
			}
		}
		size += int64(len(b))
		switch {
		case errors.Is(broken, io.EOF), errors.Is(broken, io.ErrUnexpectedEOF) && n > 0 && atEnd(z):
			return size, nil, nil
		case broken != nil:
			return size, broken, nil
		}
	}
	return size, nil, nil
}

// packedSize returns the size of a journal that begins with b, as its header tells.
// What is less than a header is taken as it is. One that cannot fit into room is an
// error before any of it is unpacked: but for its hash tables it is not zero up to
// its last object.
func packedSize(b []byte, room int64) (int64, error) {
	if n := min(len(b), len(object.Signature)); string(b[:n]) != object.Signature[:n] {
		return 0, errNotPacked
	}
	if len(b) < object.HeaderSizeMin {
		return object.HeaderSizeMin, nil
	}
	h := decodeHeader(b)
	end, tables := h.HeaderSize+h.ArenaSize, h.DataHashTableSize+h.FieldHashTableSize
	switch {
	case h.HeaderSize < object.HeaderSizeMin, h.HeaderSize >= maxUnpacked, h.ArenaSize >= maxUnpacked, end >= maxUnpacked,
		h.TailObjectOffset >= end, h.DataHashTableSize > end, h.FieldHashTableSize > end, tables > end:
		return 0, errPackedSizes
	case int64(h.TailObjectOffset)-int64(tables) > room:
		return 0, errPackedRoom(int64(h.TailObjectOffset))
	}
	return int64(end), nil
}

// errPackedRoom says that a journal of at least size bytes does not fit.
func errPackedRoom(size int64) error {
	return fmt.Errorf("its more than %d bytes do not go into half of what is free in %s; set TMPDIR to a directory with more: %w",
		size, os.TempDir(), syscall.ENOSPC)
}

// atEnd reports whether z has come to its end: io.ReadFull says the same of that
// and of input that is cut short.
func atEnd(z io.Reader) bool {
	var b [1]byte
	_, err := z.Read(b[:])
	return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

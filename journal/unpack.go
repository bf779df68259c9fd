package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// errNotPacked says that what was compressed is no journal.
var errNotPacked = errors.New("no journal in it")

// maxUnpacked bounds what a compressed file may become, in bytes.
const maxUnpacked = 4 << 30

// Unpack returns f or, when that is a journal file which was compressed whole
// (`zstd FILE`), a temporary file with what it holds, in os.TempDir(). That has no name
// any more, or loses it when the process ends; f is closed then. Zeros take no
// space in it, nothing behind what the journal's header counts is unpacked, and no
// more than 4 GiB. From a compressed file that is cut short, or damaged, what comes
// before is unpacked.
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
	size, broken, err := unpackInto(out, z)
	switch {
	case errors.Is(broken, errNotPacked):
		err = &FormatError{Path: name, Err: ErrNotJournal, Detail: "zstd of something else"}
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

// unpackInto copies what z has into out, up to the end that the journal's header
// gives, and returns how much that is. broken tells that z had no more for another
// reason than its end; err is of out.
func unpackInto(out *os.File, z io.Reader) (size int64, broken, err error) {
	buf := make([]byte, 256<<10)
	limit := int64(maxUnpacked)
	for size < limit {
		n, broken := io.ReadFull(z, buf[:min(int64(len(buf)), limit-size)])
		b := buf[:n]
		if size == 0 && n >= len(object.Signature) && string(b[:len(object.Signature)]) != object.Signature {
			return 0, errNotPacked, nil // its size says nothing
		}
		if size == 0 && n >= object.HeaderSizeMin {
			h := decodeHeader(b)
			if end := h.HeaderSize + h.ArenaSize; end >= object.HeaderSizeMin && end < maxUnpacked {
				limit = int64(end)
			}
			b = b[:min(int64(n), limit)]
		}
		if len(bytes.TrimLeft(b, "\x00")) > 0 {
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

// atEnd reports whether z has come to its end: io.ReadFull says the same of that
// and of input that is cut short.
func atEnd(z io.Reader) bool {
	var b [1]byte
	_, err := z.Read(b[:])
	return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

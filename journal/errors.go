package journal

import (
	"errors"
	"fmt"
	"strconv"
)

// What is wrong with the contents of a file. They are found with errors.Is
// inside a *FormatError.
var (
	// ErrNotJournal says that the file does not begin with a journal's
	// signature.
	ErrNotJournal = errors.New("not a journal file")
	// ErrUnsupported says that the file has incompatible flags, or a
	// compression, that this package does not know.
	ErrUnsupported = errors.New("unsupported journal feature")
	// ErrTruncated says that the file ends before something that it points to.
	ErrTruncated = errors.New("truncated")
	// ErrCorrupt says that the file contradicts itself.
	ErrCorrupt = errors.New("corrupt")
)

// FormatError is every error about the contents of a journal file: of readers,
// of Open for writing, and of Verify.
type FormatError struct {
	// Path names the file; empty when it has no name.
	Path string
	// Offset is the byte at which the object or header field in question
	// begins.
	Offset uint64
	// Err is ErrNotJournal, ErrUnsupported, ErrTruncated, ErrCorrupt or an error
	// that wraps one of them.
	Err error
	// Detail says what was found, for people.
	Detail string
}

// Error returns "PATH:OFFSET: DETAIL: ERR", with the offset in hexadecimal as
// journalctl prints it.
func (e *FormatError) Error() string {
	s := e.Path + ":" + strconv.FormatUint(e.Offset, 16) + ": "
	if e.Detail != "" {
		s += e.Detail + ": "
	}
	return s + e.Err.Error()
}

// Unwrap returns Err.
func (e *FormatError) Unwrap() error { return e.Err }

func formatErrorf(path string, off uint64, err error, format string, args ...any) *FormatError {
	return &FormatError{Path: path, Offset: off, Err: err, Detail: fmt.Sprintf(format, args...)}
}

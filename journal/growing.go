package journal

import (
	"errors"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// A file that its writer goes on with changes between one read and the next.
// What a reader sees of it is as of the last Refresh: the entries counted then,
// which are whole, and the objects before the last one the header named then.
// Links lead further, when they are read later than what they lead to, or than
// the size of the file. That is no damage: the object is not there yet.

// growing reports whether a writer may be at work on the file.
func (f *File) growing() bool {
	return f.hdr.State != StateArchived && f.torn == nil && f.salvaged == nil
}

// notYet reports whether err is about an object that the writer of the file had
// not finished at the last Refresh.
func (f *File) notYet(err error) bool {
	var fe *FormatError
	if err == nil || !f.growing() || !errors.As(err, &fe) || fe.Offset < f.hdr.TailObjectOffset {
		return false
	}
	return f.hdr.State == StateOnline || f.moved()
}

// unlessNotYet returns err, but nil if it is about an object that is not there
// yet.
func (f *File) unlessNotYet(err error) error {
	if f.notYet(err) {
		return nil
	}
	return err
}

// moved reports whether the header has changed since the last Refresh.
// journald closes a file after every sync, and goes on with it.
func (f *File) moved() bool {
	var raw [object.HeaderSize254]byte
	h, err := f.readHeader(raw[:])
	return err == nil && h != f.hdr
}

package linelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// ErrInUse says that somebody else writes to the log, or may: its end may be a write in
// progress.
var ErrInUse = errors.New("log is in use")

// Repaired is what Repair has found at the end of a log.
type Repaired struct {
	// Offset is where the part of a line began, Bytes its length; 0: there was none.
	Offset, Bytes int64
}

// Repair marks the part of a line that a killed writer has left at the end of a log,
// before somebody reads it: as Options.Torn says. Of o it uses FS, Torn and MaxLine.
//
// Nobody else may append meanwhile. If somebody has the log open for writing, as far
// as the system tells that (not of a file of another user, or on another host), or
// holds a lock on it of either kind, it is not touched and the error is ErrInUse: end
// the writer, or leave it to do the same with its next write. A reader is no hindrance.
// Nothing is synced. After an error, or a kill, Repair may be called again.
func Repair(path string, o Options) (r Repaired, err error) {
	o = o.withDefaults()
	if err := noWriter(path, o.FS); err != nil {
		return r, err
	}
	return repairEnd(path, 0, &o)
}

// repairEnd marks the end of a file that nobody has locked.
func repairEnd(path string, flags int, o *Options) (r Repaired, err error) {
	fix, err := o.FS.OpenFile(path, os.O_RDWR|flags, 0)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, fix.Close()) }()
	if !fix.Regular() {
		return r, fmt.Errorf("repair %s: not a regular file", path)
	}
	for _, k := range []vfs.LockKind{vfs.Flock, vfs.Fcntl} {
		if err := fix.Lock(k, false); errors.Is(err, vfs.ErrLocked) {
			return r, inUse(path, err)
		}
	}
	f := &file{fix: fix, path: path, torn: o.Torn, maxLine: o.MaxLine}
	if f.end, err = fix.Size(); err == nil {
		err = f.findTail(f.end)
	}
	if err != nil || len(f.pieces) == 0 {
		return r, err
	}
	r = Repaired{Offset: f.pieces[0].off, Bytes: int64(len(f.pieces[0].text))}
	return r, f.repair()
}

// noWriter returns an error if somebody is known to have path open for writing.
func noWriter(path string, fs vfs.FS) error {
	f, err := fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	err = f.NoWriter()
	switch {
	case errors.Is(err, vfs.ErrInUse):
		err = inUse(path, err)
	case errors.Is(err, errors.ErrUnsupported):
		err = nil
	}
	return errors.Join(err, f.Close())
}

func inUse(path string, err error) error {
	return fmt.Errorf("repair %s: %w: %w: end who writes to it, or leave the repair to its next write", filepath.Clean(path), ErrInUse, err)
}

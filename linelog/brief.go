package linelog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// again opens the file of app for repairs; nil: by its path, then.
func again(app vfs.File) vfs.File {
	fix, err := reopen(app)
	if err != nil {
		return nil // the path tells why, if it is not for want of /proc
	}
	return fix
}

// reopen opens the file of app without O_APPEND.
func reopen(app vfs.File) (vfs.File, error) {
	a, ok := app.(interface {
		Again(flag int) (vfs.File, error)
	})
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return a.Again(os.O_RDWR)
}

// brief is the descriptor for repairs of a process that lives for a few lines: that of
// the lines itself, which can be read too, until something is to be repaired. It owns
// both.
type brief struct {
	vfs.File
	fix vfs.File // nil: nothing was to be repaired
}

// WriteAt opens the file without O_APPEND first. If that cannot be, the repair has
// failed, and is tried again before the next write and by Close.
func (b *brief) WriteAt(p []byte, off int64) (int, error) {
	fix, err := b.second()
	if err != nil {
		return 0, err
	}
	return fix.WriteAt(p, off)
}

// second is the file without O_APPEND.
func (b *brief) second() (fix vfs.File, err error) {
	if b.fix == nil {
		if fix, err = reopen(b.File); err != nil {
			return nil, err
		}
		b.fix = fix
	}
	return b.fix, nil
}

// Close closes both.
func (b *brief) Close() error {
	err := b.File.Close()
	if b.fix != nil {
		err = errors.Join(err, b.fix.Close())
	}
	return err
}

// openBrief opens the file of path for a process that lives for a few lines, if it is
// there, a regular file, and of that name: the path is walked once. nil: it is to be
// opened as for others, who tell what is wrong.
func (w *Writer) openBrief(path string) *file {
	if !w.o.Trailing || slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..") {
		return nil
	}
	app, err := vfs.OS{}.OpenThere(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil
	}
	f := &file{app: app, fix: &brief{File: app}, path: path, regular: true}
	f.names.Store(1)
	if w.ready(f) != nil {
		f.close() //nolint:errcheck // it is opened once more
		return nil
	}
	return f
}

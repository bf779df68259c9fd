package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// renameLooking is RenameNew in two steps.
func renameLooking(fsys FS, oldpath, newpath string) error {
	if _, err := fsys.Stat(newpath); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return &os.LinkError{Op: "rename", Old: oldpath, New: newpath, Err: err}
	}
	return fsys.Rename(oldpath, newpath)
}

// MakeDirs makes name and its missing parents. When it returns nil they survive a
// power cut, and so does name if it was there before: whoever made it may have died
// in between. A parent that was there and may not be opened is left alone.
func MakeDirs(fsys FS, name string, perm fs.FileMode) error {
	last := filepath.Dir(name) // the directory that was there, or name's own
	for at := name; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := fsys.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		last = filepath.Dir(at)
	}
	if err := fsys.MkdirAll(name, perm); err != nil {
		return err
	}
	for at := name; at != last && at != filepath.Dir(at); {
		at = filepath.Dir(at)
		if err := fsys.SyncDir(at); err != nil && (at != last || !errors.Is(err, fs.ErrPermission)) {
			return err
		}
	}
	return nil
}

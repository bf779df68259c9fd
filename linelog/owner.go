package linelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// foreign returns the owner and the group of a file when they are not those of this
// process, so that a file which follows it has to be given to them.
func foreign(was fs.FileInfo) (uid, gid int, ok bool) {
	uid, gid, ok = vfs.Owner(was)
	return uid, gid, ok && (uid != os.Geteuid() || gid != os.Getegid())
}

// makeOwned makes the file that follows was, which has been renamed, when it has to be
// given to others. It belongs to them before it has a line. What has the name by now
// is somebody's and stays as it is: it may be a link to what its maker may not have.
func (w *Writer) makeOwned(path string, was fs.FileInfo) {
	if _, _, ok := foreign(was); !ok {
		return
	}
	f, err := w.o.FS.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|vfs.NoFollow, was.Mode().Perm())
	if err != nil {
		return // the opening that follows tells why, or takes what is there
	}
	if err := errors.Join(own(f, was), f.Close()); err != nil {
		w.rotateFailed(fmt.Errorf("rotate: the owner of the file before: %w", err))
	}
}

// own gives f, a new file, to the owner and the group of another, or to the group
// alone where this process may not give files away.
func own(f vfs.File, was fs.FileInfo) error {
	c, ok := f.(interface{ Chown(uid, gid int) error })
	uid, gid, other := foreign(was)
	if !ok || !other {
		return nil
	}
	err := c.Chown(uid, gid)
	if errors.Is(err, fs.ErrPermission) {
		err = c.Chown(-1, gid)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

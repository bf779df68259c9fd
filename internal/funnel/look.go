package funnel

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// RefusedError says why descriptors are not taken.
type RefusedError struct{ reason string }

// Error says it with what was asked.
func (e *RefusedError) Error() string { return "descriptors refused: " + e.reason }

// Refused is the reason alone.
func (e *RefusedError) Refused() string { return e.reason }

// errAlone is for who passes one descriptor of a file that is not open.
var errAlone = &RefusedError{reason: "the file is not open here: pass a second descriptor, without O_APPEND"}

// look finds out which file the descriptors are of, and whether they are what a
// client has to pass.
//
//	fcntl(F_GETFL), statx, of each; fcntl(F_GET_SEALS)
func look(appending, repairing int) (inode, error) {
	refuse := func(format string, args ...any) (inode, error) {
		return inode{}, &RefusedError{reason: fmt.Sprintf(format, args...)}
	}
	var files [2]inode
	passed := []int{appending, repairing}
	if repairing < 0 {
		passed = passed[:1]
	}
	for n, fd := range passed {
		which := [...]string{"first", "second"}[n]
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return inode{}, fmt.Errorf("flags of the %s descriptor: %w", which, err)
		}
		id, err := vfs.Identify(fd)
		if err != nil {
			return inode{}, fmt.Errorf("look at the %s descriptor: %w", which, err)
		}
		access, appends := flags&unix.O_ACCMODE, flags&unix.O_APPEND != 0
		switch {
		case flags&unix.O_PATH != 0:
			return refuse("the %s descriptor was opened with O_PATH: open the file for writing", which)
		case id.Type != unix.S_IFREG:
			return refuse("the %s descriptor is of %s: want a regular file", which, kind(id.Type))
		case flags&unix.O_DIRECT != 0:
			return refuse("the %s descriptor has O_DIRECT: open the file without", which)
		case n == 0 && access == unix.O_RDONLY:
			return refuse("the first descriptor is for reading only: open the file with O_WRONLY and O_APPEND")
		case n == 0 && !appends:
			return refuse("the first descriptor has no O_APPEND: open the file with O_WRONLY and O_APPEND")
		case n == 1 && access != unix.O_RDWR:
			return refuse("the second descriptor is not for reading and writing: open the file with O_RDWR")
		case n == 1 && appends:
			return refuse("the second descriptor has O_APPEND, so that nothing can be repaired with it: open the file with O_RDWR alone")
		}
		files[n] = inode{id.Dev, id.Ino}
	}
	if repairing >= 0 && files[0] != files[1] {
		return refuse("the descriptors are of two files")
	}
	const sealed = unix.F_SEAL_WRITE | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_GROW
	if seals, err := unix.FcntlInt(uintptr(appending), unix.F_GET_SEALS, 0); err == nil && seals&sealed != 0 {
		return refuse("the file is sealed against writing")
	}
	return files[0], nil
}

// kind is what a file is that is no regular one.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	}
	return "something that is no file"
}

// nameOf is what the kernel calls the file of a descriptor, for people.
func nameOf(fd int) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "a client's file"
	}
	return name
}

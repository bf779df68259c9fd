//go:build unix

package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of f for reading. The mapping may outlive f and must
// be read under a faultGuard: a file that shrinks makes loads fault.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, unix.EINVAL
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

// readBegin reads the first bytes of a file into b, and returns how many there are.
func readBegin(path string, b []byte) (n int, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	n, err = unix.Pread(fd, b, 0)
	_ = unix.Close(fd) // only read
	return n, err
}

func unmapFile(m []byte) error { return unix.Munmap(m) }

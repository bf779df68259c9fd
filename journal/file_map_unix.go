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

func unmapFile(m []byte) error { return unix.Munmap(m) }

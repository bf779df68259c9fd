//go:build !linux && !windows

package vfs

import (
	"errors"
	"syscall"
)

// NoFollow has OpenFile fail if the name is a symbolic link, where there is that.
const NoFollow = syscall.O_NOFOLLOW

// rawWrite is one write(2), tried again when a signal interrupts it.
func rawWrite(fd uintptr, p []byte) (n int, err error) {
	for {
		if n, err = syscall.Write(int(fd), p); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

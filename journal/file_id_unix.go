//go:build unix

package journal

import (
	"io/fs"
	"syscall"
)

// openNonblock keeps the open of a FIFO under a journal's name from waiting.
const openNonblock = syscall.O_NONBLOCK

// fileIdentity tells whether two names are one file.
type fileIdentity struct{ dev, ino uint64 }

func identityOf(st fs.FileInfo) fileIdentity {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return fileIdentity{uint64(s.Dev), s.Ino} //nolint:unconvert // the type differs between systems
	}
	return fileIdentity{}
}

// blocksOf is the size on disk in bytes.
func blocksOf(st fs.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return st.Size()
}

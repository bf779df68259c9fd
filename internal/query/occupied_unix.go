//go:build unix

package query

import (
	"io/fs"
	"syscall"
)

// occupied returns the bytes of the blocks that a file has.
func occupied(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Blocks) * 512 //nolint:gosec // not negative
	}
	return uint64(info.Size()) //nolint:gosec // not negative
}

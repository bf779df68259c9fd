//go:build !unix

package journal

import "io/fs"

const openNonblock = 0

// fileIdentity is not to be had here: every file is its own.
type fileIdentity struct{ dev, ino uint64 }

func identityOf(fs.FileInfo) fileIdentity { return fileIdentity{} }

// blocksOf is the size; what it takes on disk is not to be had here.
func blocksOf(st fs.FileInfo) int64 { return st.Size() }

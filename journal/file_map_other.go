//go:build !unix

package journal

import (
	"errors"
	"os"
)

// mapFile is not to be had here; files are read by pread.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

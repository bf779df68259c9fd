//go:build !unix

package journal

import (
	"errors"
	"os"
)

// mapFile is not to be had here; files are read by pread.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

// readBegin reads nothing here: files are opened.
func readBegin(string, []byte) (int, error) { return 0, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

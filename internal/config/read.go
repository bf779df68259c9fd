package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxFileSize is the longest file that ReadFile reads, in bytes.
const MaxFileSize = 1 << 20

// ReadFile returns what the small file path holds, such as a configuration or an
// id. It waits for nobody and keeps at most MaxFileSize bytes: anything but a
// regular file, and a longer one, is an error. /dev/null is an empty file, as it
// is for systemd, where a link to it masks a drop-in. Errors do not name the
// path. It may be called concurrently.
func ReadFile(path string) ([]byte, error) {
	// Looked at first: to open a device may do something.
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if isNull(info) {
		return nil, nil
	}
	if err := checkFile(info); err != nil {
		return nil, err
	}
	// It may have been replaced since: O_NONBLOCK opens a pipe without a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, withoutPath(err)
	}
	if err := checkFile(info); err != nil {
		return nil, err
	}
	// Its size is not asked for: it may grow, and files of /proc say 0.
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(data) > MaxFileSize {
		return nil, fmt.Errorf("it is longer than %d bytes: shorten it, or remove it", MaxFileSize)
	}
	return data, nil
}

// checkFile says why a file is not read.
func checkFile(info fs.FileInfo) error {
	if kind := kindOf(info.Mode()); kind != "" {
		return fmt.Errorf("it is a %s: put a regular file in its place, or none", kind)
	}
	return nil
}

// kindOf names what is not a regular file.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return ""
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// isNull reports whether info is that of /dev/null, whatever its name is.
func isNull(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3)
}

func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

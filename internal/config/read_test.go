package config_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
)

// What stands in the place of a file, made at path, and what is said of it; an
// empty want is a file that is read.
var places = []struct {
	name string
	make func(path string) error
	want string
}{
	{"named pipe", func(path string) error { return syscall.Mkfifo(path, 0o644) }, "it is a named pipe: put a regular file in its place"},
	{"directory", func(path string) error { return os.Mkdir(path, 0o755) }, "it is a directory: put a regular file in its place"},
	{"socket", func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return l.Close()
	}, "it is a socket: put a regular file in its place"},
	{"endless device", func(path string) error { return os.Symlink("/dev/zero", path) }, "it is a device: put a regular file in its place"},
	{"huge and sparse", func(path string) error { return sized(path, 1<<40) }, "it is longer than 1048576 bytes: shorten it, or remove it"},
	{"a byte too long", func(path string) error { return sized(path, config.MaxFileSize+1) }, "it is longer than 1048576 bytes"},
	{"long enough", func(path string) error { return sized(path, config.MaxFileSize) }, ""},
	{"masked", func(path string) error { return os.Symlink(os.DevNull, path) }, ""},
	{"link to a file", func(path string) error {
		if err := os.WriteFile(path+".real", []byte("[Journal]\n"), 0o644); err != nil {
			return err
		}
		return os.Symlink(path+".real", path)
	}, ""},
}

// sized makes a file of comments, as sparse as it may be.
func sized(path string, size int64) error {
	if err := os.WriteFile(path, []byte("#"), 0o644); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

// TestLoadReadsSmallRegularFilesOnly: anything else in the place of the file or
// of a drop-in neither keeps the daemon waiting nor fills its memory, and is
// named with what to do.
func TestLoadReadsSmallRegularFilesOnly(t *testing.T) {
	for _, tt := range places {
		for _, where := range []string{"main", "main.d/1.conf"} {
			t.Run(tt.name+" as "+where, func(t *testing.T) {
				t.Chdir(t.TempDir()) // a socket's path must be short
				if err := os.Mkdir("main.d", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := tt.make(where); err != nil {
					t.Fatal(err)
				}
				_, warnings, err := config.Load("main", false)
				if tt.want == "" {
					if err != nil || len(warnings) > 0 {
						t.Errorf("error %v, warnings %v, want none", err, warnings)
					}
					return
				}
				var e *config.Error
				if !errors.As(err, &e) || e.Path != where || e.Line != 0 || !strings.HasPrefix(err.Error(), where+": "+tt.want) {
					t.Errorf("error %v, want %s: %s", err, where, tt.want)
				}
			})
		}
	}
}

// TestReadFileOfUnknownSize: files of /proc have contents and no size.
func TestReadFileOfUnknownSize(t *testing.T) {
	b, err := config.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(b), "\nPid:") {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := config.ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) || err.Error() != "no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
}

// TestReadFileStopsAtTheLimit: a file that tells no size, or grows, is not read
// for longer than others.
func TestReadFileStopsAtTheLimit(t *testing.T) {
	const path = "/proc/kallsyms"
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("no long file of unknown size: %v", err)
	}
	defer f.Close()
	if n, err := io.CopyN(io.Discard, f, config.MaxFileSize+1); err != nil {
		t.Skipf("no long file of unknown size: %s has %d bytes", path, n)
	}
	if b, err := config.ReadFile(path); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("read %d bytes, error %v", len(b), err)
	}
}

package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/config"
)

func TestMakeDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", config.MaxSocketPath))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := makeDir(long)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(filepath.Join(dir, longestSocket)); n > config.MaxSocketPath {
		t.Errorf("%s: a socket's path has %d bytes", dir, n)
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := makeDir(filepath.Join(long, "absent")); err == nil {
		t.Error("made in a directory that is not there")
	}
}

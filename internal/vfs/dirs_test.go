package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// TestMakeDirs: each directory in which one was made is synced, from the inside out,
// and the one that holds the last in any case.
func TestMakeDirs(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	var synced []string
	refuse := ""
	fsys := &hookfs.FS{}
	fsys.Set(func(op, name string) error {
		if op != "syncdir" {
			return nil
		}
		name = "." + strings.TrimPrefix(name, root)
		synced = append(synced, name)
		if name == refuse {
			return fs.ErrPermission
		}
		return nil
	})
	for _, tt := range []struct {
		make, refuse string
		want         []string
		fails        bool
	}{
		{"a", "", []string{"."}, false},
		{"a", ".", []string{"."}, false},
		{"a/b/c", "./a", []string{"./a/b", "./a"}, false},
		{"a/b/c", "", []string{"./a/b"}, false},
		{"a/d/e/f", "./a/d", []string{"./a/d/e", "./a/d"}, true},
	} {
		synced, refuse = nil, tt.refuse
		err := vfs.MakeDirs(fsys, filepath.Join(root, tt.make), 0o700)
		if (err != nil) != tt.fails || tt.fails && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", tt.make, err)
		}
		if info, err := os.Stat(filepath.Join(root, tt.make)); err != nil || !info.IsDir() {
			t.Errorf("%s is not there: %v", tt.make, err)
		}
		if diff := cmp.Diff(tt.want, synced); diff != "" {
			t.Errorf("%s: synced directories (-want +got):\n%s", tt.make, diff)
		}
	}
}

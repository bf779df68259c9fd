// Package sockdir makes the directories in which tests bind their sockets.
package sockdir

import (
	"os"
	"testing"
)

// New returns a directory that ends with the test. Its path leaves room for a
// socket's name, of which all together may have 107 bytes: that of t.TempDir
// grows with TMPDIR and the test's name.
func New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		dir, err = os.MkdirTemp("", "t")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

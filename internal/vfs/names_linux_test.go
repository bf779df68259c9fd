package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestErrorsNameTheFileAsItIs: a file that was renamed after it was opened is
// named as it is called now; one that was removed, as it was opened.
func TestErrorsNameTheFileAsItIs(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, ".next-1"), filepath.Join(dir, "system.journal")
	if err := os.WriteFile(before, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.OpenFile(before, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	named := func(want string) {
		t.Helper()
		var pe *fs.PathError
		if _, err := f.WriteAt([]byte("y"), 0); !errors.As(err, &pe) || pe.Path != want {
			t.Errorf("the error is %v, want one of %s", err, want)
		}
	}
	named(before)
	if err := os.Rename(before, after); err != nil {
		t.Fatal(err)
	}
	named(after)
	if err := os.Remove(after); err != nil {
		t.Fatal(err)
	}
	named(before)
}

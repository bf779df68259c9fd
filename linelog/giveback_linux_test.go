package linelog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/settle"
)

// A process that is out of descriptors may make the new file and not open it a second
// time: the file before gets its name back all the same.
func TestRotateWithoutDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	fs := new(hookfs.FS)
	w, err := Open(path, Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil {
		t.Fatal(err)
	}
	fs.Set(func(op, name string) error {
		if op == "open" && name == path {
			return syscall.EMFILE
		}
		return nil
	})
	if err := w.Rotate(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Rotate = %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "x\n" {
		t.Errorf("the log holds %q, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("files: %v, %v", list, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

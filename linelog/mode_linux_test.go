package linelog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/settle"
)

// The file that a rotation begins has the mode of the one before, whatever the umask
// (which stays as it is: a mode of others' writing is beyond any sane one).
func TestRotateKeepsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil || w.Rotate() != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o666 || st.Size() != 0 {
		t.Errorf("the new file: %v, %v", st, err)
	}
}

// A log in a directory that its writer may not read can be synced with its name.
func TestSyncInADirectoryThatMayNotBeRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user for a while")
	}
	dir := t.TempDir()
	w, err := Open(filepath.Join(dir, "log"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.Chmod(dir, 0o733); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with this goroutine, and so does its user
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		if err := (vfs.OS{}).SyncDir(dir); err == nil {
			t.Error("the directory can be read all the same")
		}
		if condemned, err := w.f.sync(vfs.OS{}); condemned || err != nil || w.f.named != 1 {
			t.Errorf("sync = %v, %v; names synced: %d", condemned, err, w.f.named)
		}
	}()
	<-done
}

// The file that a rotation begins, and a compressed archive, belong to whom the file
// before belonged to.
func TestRotateKeepsTheOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	path := filepath.Join(t.TempDir(), "log")
	w, err := Open(path, Options{Rotate: Rotation{Size: 1 << 30, Keep: 5}})
	if err != nil {
		t.Fatal(err)
	}
	owned := func(name string) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil || st.Uid != 65534 || st.Gid != 65533 || st.Mode&0o777 != 0o640 {
			t.Errorf("%s: %d:%d, mode %o, %v", name, st.Uid, st.Gid, st.Mode, err)
		}
	}
	if err := errors.Join(os.Chmod(path, 0o640), os.Chown(path, 65534, 65533)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil || w.Rotate() != nil {
			t.Fatal(err)
		}
		owned(path)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(path + ".*")
	if len(archives) != 2 || err != nil {
		t.Errorf("archives %v, %v", archives, err)
	}
	for _, a := range archives {
		owned(a)
	}
}

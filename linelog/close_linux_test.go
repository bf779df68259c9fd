package linelog

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
)

// Close waits for a Rotate that is under way, and covers what that has left to be synced:
// nothing looks for a file any more when it has returned.
func TestCloseDuringRotate(t *testing.T) {
	for range 50 {
		fs := new(hookfs.FS)
		w, err := Open(filepath.Join(t.TempDir(), "log"), Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		renaming, goOn := make(chan struct{}), make(chan struct{})
		fs.Set(func(op, _ string) error {
			if op == "rename" {
				close(renaming)
				<-goOn
			}
			return nil
		})
		rotated := make(chan error)
		go func() { rotated <- w.Rotate() }()
		<-renaming
		closed := make(chan error)
		go func() { closed <- w.Close() }()
		for closing := false; !closing; { // no system call is waited for
			runtime.Gosched()
			w.mu.Lock()
			closing = w.closing
			w.mu.Unlock()
		}
		close(goOn)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if got, pos := w.sync.Settled(), uint64(w.Pos()); got < pos {
			t.Fatalf("closed and synced up to %d of %d", got, pos)
		}
		if err := <-rotated; err != nil {
			t.Fatal(err)
		}
	}
}

// A line without an end, as long as the longest, is read once.
func TestEndOfALongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const size = 8 << 20
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Repair(path, Options{MaxLine: 2 * size})
	runtime.ReadMemStats(&after)
	if err != nil || r.Bytes != size {
		t.Errorf("Repair = %+v, %v", r, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8*size {
		t.Errorf("it took %d bytes of memory for %d", got, size)
	}
}

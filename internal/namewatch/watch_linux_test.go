package namewatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// rig is a watch, and what its Wait has returned.
type rig struct {
	*Watch
	t    *testing.T
	path string
	woke chan error
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "log"), woke: make(chan error, 1)}
	r.write(r.path)
	w, err := New(r.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	r.Watch = w
	r.must(w.File())
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) write(path string) {
	r.t.Helper()
	r.must(os.WriteFile(path, []byte("x\n"), 0o600))
}

// wakes does something that is to end a Wait.
func (r *rig) wakes(what string, do func()) {
	r.t.Helper()
	go func() { r.woke <- r.Wait(0) }()
	do()
	select {
	case err := <-r.woke:
		r.must(err)
	case <-time.After(30 * time.Second):
		r.t.Fatalf("%s: nobody woke", what)
	}
}

// A rename, a removal and a file in its place are noticed; what happens beside it,
// and writes, are not.
func TestWatch(t *testing.T) {
	r := newRig(t)
	r.write(r.path) // no event of its own: the next Wait would return at once, and not for the rename
	r.write(r.path + ".other")
	if err := r.Wait(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if r.counts(r.buf[:0]) {
		t.Error("nothing counts")
	}
	r.wakes("rename", func() { r.must(os.Rename(r.path, r.path+".1")) })
	if err := r.File(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("File without one: %v", err)
	}
	r.must(r.Dir(true))
	r.wakes("create", func() { r.write(r.path + ".other2"); r.write(r.path) })
	r.must(r.File())
	r.must(r.Dir(false))
	open, err := os.Open(r.path)
	r.must(err)
	defer open.Close()
	r.wakes("remove an open file", func() { r.must(os.Remove(r.path)) })
	r.must(r.Dir(true))
	r.wakes("move to the name", func() { r.must(os.Rename(r.path+".other", r.path)) })
	r.must(r.File())
	r.wakes("replace", func() { r.must(os.Rename(r.path+".other2", r.path)) })
}

// Close ends a Wait, and a limit does.
func TestWaitEnds(t *testing.T) {
	r := newRig(t)
	if err := r.Wait(time.Millisecond); err != nil {
		t.Error(err)
	}
	go func() { r.woke <- r.Wait(0) }()
	r.must(r.Close())
	if err := <-r.woke; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
	for what, err := range map[string]error{"File": r.File(), "Dir": r.Dir(true)} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
}

// Who watches learns that it was closed, whatever it does.
func TestUseAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{"File": w.File, "Dir": func() error { return w.Dir(true) }, "Wait": func() error { return w.Wait(0) }} {
		if err := f(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s = %v", name, err)
		}
	}
}

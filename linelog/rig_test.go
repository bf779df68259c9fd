package linelog

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

const logPath = "/var/log/access.log"

// rig is a writer on a file system in memory.
type rig struct {
	*Writer
	t  *testing.T
	fs *crashfs.FS

	mu   sync.Mutex
	said []string
}

// newRig opens a log. Write it in a bubble of virtual time where that matters.
func newRig(t *testing.T, o Options, prepare func(fs *crashfs.FS)) *rig {
	t.Helper()
	r := &rig{t: t, fs: crashfs.New(1)}
	if err := r.fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(r.fs)
	}
	o.FS = r.fs
	o.Say = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.said = append(r.said, text)
	}
	w, err := Open(logPath, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Writer = w
	return r
}

// put writes text by Write.
func (r *rig) put(text string) {
	r.t.Helper()
	if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
		r.t.Fatalf("Write(%.40q) = %d, %v", text, n, err)
	}
}

// append1 appends a line and returns its position.
func (r *rig) append1(line string) Pos {
	r.t.Helper()
	pos, err := r.Append(context.Background(), []byte(line))
	if err != nil {
		r.t.Fatalf("Append(%.40q): %v", line, err)
	}
	return pos
}

// appended waits until all is written.
func (r *rig) appended() {
	r.t.Helper()
	if err := r.Wait(context.Background(), r.Pos(), settle.Appended); err != nil {
		r.t.Fatal(err)
	}
}

// synced waits until all is synced.
func (r *rig) synced() {
	r.t.Helper()
	if err := r.Sync(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// want holds the contents of the log against lines.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	if got := string(r.fs.Bytes(logPath)); got != strings.Join(lines, "") {
		r.t.Errorf("the log holds %q, want %q", got, strings.Join(lines, ""))
	}
}

// words is what Say was told, one a line.
func (r *rig) words() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "\n")
}

// seed puts a file there.
func seed(text string) func(*crashfs.FS) {
	return func(fs *crashfs.FS) {
		f, err := fs.OpenFile(logPath, os.O_RDWR|os.O_CREATE, 0o640)
		if err == nil && text != "" {
			_, err = f.WriteAt([]byte(text), 0)
		}
		if err != nil {
			panic(err)
		}
	}
}

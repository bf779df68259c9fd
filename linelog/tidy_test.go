package linelog

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// growing is a file system on which others write all the time: whoever waits for the write
// in progress, as a write of nothing does, sees the next one.
type growing struct {
	*crashfs.FS
	next func()
}

func (g *growing) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil || flag&os.O_APPEND == 0 {
		return f, err
	}
	return &growingFile{f, g}, nil
}

type growingFile struct {
	vfs.File
	fs *growing
}

func (f *growingFile) Append(p []byte) (int, int64, error) {
	if len(p) == 0 {
		f.fs.next()
	}
	return f.File.Append(p)
}

// Who opens a log that others write to, and sees each time a write in progress at its end,
// puts no newline before its first line: there would be an empty one for each process of a
// crowd that begins at the same time.
func TestSharedTellsLifeFromDeath(t *testing.T) {
	for _, tt := range []struct {
		name       string
		grows      int // looks after which the end is that of a line
		more, want string
	}{
		{"life", 7, "ress\nin prog", "in progress\n" + strings.Repeat("in progress\n", 6) + "next\n"},
		{"life without end", 1 << 20, "ress\nin prog", "in progress\n" + strings.Repeat("in progress\n", maxLooks-2) + "#n pro\nnext\n"},
		{"death", 1, "", "#n prog\nnext\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &growing{FS: crashfs.New(1)}
			if err := g.MkdirAll("/var/log", 0o755); err != nil {
				t.Fatal(err)
			}
			seed("in prog")(g.FS)
			w, err := Open(logPath, Options{FS: g, Shared: true})
			if err != nil {
				t.Fatal(err)
			}
			other, err := g.FS.OpenFile(logPath, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			looks := 0
			g.next = func() {
				text := tt.more
				if looks++; looks == tt.grows && text != "" {
					text = "ress\n"
				}
				if _, _, err := other.Append([]byte(text)); err != nil {
					t.Error(err)
				}
			}
			if _, err := w.Write([]byte("next\n")); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if got := string(g.Bytes(logPath)); got != tt.want {
				t.Errorf("%d looks: %q, want %q", looks, got, tt.want)
			}
		})
	}
}

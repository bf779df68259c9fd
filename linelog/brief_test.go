package linelog

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
)

// A repair for which the file cannot be opened is no success: Close says so. The line
// stands on its own, since it began with a newline.
func TestBriefCannotRepair(t *testing.T) {
	fs := crashfs.New(1)
	if err := fs.MkdirAll("/var/log", 0o755); err != nil {
		t.Fatal(err)
	}
	seed("torn")(fs)
	app, err := fs.OpenFile(logPath, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openFiles(app, &brief{File: app}, Options{FS: fs, Shared: true, CloseUnsynced: true, Trailing: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("ours\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "mark a torn line") {
		t.Errorf("Close: %v, want that a torn line could not be marked", err)
	}
	if got := string(fs.Bytes(logPath)); got != "torn\nours\n" {
		t.Errorf("the log holds %q", got)
	}
}

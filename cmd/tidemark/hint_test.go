package main

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// TestUnopened: what keeps a query from a file comes in journalctl's words, and
// then the next step with the file's name.
func TestUnopened(t *testing.T) {
	for _, tt := range []struct {
		err        error
		said, step string
	}{
		{syscall.EMFILE, "Too many open files", "ulimit -n"},
		{syscall.EACCES, "Permission denied", "as root"},
		{syscall.ENOENT, "No such file or directory", "name a directory"},
	} {
		err := unopened("files", &fs.PathError{Op: "open", Path: "/x/a.journal", Err: tt.err})
		if !errors.Is(err, tt.err) || err.Error() != "Failed to open files: "+tt.said {
			t.Errorf("%v: %q, want %q", tt.err, err, tt.said)
		}
		if h := hint(err); !strings.HasPrefix(h, "/x/a.journal: ") || !strings.Contains(h, tt.step) {
			t.Errorf("%v: next step %q, want the file and %q", tt.err, h, tt.step)
		}
	}
}

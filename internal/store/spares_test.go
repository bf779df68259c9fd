package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// inodes returns the inode of each file that a reader opens, by name.
func inodes(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	found := make(map[string]os.FileInfo)
	for _, name := range names(t, dir) {
		if !strings.HasSuffix(name, ".journal") {
			continue
		}
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = fi
	}
	return found
}

// TestReadersKnowTheNextFiles: a follower that merges files by time must have a
// file open before there is an entry in it. So the file that a user's first entry
// or a rotation goes to was there before, under a name that readers open, one for
// each that is in use.
func TestReadersKnowTheNextFiles(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	cfg.Split = true
	s := open(t, cfg)
	ready := func(n int) {
		t.Helper()
		if err := s.await(t.Context(), func() error {
			if s.spares.len() < n || !s.named() {
				return errNoFile
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	known := func(name string, before map[string]os.FileInfo) {
		t.Helper()
		after := inodes(t, s.dir)[name]
		if after == nil {
			t.Fatalf("no %s", name)
		}
		for _, fi := range before {
			if os.SameFile(fi, after) {
				return
			}
		}
		t.Errorf("%s is a file that no reader can have known", name)
	}
	var before map[string]os.FileInfo
	put := func(uid uint32) {
		t.Helper()
		if _, err := s.Append(t.Context(), []entry.Entry{line(uid, "entry")}); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	for i, uid := range []uint32{1000, 1001, 1002, 1003} {
		ready(min(1+i, maxSpares))
		before = inodes(t, s.dir)
		put(uid)
		ready(0)
		known("user-100"+string(rune('0'+i))+".journal", before)
	}
	ready(maxSpares)
	before = inodes(t, s.dir)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []uint32{0, 1000, 1001, 1002} { // all that were ready
		put(uid)
	}
	ready(0)
	for _, name := range []string{"system.journal", "user-1000.journal", "user-1001.journal"} {
		known(name, before)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range inodes(t, s.dir) {
		if IsPrepared(name) {
			t.Errorf("%s is left behind", name)
		}
	}
}

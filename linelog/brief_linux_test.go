package linelog

import (
	"os"
	"path/filepath"
	"testing"
)

// descriptors counts those of this process that are open at a path.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if at, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && at == path {
			n++
		}
	}
	return n
}

// A process of a few lines has a log open once until a torn line is found, and repairs
// the file that it has written to, whatever has its name by then.
func TestBrief(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("whole\ntorn"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Open(path, Options{Shared: true, CloseUnsynced: true, Trailing: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t, path); n != 1 {
		t.Errorf("the log is open %d times, want once", n)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("ours\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path + ".old": "whole\n#orn\nours\n", path: "another's"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v, want %q", name, b, err, want)
		}
		if n := descriptors(t, name); n != 0 {
			t.Errorf("%s is still open %d times", name, n)
		}
	}
}

// What a process of a few lines cannot open that way is opened as for others: a link, a
// path with "..", what is not there, a device.
func TestBriefElsewhere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("log", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"log", "link", "../" + filepath.Base(dir) + "/log"} {
		w, err := Open(dir+"/"+name, Options{Shared: true, CloseUnsynced: true, Trailing: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := descriptors(t, filepath.Join(dir, "log")); n != 2 {
			t.Errorf("%s is open %d times, want twice", name, n)
		}
		if _, err := w.Write([]byte("line\n")); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || len(b) != 5*(n+1) {
			t.Errorf("after %s: %q, %v", name, b, err)
		}
	}
	w, err := Open("/dev/null", Options{Shared: true, CloseUnsynced: true, Trailing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

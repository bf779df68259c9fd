package linelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/settle"
)

// linked makes what /dev/stdout is: a link to a link to an open file that may have no
// name.
func linked(t *testing.T, f *os.File) (link string) {
	t.Helper()
	link = filepath.Join(t.TempDir(), "stdout")
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), link); err != nil {
		t.Fatal(err)
	}
	return link
}

// The log of a process in a container is often /dev/stdout.
func TestOpenOfALinkToAPipe(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer out.Close()
	w, err := Open(linked(t, out), Options{})
	if err == nil {
		_, err = w.Write([]byte("a line\n"))
	}
	if err == nil {
		err = errors.Join(w.Reopen(), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "a line\n" {
		t.Errorf("the pipe got %q, %v", b[:n], err)
	}
}

// A file that was removed cannot be synced, and the link that leads to it is not renamed
// in its place when that fails.
func TestOpenOfALinkToARemovedFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "removed"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	link := linked(t, f)
	if _, err := Open(link, Options{Rotate: Rotation{Size: 1000}}); !errors.Is(err, ErrNotOwned) {
		t.Errorf("with a rotation: %v", err)
	}
	w, err := Open(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, ErrSync) {
		t.Errorf("Close = %v, want that it cannot be synced", err)
	}
	b := make([]byte, 7)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "a line\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Dir(link)); len(list) != 1 || list[0].Type() != os.ModeSymlink {
		t.Errorf("the directory of the link holds %v, %v", list, err)
	}
}

// A name that has become a link is not renamed either.
func TestRotateOfANameThatIsALink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	w, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("log.new", path); err != nil {
		t.Fatal(err)
	}
	if err := w.Rotate(); !errors.Is(err, errLink) {
		t.Errorf("Rotate = %v", err)
	}
	if to, err := os.Readlink(path); to != "log.new" {
		t.Errorf("the link is %q, %v", to, err)
	}
}

// Archives that others may have made, where the directory is theirs: what is no file is
// left alone and leads nowhere, a half compression too; names that are no archive's are
// nobody's, and a name at the end of all numbers leaves names for the others.
func TestHostileArchives(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("secret", "a secret without a newline")
	put("victim", "victim\n")
	put("log.20200102T000000", "old\n")
	put(".log.access.20200102T000000.zst.part", "of another log")
	put("log.20200103T000000.1", "of somebody else\n")
	put("log.20200103T000000.zst", "half of a compression")
	put("log.20200103T000000", "old too\n")
	put("log.20200105T000000_9223372036854775807", "numbered\n")
	for _, err := range []error{
		os.Symlink("secret", path+".20200101T000000"),
		os.Symlink("victim", filepath.Join(dir, ".log.20200102T000000.zst.part")),
		os.Symlink("victim", filepath.Join(dir, ".log.20200103T000000.zst.part")),
		syscall.Mkfifo(path+".20200104T000000", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := Open(path, Options{Rotate: Rotation{Size: 1 << 20}, Say: func(text string) { t.Error(text) }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Synced) != nil || w.Rotate() != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"secret": "a secret without a newline", "victim": "victim\n",
		".log.access.20200102T000000.zst.part": "of another log", "log.20200103T000000.1": "of somebody else\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	packed := 0
	for _, e := range list {
		a, ok := parseArchive("log", e.Name())
		switch {
		case e.Type() != 0:
			if !ok || e.Name() > "log.20200104T000000" {
				t.Errorf("left: %s", e)
			}
		case ok && !a.packed:
			t.Errorf("not compressed: %s", e)
		case ok:
			packed++
		}
	}
	if packed != 5 {
		t.Errorf("compressed archives: %d, want 5: %v", packed, list)
	}
}

// Two that rotate one log by mistake take no name of each other, and remove no file that
// the other still writes to.
func TestTwoThatRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var all [2]*Writer
	for i := range all {
		w, err := Open(path, Options{Rotate: Rotation{Size: 100}})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = w
	}
	const each = 150
	var group sync.WaitGroup
	for i, w := range all {
		group.Go(func() {
			for n := range each {
				pos, err := w.Append(t.Context(), fmt.Appendf(nil, "%d line %d of a log\n", i, n))
				if err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, w := range all {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	found := map[string]int{}
	list, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(unpacked(t, name, b))) {
			found[line]++
		}
	}
	for i := range all {
		for n := range each {
			if line := fmt.Sprintf("%d line %d of a log\n", i, n); found[line] != 1 {
				t.Errorf("%q is there %d times", line, found[line])
			}
		}
	}
}

// What ".." is behind a link to a directory only the system knows: a link in there, and
// a path that a user writes, lead to where open(2) goes.
func TestPathsThroughLinkedDirectories(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "data/logs/current"), 0o755),
		os.Symlink(filepath.Join(dir, "data/logs/current"), filepath.Join(dir, "log")),
		os.Symlink("../app.log", filepath.Join(dir, "data/logs/current/app.log")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "data/logs/app.log")
	for _, path := range []string{dir + "/log/app.log", dir + "/log/../app.log"} {
		w, err := Open(path, Options{Rotate: Rotation{Size: 1, Keep: 1, Compression: Plain}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if pos, err := w.Append(t.Context(), []byte("x\n")); err != nil || w.Wait(t.Context(), pos, settle.Appended) != nil {
				t.Fatal(pos, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(want); err != nil || string(got) != "x\n" {
			t.Errorf("%s: the file holds %q, %v", path, got, err)
		}
		if list, err := filepath.Glob(want + ".*"); len(list) != 1 || err != nil {
			t.Errorf("%s: archives %v, want 1: %v", path, list, err)
		}
		if err := os.Remove(want); err != nil {
			t.Fatal(err)
		}
	}
}

package slowfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// images of each state are looked at; where it matters most, five times as many.
const images = 20

// eachImage calls check with the directories of what power cuts now could leave.
func eachImage(t *testing.T, f *FS, n int, check func(seed uint64, dir string)) {
	t.Helper()
	for seed := range uint64(n) {
		dir := filepath.Join(t.TempDir(), "image")
		f.Image(seed, dir)
		check(seed, dir)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// states lists the states of a file in all images, with how often they come.
func states(t *testing.T, f *FS, name string) map[string]int {
	t.Helper()
	return statesOf(t, f, name, images)
}

func statesOf(t *testing.T, f *FS, name string, n int) map[string]int {
	t.Helper()
	found := map[string]int{}
	eachImage(t, f, n, func(_ uint64, dir string) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found["none"]++
		case err != nil:
			t.Error(err)
		default:
			found[short(string(b))]++
		}
	})
	return found
}

// short writes AAAA… as A4096.
func short(s string) string {
	var out strings.Builder
	for s != "" {
		rest := strings.TrimLeft(s, s[:1])
		out.WriteString(strings.ReplaceAll(s[:1], "\x00", "0") + strconv.Itoa(len(s)-len(rest)) + " ")
		s = rest
	}
	return strings.TrimSpace(out.String())
}

// expectStates: each state of want comes, and no other.
func expectStates(t *testing.T, when string, got map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if got[w] == 0 {
			t.Errorf("%s: %q is in no image: %v", when, w, got)
		}
		delete(got, w)
	}
	for state, n := range got {
		t.Errorf("%s: %q is in %d images and never was, or was synced away", when, state, n)
	}
}

// TestImageHasWhatFsyncCovered follows a file: only what was synced is sure, and
// what was not is there in some images, page by page.
func TestImageHasWhatFsyncCovered(t *testing.T) {
	back := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(back, "old"), []byte(strings.Repeat("o", 5000)), 0o600))
	fs := Mount(t, back, Options{PowerCut: true})
	f := open(t, filepath.Join(fs.Path(), "a"))
	expectStates(t, "created", states(t, fs, "a"), "none", "")
	noError(t, f.Sync())
	expectStates(t, "file synced, its name not", states(t, fs, "a"), "none", "")
	syncDir(t, fs.Path())
	expectStates(t, "name synced", states(t, fs, "a"), "")

	pwrite(t, f, strings.Repeat("A", 2*pageSize), 0, 2*pageSize, nil)
	expectStates(t, "written", statesOf(t, fs, "a", 5*images), "", "08192", "A8192", "A4096 04096", "04096 A4096")
	noError(t, unix.Fdatasync(int(f.Fd())))
	expectStates(t, "synced", states(t, fs, "a"), "A8192")

	pwrite(t, f, "B", 0, 1, nil)
	pwrite(t, f, "C", 1, 1, nil)
	expectStates(t, "two bytes changed", states(t, fs, "a"), "A8192", "B1 A8191", "B1 C1 A8190")
	noError(t, f.Truncate(1))
	noError(t, f.Sync())
	expectStates(t, "truncated", states(t, fs, "a"), "B1")
	noError(t, f.Truncate(3))
	noError(t, f.Sync())
	expectStates(t, "longer again", states(t, fs, "a"), "B1 02")
	noError(t, unix.Fallocate(int(f.Fd()), 0, 0, 9))
	expectStates(t, "allocated", states(t, fs, "a"), "B1 02", "B1 08")
	noError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1))
	noError(t, f.Sync())
	expectStates(t, "punched", states(t, fs, "a"), "09")
	expectStates(t, "never touched", states(t, fs, "old"), "o5000")
}

// TestImageBeforeTheSyncHasReturned: a sync that is held promises nothing yet.
func TestImageBeforeTheSyncHasReturned(t *testing.T) {
	back := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(back, "a"), nil, 0o600))
	fs := Mount(t, back, Options{PowerCut: true, Rules: []Rule{{Calls: []Call{Fsync}, Hold: true}}})
	f := open(t, filepath.Join(fs.Path(), "a"))
	pwrite(t, f, "A", 0, 1, nil)
	done := make(chan error, 1)
	go func() { done <- f.Sync() }()
	fs.WaitHeld(Fsync, 1)
	expectStates(t, "held", states(t, fs, "a"), "", "01", "A1")
	fs.Set()
	noError(t, within(t, "the sync", done))
	expectStates(t, "synced", states(t, fs, "a"), "A1")
}

// TestImageAfterAFailedSync: no later sync covers what a failed one should have,
// unless it was done all the same or written again.
func TestImageAfterAFailedSync(t *testing.T) {
	back := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(back, "a"), []byte("o"), 0o600))
	fs := Mount(t, back, Options{PowerCut: true})
	f := open(t, filepath.Join(fs.Path(), "a"))
	fail := func(done bool) {
		t.Helper()
		fs.Set(Rule{Calls: []Call{Fsync}, Err: eio, Done: done})
		if err := f.Sync(); !errors.Is(err, eio) {
			t.Fatalf("sync returned %v, want %v", err, eio)
		}
		fs.Set()
	}
	pwrite(t, f, "A", 0, 1, nil)
	fail(false)
	noError(t, f.Sync())
	expectStates(t, "failed, then synced", states(t, fs, "a"), "o1", "A1")
	pwrite(t, f, "B", 0, 1, nil)
	noError(t, f.Sync())
	expectStates(t, "written again", states(t, fs, "a"), "B1")
	pwrite(t, f, "C", 0, 1, nil)
	fail(true)
	expectStates(t, "done but failed", states(t, fs, "a"), "C1")
}

// TestImageOfAMappedFile: what is stored into a mapping is in images when the kernel
// has written it back, and surely when a sync covered it.
func TestImageOfAMappedFile(t *testing.T) {
	back := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(back, "a"), make([]byte, 3*pageSize), 0o600))
	fs := Mount(t, back, Options{PowerCut: true})
	f := open(t, filepath.Join(fs.Path(), "a"))
	m, err := unix.Mmap(int(f.Fd()), 0, 3*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	noError(t, err)
	defer unix.Munmap(m)
	m[0], m[2*pageSize] = 'A', 'B'
	noError(t, unix.SyncFileRange(int(f.Fd()), 2*pageSize, pageSize,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER))
	got := states(t, fs, "a")
	if got["012288"] == 0 || got["08192 B1 04095"] == 0 {
		t.Errorf("written back, not synced: want images with and without it: %v", got)
	}
	noError(t, f.Sync())
	expectStates(t, "synced", states(t, fs, "a"), "A1 08191 B1 04095")

	// What is written back while a sync is held, that sync does not cover.
	fs.Set(Rule{Calls: []Call{Fsync}, Hold: true})
	m[1] = 'C'
	done := make(chan error, 1)
	go func() { done <- f.Sync() }()
	fs.WaitHeld(Fsync, 1)
	m[2] = 'D'
	noError(t, unix.SyncFileRange(int(f.Fd()), 0, pageSize,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER))
	fs.Set()
	noError(t, within(t, "the sync", done))
	expectStates(t, "written during the sync", states(t, fs, "a"), "A1 C1 08190 B1 04095", "A1 C1 D1 08189 B1 04095")
}

// TestImageOfNames: names come and go in order, renames as a whole, and a
// directory's sync is about its own names.
func TestImageOfNames(t *testing.T) {
	back := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(back, "a"), []byte("a"), 0o600))
	noError(t, os.WriteFile(filepath.Join(back, "b"), []byte("b"), 0o600))
	fs := Mount(t, back, Options{PowerCut: true})
	in := func(name string) string { return filepath.Join(fs.Path(), name) }
	noError(t, os.Rename(in("a"), in("b")))
	noError(t, os.Mkdir(in("d"), 0o700))
	noError(t, os.Symlink("b", in("d/link")))
	noError(t, os.Link(in("b"), in("d/hard")))
	syncDir(t, in("d"))
	seen := listings(t, fs)
	expectStates(t, "renamed", seen, "a=a b=b", "b=a", "b=a d/ d/hard=a d/link>b")
	syncDir(t, fs.Path())
	expectStates(t, "synced", listings(t, fs), "b=a d/ d/hard=a d/link>b")

	noError(t, os.Rename(in("d"), in("e")))
	noError(t, os.Remove(in("e/link")))
	expectStates(t, "directory renamed", listings(t, fs), "b=a d/ d/hard=a d/link>b", "b=a e/ e/hard=a e/link>b", "b=a e/ e/hard=a")
	noError(t, os.Rename(in("e/hard"), in("b"))) // two names of one file: nothing happens
	noError(t, unix.Renameat2(unix.AT_FDCWD, in("e"), unix.AT_FDCWD, in("b"), unix.RENAME_EXCHANGE))
	syncDir(t, fs.Path())
	syncDir(t, in("b"))
	expectStates(t, "exchanged", listings(t, fs), "b/ b/hard=a e=a")
}

// listings lists the trees of all images.
func listings(t *testing.T, f *FS) map[string]int {
	t.Helper()
	found := map[string]int{}
	eachImage(t, f, images, func(_ uint64, dir string) {
		var words []string
		err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, p)
			switch {
			case err != nil || p == dir:
			case e.IsDir():
				words = append(words, rel+"/")
			case e.Type() == fs.ModeSymlink:
				target, _ := os.Readlink(p)
				words = append(words, rel+">"+target)
			default:
				b, _ := os.ReadFile(p)
				words = append(words, rel+"="+string(b))
			}
			return err
		})
		noError(t, err)
		found[strings.Join(words, " ")]++
	})
	return found
}

// TestCut: from the cut on everything is refused, what was held too, and the
// mount is gone.
func TestCut(t *testing.T) {
	back, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	noError(t, os.WriteFile(filepath.Join(back, "a"), nil, 0o600))
	fs := Mount(t, back, Options{PowerCut: true})
	f, g := open(t, filepath.Join(fs.Path(), "a")), open(t, filepath.Join(fs.Path(), "b"))
	pwrite(t, f, "A", 0, 1, nil)
	noError(t, f.Sync())
	fs.Set(Rule{Calls: []Call{Fsync}, Hold: true})
	done := make(chan error, 1)
	go func() { done <- g.Sync() }()
	fs.WaitHeld(Fsync, 1)
	fs.Cut(1, image)
	if err := within(t, "the held sync", done); err == nil {
		t.Error("a sync that the power cut came before succeeded")
	}
	for kind, call := range calls(f) {
		if kind != Flush && kind != SyncDir && call() == nil { // a lost connection makes close succeed; the directory is the empty one below
			t.Errorf("%s succeeded after the power cut", kind)
		}
	}
	if mounted(t, fs.Path()) {
		t.Error("still mounted")
	}
	if left, err := os.ReadDir(fs.Path()); err != nil || len(left) > 0 {
		t.Errorf("the mount point holds %v, %v", left, err)
	}
	if got := contents(t, filepath.Join(image, "a")); got != "A" {
		t.Errorf("the image holds %q, want what was synced", got)
	}
}

// TestCutRefuses: between the cut and the end each kind of call fails.
func TestCutRefuses(t *testing.T) {
	back, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	f := Mount(t, back, Options{PowerCut: true})
	a := open(t, filepath.Join(f.Path(), "a"))
	f.call("Image", Request{Out: image, Cut: true}, new(bool)) // Cut, without Close
	for kind, call := range calls(a) {
		if err := call(); !errors.Is(err, eio) {
			t.Errorf("%s returned %v, want %v", kind, err, eio)
		}
	}
	in := func(name string) string { return filepath.Join(f.Path(), name) }
	for what, err := range map[string]error{
		"create": os.WriteFile(in("b"), nil, 0o600),
		"rename": os.Rename(in("a"), in("b")),
		"remove": os.Remove(in("a")),
		"mkdir":  os.Mkdir(in("d"), 0o700),
		"chmod":  os.Chmod(in("a"), 0o644),
	} {
		if !errors.Is(err, eio) {
			t.Errorf("%s returned %v, want %v", what, err, eio)
		}
	}
}

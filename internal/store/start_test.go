package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// crashed copies the files of a store that is running: what a kill would leave.
func crashed(t *testing.T, s *Store) (dir string) {
	t.Helper()
	dir = t.TempDir()
	to := filepath.Join(dir, testMachine.String())
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	// A copy is taken while the janitor may rename: one that no rename has
	// crossed counts.
	for {
		before := names(t, s.dir)
		err := copyFiles(s.dir, to, before)
		if err == nil && slices.Equal(before, names(t, s.dir)) {
			return dir
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, name := range names(t, to) {
			if err := os.Remove(filepath.Join(to, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func copyFiles(from, to string, names []string) error {
	for _, name := range names {
		in, err := os.Open(filepath.Join(from, name))
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(to, name))
		if err == nil {
			_, err = io.Copy(out, in)
			err = errors.Join(err, out.Close())
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestCleanFileIsGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, nil)
	cfg.Split = true
	for run := range 3 {
		s := open(t, cfg)
		appendNumbered(t, s, 10*run, 10*run+10)
		if _, err := s.Append(t.Context(), []entry.Entry{line(1000, "user")}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"system.journal", "user-1000.journal"}, verifyAll(t, dir)); diff != "" {
			t.Fatalf("files (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(numbered(0, 30), storedIn(t, dir, true, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user", "user", "user"}, storedIn(t, dir, true, "user")); diff != "" {
		t.Errorf("user's entries (-want +got):\n%s", diff)
	}
}

func TestUncleanFilesAreRepairedAndArchived(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	cfg.Split = true
	s := open(t, cfg)
	appendNumbered(t, s, 0, 100)
	ticket, err := s.Append(t.Context(), []entry.Entry{line(1000, "user")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), ticket, settle.Appended); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = crashed(t, s)
	var operator said
	cfg.Say = operator.say
	again := open(t, cfg)
	appendNumbered(t, again, 100, 110)
	if err := again.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := verifyAll(t, cfg.Dir)
	for i, prefix := range []string{"system.journal", "system@", "user-1000@"} {
		if len(files) != 3 || !strings.HasPrefix(files[i], prefix) || !strings.HasSuffix(files[i], ".journal") {
			t.Errorf("files %v, want one of %s", files, prefix)
		}
	}
	if diff := cmp.Diff(numbered(0, 110), storedIn(t, cfg.Dir, false, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user"}, storedIn(t, cfg.Dir, false, "user")); diff != "" {
		t.Errorf("user's entries (-want +got):\n%s", diff)
	}
	const reason = "system.journal was not closed: repaired, entries: 100, kept as system@"
	if !operator.has(reason) {
		t.Errorf("the operator was told %q", operator.lines)
	}
	if !slices.ContainsFunc(storedIn(t, cfg.Dir, true, "system"), func(m string) bool { return strings.HasPrefix(m, reason) }) {
		t.Error("no entry tells of the repair")
	}
	for _, name := range files {
		if h, err := again.header(name); err != nil || (h.State == journal.StateArchived) != strings.Contains(name, "@") {
			t.Errorf("%s is %s, %v", name, h.State, err)
		}
	}
}

// TestCrashBetweenTheNamesOfARotation finds the entries that were in a prepared
// file which had not got its name yet, and an archive that was not finished.
func TestCrashBetweenTheNamesOfARotation(t *testing.T) {
	fsys := &hookfs.FS{}
	cfg := testConfig(t.TempDir(), fsys)
	s := open(t, cfg)
	appendNumbered(t, s, 0, 50)
	hold := make(chan struct{})
	fsys.Set(func(op, name string) error {
		if op == "rename" && strings.Contains(name, sparePrefix) {
			<-hold
		}
		if op == "sync" && !IsPrepared(filepath.Base(name)) {
			<-hold
		}
		return nil
	})
	if err := s.await(t.Context(), func() error { return s.system.tryRotate("asked for") }); err != nil {
		t.Fatal(err)
	}
	appendNumbered(t, s, 50, 60)
	cfg.Dir = crashed(t, s)
	fsys.Set(nil)
	close(hold)
	cfg.FS = nil
	again := open(t, cfg)
	appendNumbered(t, again, 60, 70)
	if err := again.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, cfg.Dir)
	if diff := cmp.Diff(numbered(0, 70), storedIn(t, cfg.Dir, false, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeGoneOnWithIsKept(t *testing.T) {
	good := func(t *testing.T, path string, machine entry.ID) {
		t.Helper()
		w, err := journal.Create(path, journal.Options{MachineID: machine, MaxSize: smallFile})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.TryAppend([]entry.Entry{line(0, "old")}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		make   func(t *testing.T, path string)
		reason string
	}{
		{"another machine's", func(t *testing.T, path string) { good(t, path, entry.ID{9}) }, "another machine"},
		{"no journal", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("hello ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a journal file"},
		{"empty", func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "truncated"},
		{"another program's, not closed", func(t *testing.T, path string) {
			good(t, path, testMachine)
			if err := syscall.Removexattr(path, "user.tidemark"); err != nil {
				t.Skip("no extended attributes here: ", err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{byte(journal.StateOnline)}, 16); err != nil {
				t.Fatal(err)
			}
		}, "another program's: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(t.TempDir(), nil)
			path := filepath.Join(cfg.Dir, testMachine.String(), "system.journal")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			tt.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var operator said
			cfg.Say = operator.say
			s := open(t, cfg)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			kept, err := filepath.Glob(filepath.Join(s.dir, "system@*.journal~"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			after, err := os.ReadFile(kept[0])
			if err != nil || string(after) != string(before) {
				t.Errorf("the file kept is not the one there was (%v)", err)
			}
			if !operator.has("cannot be gone on with, kept as system@") || !operator.has(tt.reason) {
				t.Errorf("the operator was told %q, want why: %s", operator.lines, tt.reason)
			}
			if own := storedIn(t, cfg.Dir, true, "system.journal"); len(own) != 1 || !strings.Contains(own[0], tt.reason) {
				t.Errorf("entries %q", own)
			}
		})
	}
}

func TestArchivedFileUnderACurrentName(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	path := filepath.Join(cfg.Dir, testMachine.String(), "system.journal")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := journal.Create(path, journal.Options{MachineID: testMachine, MaxSize: smallFile})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.TryAppend([]entry.Entry{line(0, "message 0")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, cfg)
	appendNumbered(t, s, 1, 3)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, cfg.Dir)
	if diff := cmp.Diff(numbered(0, 3), storedIn(t, cfg.Dir, true, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	checkSequence(t, cfg.Dir)
}

func TestSymbolicLinksAreRefused(t *testing.T) {
	for _, name := range []string{"system.journal", "system@00000000000000000000000000000001-0000000000000001-0000000000000001.journal", ".next-0"} {
		cfg := testConfig(t.TempDir(), nil)
		dir := filepath.Join(cfg.Dir, testMachine.String())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), name+": is a symbolic link") {
			t.Errorf("Open with a link %s = %v", name, err)
		}
	}
	cfg := testConfig(t.TempDir(), nil)
	if err := os.Symlink(t.TempDir(), filepath.Join(cfg.Dir, testMachine.String())); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Open with a link for the directory = %v, want ENOTDIR", err)
	}
}

func TestOneStorePerDirectory(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	s := open(t, cfg)
	var inUse *InUseError
	if _, err := Open(cfg); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("second Open = %v, want InUseError with pid %d", err, os.Getpid())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, cfg)
}

func TestFilesAreForTheirReaders(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, nil)
	cfg.Split = true
	s := open(t, cfg)
	if _, err := s.Append(t.Context(), []entry.Entry{line(1000, "a")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system.journal", "user-1000.journal"} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o640 {
			t.Errorf("%s has mode %o, want 640", name, info.Mode().Perm())
		}
		if gid, ok := readerGroup(); ok && os.Geteuid() == 0 && info.Sys().(*syscall.Stat_t).Gid != uint32(gid) {
			t.Errorf("%s does not belong to the group %d", name, gid)
		}
	}
	b := make([]byte, 256)
	n, err := syscall.Getxattr(filepath.Join(s.dir, "user-1000.journal"), "system.posix_acl_access", b)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("the file system of the temporary directory has no ACLs")
	}
	if err != nil || string(b[:n]) != string(acl(1000)) {
		t.Errorf("ACL % x, %v; want % x", b[:n], err, acl(1000))
	}
	if _, err := syscall.Getxattr(filepath.Join(s.dir, "system.journal"), "system.posix_acl_access", b); !errors.Is(err, syscall.ENODATA) {
		t.Errorf("system.journal has an ACL: %v", err)
	}
}

// TestFullDiskOnlyDelaysTheReader: a user whose file could not be opened to it, since
// the disk was full, reads it as soon as there is room.
func TestFullDiskOnlyDelaysTheReader(t *testing.T) {
	fsys := &hookfs.FS{}
	full := true
	var mu sync.Mutex
	fsys.Set(func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "setxattr" && full {
			return syscall.ENOSPC
		}
		return nil
	})
	cfg := testConfig(t.TempDir(), fsys)
	cfg.Split = true
	s, _, f := appended(t, cfg, 1000)
	if !f.unshared.Load() {
		t.Fatal("the file is taken to be open to its user")
	}
	mu.Lock()
	full = false
	mu.Unlock()
	s.janitor.Ring()
	for changed := s.progress.C(); f.unshared.Load(); changed = s.progress.C() {
		<-changed
	}
	b := make([]byte, 256)
	n, err := syscall.Getxattr(f.w.Path(), "system.posix_acl_access", b)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("the file system of the temporary directory has no ACLs")
	}
	if err != nil || string(b[:n]) != string(acl(1000)) {
		t.Errorf("ACL % x, %v; want % x", b[:n], err, acl(1000))
	}
}

// A prepared file that a kill left without a header holds nothing: it is removed
// at the next start, not kept as a damaged journal.
func TestPreparedFileWithoutHeaderIsRemoved(t *testing.T) {
	dir := t.TempDir()
	machine := filepath.Join(dir, testMachine.String())
	if err := os.Mkdir(machine, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 100} {
		if err := os.WriteFile(filepath.Join(machine, nextPrefix+"00000000000000"+strconv.Itoa(size)), make([]byte, size), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, testConfig(dir, nil))
	for _, name := range names(t, s.dir) {
		if strings.HasSuffix(name, "~") || strings.HasPrefix(name, nextPrefix+"00000000000000") {
			t.Errorf("%s is there", name)
		}
	}
}

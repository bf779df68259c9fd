package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	testMachine = entry.ID{1, 2, 3}
	testBoot    = entry.ID{4, 5, 6}
)

// smallFile is journald's smallest file: 1,536 distinct fields fill it.
const smallFile = 512 << 10

// hookFS is the machine's file system; hook is asked before each call that
// changes something, and its error is the call's.
type hookFS struct {
	vfs.OS
	mu   sync.Mutex
	hook func(op, name string) error
}

func (h *hookFS) set(hook func(op, name string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

func (h *hookFS) ask(op, name string) error {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, name)
}

func (h *hookFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := h.ask("create", name); err != nil {
			return nil, err
		}
	}
	f, err := h.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &hookFile{f, h}, nil
}

func (h *hookFS) Rename(from, to string) error {
	if err := h.ask("rename", from); err != nil {
		return err
	}
	return h.OS.Rename(from, to)
}

func (h *hookFS) SyncDir(name string) error {
	if err := h.ask("syncdir", name); err != nil {
		return err
	}
	return h.OS.SyncDir(name)
}

type hookFile struct {
	vfs.File
	fs *hookFS
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.ask("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *hookFile) Allocate(off, n int64) error {
	if err := f.fs.ask("allocate", f.Name()); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

func (f *hookFile) Datasync() error {
	if err := f.fs.ask("datasync", f.Name()); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *hookFile) Sync() error {
	if err := f.fs.ask("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// said collects what is said to the operator.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *said) has(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(l string) bool { return strings.Contains(l, part) })
}

// testConfig is that of a store in dir with small files.
func testConfig(dir string, fsys vfs.FS) Config {
	return Config{
		FS: fsys, Dir: dir, MachineID: testMachine, BootID: testBoot,
		Settings: Settings{Limits: Limits{MaxFileSize: smallFile, KeepFree: 1, MaxUse: 1 << 30}},
	}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// line is an entry with a field of its own.
func line(owner uint32, text string) entry.Entry {
	return entry.Entry{Owner: owner, Fields: []entry.Field{entry.Field("MESSAGE=" + text), entry.Field("_UID=" + fmt.Sprint(owner))}}
}

// stored returns the messages of the files whose names begin with one of
// prefixes, in their order; tidemark's own entries only with own. Each file must
// verify.
func storedIn(t *testing.T, dir string, own bool, prefixes ...string) []string {
	t.Helper()
	dir = filepath.Join(dir, testMachine.String())
	var paths []string
	for _, name := range names(t, dir) {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				paths = append(paths, filepath.Join(dir, name))
			}
		}
	}
	j, err := journal.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if skipped := j.Skipped(); len(skipped) > 0 {
		t.Fatalf("not readable: %v", skipped)
	}
	var out []string
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		m, _ := e.Get("MESSAGE")
		if transport, _ := e.Get("_TRANSPORT"); own || string(transport) != "driver" {
			out = append(out, string(m))
		}
	}
}

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// verifyAll checks every file of the store and returns their names.
func verifyAll(t *testing.T, dir string) []string {
	t.Helper()
	dir = filepath.Join(dir, testMachine.String())
	all := names(t, dir)
	for _, name := range all {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		report, err := journal.Verify(t.Context(), f, info.Size(), name, journal.VerifyOptions{})
		f.Close()
		if err != nil || !report.OK() {
			t.Errorf("verify %s: %v %v", name, err, report.Problems)
		}
	}
	return all
}

// numbered returns the messages from..to-1.
func numbered(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("message %d", i))
	}
	return out
}

// appendNumbered appends those messages, some at a time, and waits for them.
func appendNumbered(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var all journal.Ticket
	for i := from; i < to; i += 7 {
		var batch []entry.Entry
		for k := i; k < min(i+7, to); k++ {
			batch = append(batch, line(0, fmt.Sprintf("message %d", k)))
		}
		ticket, err := s.Append(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		all.Join(ticket)
	}
	if err := s.Wait(t.Context(), all, settle.Synced); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesGoToTheirOwnersFile(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, nil)
	cfg.Split = true
	s := open(t, cfg)
	ticket, err := s.Append(t.Context(), []entry.Entry{
		line(0, "a"), line(999, "b"), line(1000, "c"), line(1000, "d"), line(61184, "e"), line(65534, "f"),
		line(1001, "g"), line(1000, "h"), line(65519, "i"), line(65520, "j"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, name := range verifyAll(t, dir) {
		got[name] = storedIn(t, dir, false, name)
	}
	want := map[string][]string{
		"system.journal":     {"a", "b", "e", "f", "i"},
		"user-1000.journal":  {"c", "d", "h"},
		"user-1001.journal":  {"g"},
		"user-65520.journal": {"j"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestWithoutSplitThereIsOneFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testConfig(dir, nil))
	if _, err := s.Append(t.Context(), []entry.Entry{line(1000, "a"), line(0, "b")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"system.journal"}, verifyAll(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, storedIn(t, dir, false, "system.journal")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestRotationKeepsEverythingInOneSequence(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testConfig(dir, nil))
	const n = 5000
	appendNumbered(t, s, 0, n)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := verifyAll(t, dir)
	if len(files) < 3 {
		t.Errorf("%d files, want several", len(files))
	}
	if diff := cmp.Diff(numbered(0, n), storedIn(t, dir, false, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	checkSequence(t, dir)
	if own := storedIn(t, dir, true, "system"); !slices.ContainsFunc(own, func(m string) bool {
		return strings.HasPrefix(m, "system.journal rotated to system@") && strings.HasSuffix(m, ": data hash table full")
	}) {
		t.Error("no entry tells the reason of the rotation")
	}
}

// checkSequence looks that the sequence numbers of the system's files run on
// without gap or repetition.
func checkSequence(t *testing.T, dir string) {
	t.Helper()
	j, err := journal.OpenDir(filepath.Join(dir, testMachine.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	last, id := uint64(0), entry.ID{}
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seqnum != last+1 || (last > 0 && e.SeqnumID != id) {
			t.Fatalf("seqnum %d of %s follows %d of %s", e.Seqnum, e.SeqnumID, last, id)
		}
		last, id = e.Seqnum, e.SeqnumID
	}
}

// TestAppendsTouchNoDirectory holds back every call that creates, renames,
// allocates or syncs: appends go on into the prepared file, and only a second
// rotation has to wait.
func TestAppendsTouchNoDirectory(t *testing.T) {
	dir := t.TempDir()
	fsys := &hookFS{}
	s := open(t, testConfig(dir, fsys))
	if err := s.await(t.Context(), func() error {
		if s.spare.Load() == nil {
			return errNoFile
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	fsys.set(func(op, _ string) error {
		if op != "write" {
			<-gate
		}
		return nil
	})
	n, rotations := 0, 0
	for system := s.system.f; ; n++ {
		_, err := s.TryAppend([]entry.Entry{line(0, fmt.Sprintf("message %d", n))})
		if errors.Is(err, journal.ErrBufferFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.system.f != system {
			system = s.system.f
			rotations++
		}
	}
	if rotations != 1 {
		t.Errorf("%d rotations while the disk is held, want 1", rotations)
	}
	appended := make(chan error)
	go func() {
		_, err := s.Append(context.Background(), []entry.Entry{line(0, fmt.Sprintf("message %d", n))})
		appended <- err
	}()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Append(ctx, []entry.Entry{line(0, "given up")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with an ended context = %v", err)
	}
	fsys.set(nil)
	close(gate)
	if err := <-appended; err != nil {
		t.Errorf("Append that waited for the next file = %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, dir)
	if diff := cmp.Diff(numbered(0, n+1), storedIn(t, dir, false, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestRotateAndSynchronize(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir, nil)
	cfg.Split = true
	s := open(t, cfg)
	bell := s.Subscribe()
	defer s.Unsubscribe(bell)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Status().Counts; got[4].N != 0 {
		t.Errorf("%d rotations of empty files", got[4].N)
	}
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a"), line(1000, "b")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-bell.C()
	if st := s.Status(); st.Unsynced != 0 || st.Buffered != 0 || len(st.Files) != 2 {
		t.Errorf("after Synchronize: %d unsynced, %d buffered, %d files", st.Unsynced, st.Buffered, len(st.Files))
	}
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := names(t, s.dir)
	for _, prefix := range []string{"system@", "system.journal", "user-1000@"} {
		if !slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			t.Errorf("no %s after Rotate: %v", prefix, got)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, dir)
}

func TestClosedStore(t *testing.T) {
	s := open(t, testConfig(t.TempDir(), nil))
	ticket, err := s.Append(t.Context(), []entry.Entry{line(0, "a")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), ticket, settle.Synced); err != nil {
		t.Errorf("Wait for what Close has synced = %v", err)
	}
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "b")}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append = %v, want ErrClosed", err)
	}
	if _, err := s.TryAppend([]entry.Entry{line(0, "b")}); !errors.Is(err, ErrClosed) {
		t.Errorf("TryAppend = %v, want ErrClosed", err)
	}
	if err := s.Rotate(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Rotate = %v, want ErrClosed", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

func TestUnstorableEntryIsLeftOutAndTold(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testConfig(dir, nil))
	bad := entry.Entry{Fields: []entry.Field{entry.Field("no name")}}
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a"), bad, line(0, "b")}); err != nil {
		t.Errorf("Append = %v", err)
	}
	var refused *journal.EntryError
	if _, err := s.TryAppend([]entry.Entry{bad}); !errors.As(err, &refused) {
		t.Errorf("TryAppend = %v, want an EntryError", err)
	}
	if n := s.Status().Counts[0]; n.Reason != "unstorable" || n.N != 2 {
		t.Errorf("count %+v, want 2 unstorable", n)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := storedIn(t, dir, true, "system")
	if len(got) != 3 || got[0] != "a" || got[1] != "b" || !strings.HasPrefix(got[2], "an entry was left out: ") {
		t.Errorf("entries %q", got)
	}
}

func TestSettingsHoldForNewFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testConfig(dir, nil))
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "a")}); err != nil {
		t.Fatal(err)
	}
	set := s.cfg.Settings
	set.Limits.MaxFileSize, set.Buffer = 2*smallFile, 1000
	if err := s.Configure(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	st := s.Status()
	current := slices.IndexFunc(st.Files, func(f journal.Stats) bool { return filepath.Base(f.Path) == "system.journal" })
	if current < 0 || st.Files[current].MaxSize != 2*smallFile || st.Buffer != 1000 {
		t.Errorf("status after Configure: %+v", st)
	}
}

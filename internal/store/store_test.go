package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	testMachine = entry.ID{1, 2, 3}
	testBoot    = entry.ID{4, 5, 6}
)

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
	fsys := &hookfs.FS{}
	s := open(t, testConfig(dir, fsys))
	nextFile(t, s)
	gate := make(chan struct{})
	fsys.Set(func(op, _ string) error {
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
	fsys.Set(nil)
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

// TestNextFileIsSeenWhenTheOneBeforeIsWhole holds back the writes of a file that
// is rotated out: its successor must not have its name until they are done, or
// a reader that goes by the numbers would leave them out.
func TestNextFileIsSeenWhenTheOneBeforeIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		synctest.Wait()
		var old string
		fsys.Set(func(_, name string) error { old = name; return nil })
		appendNumbered(t, s, 0, 1)
		synctest.Wait()
		release := make(chan struct{})
		fsys.Set(func(op, name string) error {
			if op == "write" && name == old {
				<-release
			}
			return nil
		})
		for _, text := range numbered(1, 10) {
			if _, err := s.Append(t.Context(), []entry.Entry{line(0, text)}); err != nil {
				t.Fatal(err)
			}
		}
		rotated := make(chan error)
		go func() { rotated <- s.Rotate(t.Context()) }()
		synctest.Wait()
		for _, text := range numbered(10, 20) {
			if _, err := s.Append(t.Context(), []entry.Entry{line(0, text)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		archived := func(name string) bool { return strings.HasPrefix(name, "system@") }
		if got := names(t, s.dir); slices.ContainsFunc(got, archived) {
			t.Errorf("files %v before the old one is written", got)
		}
		close(release)
		if err := <-rotated; err != nil {
			t.Fatal(err)
		}
		if got := names(t, s.dir); !slices.Contains(got, "system.journal") || !slices.ContainsFunc(got, archived) {
			t.Errorf("files %v after Rotate", got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkSequence(t, dir)
		if diff := cmp.Diff(numbered(0, 20), storedIn(t, dir, false, "system")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestUsersFileIsBegunOnce lets the janitor look for a file that somebody waited
// for, while the user's next entry begins a new one: that one must stay the
// current one.
func TestUsersFileIsBegunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := testConfig(dir, &hookfs.FS{})
		cfg.Split = true
		s := open(t, cfg)
		synctest.Wait()
		release := make(chan struct{})
		cfg.FS.(*hookfs.FS).Set(func(op, name string) error {
			if op == "open" && filepath.Base(name) == "user-1000.journal" {
				<-release
			}
			return nil
		})
		sl := s.slotOf(1000)
		sl.mu.Lock()
		sl.wanted = true // asked for twice, and found once
		sl.mu.Unlock()
		s.janitor.Ring()
		synctest.Wait()
		for i, text := range []string{"a", "b"} {
			if _, err := s.Append(t.Context(), []entry.Entry{line(1000, text)}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				close(release)
			}
			synctest.Wait()
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b"}, storedIn(t, dir, false, "user-1000")); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
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
	if _, err := s.Append(t.Context(), []entry.Entry{line(0, "b")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var why []string
	for _, m := range storedIn(t, dir, true, "system") {
		if _, reason, ok := strings.Cut(m, ".journal: "); ok && strings.Contains(m, " rotated to ") {
			why = append(why, reason)
		}
	}
	if diff := cmp.Diff([]string{"the configuration changed", "asked for"}, why); diff != "" {
		t.Errorf("reasons of the rotations (-want +got):\n%s", diff)
	}
}

// TestConfigureTakesTurns: a call that fails restores the settings from before it,
// and not over those of another call.
func TestConfigureTakesTurns(t *testing.T) {
	s := open(t, testConfig(t.TempDir(), nil))
	s.configuring <- struct{}{} // another call is at it
	set := s.cfg.Settings
	set.Buffer = 1000
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Configure(ctx, set); !errors.Is(err, context.Canceled) {
		t.Errorf("Configure beside another = %v, want it to wait", err)
	}
	if n := s.Status().Buffer; n == 1000 {
		t.Error("it has changed the settings all the same")
	}
	<-s.configuring
	if err := s.Configure(t.Context(), set); err != nil || s.Status().Buffer != 1000 {
		t.Errorf("Configure = %v, buffer %d", err, s.Status().Buffer)
	}
}

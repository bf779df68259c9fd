package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/hookfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// syncFailer fails one sync of data, or all of a time, and notes which files were
// synced after that.
type syncFailer struct {
	fsys *hookfs.FS
	done bool // the sync that fails is done all the same

	mu     sync.Mutex
	fail   int             // how many are to fail yet
	failed map[string]bool // files a sync of which has failed, by the name they were opened with
	young  map[string]bool // files made since: copies, and prepared ones
	after  []string        // of these, those that were synced again
	more   func(op, name string) error
}

func newSyncFailer(fsys *hookfs.FS, done bool) *syncFailer {
	x := &syncFailer{fsys: fsys, done: done, failed: map[string]bool{}, young: map[string]bool{}}
	fsys.Set(x.hook)
	return x
}

func (x *syncFailer) hook(op, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.young[name] = x.young[name] || op == "create" && len(x.failed) > 0
	if x.more != nil {
		if err := x.more(op, name); err != nil {
			return err
		}
	}
	if op != "datasync" && op != "sync" {
		return nil
	}
	if x.failed[name] {
		x.after = append(x.after, name)
	}
	if op == "sync" || x.fail == 0 {
		return nil
	}
	x.fail--
	x.failed[name] = true
	if x.done {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return syscall.EIO
}

func (x *syncFailer) set(fail int, more func(op, name string) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fail, x.more = fail, more
}

// rest lets everything happen that is due within d.
func rest(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// durable lists the messages in files that readers see and that were not set
// aside.
func durable(t *testing.T, dir string) []string {
	t.Helper()
	var prefixes []string
	for _, name := range names(t, filepath.Join(dir, testMachine.String())) {
		if !strings.HasSuffix(name, "~") && !strings.HasPrefix(name, ".") {
			prefixes = append(prefixes, name)
		}
	}
	return storedIn(t, dir, false, prefixes...)
}

func count(s *Store, reason string) uint64 {
	for _, c := range s.Status().Counts {
		if c.Reason == reason {
			return c.N
		}
	}
	return 0
}

// unlucky appends messages from..to-1 and waits for them to be synced, which
// fails.
func unlucky(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var all journal.Ticket
	for i := from; i < to; i++ {
		ticket, err := s.Append(t.Context(), []entry.Entry{line(0, fmt.Sprintf("message %d", i))})
		if err != nil {
			t.Fatal(err)
		}
		all.Join(ticket)
	}
	if err := s.Wait(t.Context(), all, settle.Synced); !errors.Is(err, journal.ErrSync) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("Wait = %v, want ErrSync", err)
	}
}

// TestFailedSyncIsReadBack fails one sync. What it should have covered is in
// another file soon, synced, under the same numbers; the file itself is not synced
// again; and all goes on in the next file meanwhile.
func TestFailedSyncIsReadBack(t *testing.T) {
	for name, done := range map[string]bool{"not done": false, "done but failed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				fsys := &hookfs.FS{}
				cfg := testConfig(dir, fsys)
				var operator said
				cfg.Say = operator.say
				s := open(t, cfg)
				appendNumbered(t, s, 0, 100)
				synctest.Wait()
				x := newSyncFailer(fsys, done)
				x.set(1, nil)
				unlucky(t, s, 100, 150)
				rest(time.Second)
				if !operator.has("50 of the 50 entries") || count(s, "read_back") != 50 || count(s, "not_read_back") != 0 {
					t.Errorf("%d read back, %d not; said %q", count(s, "read_back"), count(s, "not_read_back"), operator.lines)
				}
				appendNumbered(t, s, 150, 200)
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if len(x.after) > 0 {
					t.Errorf("files synced after a sync of them had failed: %v", x.after)
				}
				checkReadBack(t, dir, numbered(100, 200), 200)
			})
		})
	}
}

// TestSyncsThatFailNowAndThen fails one sync in a while. Each time the next file
// takes over at once, or soon after the last time.
func TestSyncsThatFailNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		synctest.Wait()
		x := newSyncFailer(fsys, false)
		n := 0
		var safe []string // in other files than those that are set aside
		for _, pause := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 10 * time.Minute, 0, time.Second} {
			x.set(1, nil)
			unlucky(t, s, n, n+10)
			safe = append(safe, numbered(n, n+10)...)
			rest(min(pause, time.Minute) + time.Millisecond)
			appendNumbered(t, s, n+10, n+20)
			rest(pause - min(pause, time.Minute))
			n += 20
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkReadBack(t, dir, append(safe, numbered(n-10, n)...), n)
	})
}

// checkReadBack checks that all messages up to n are there, once and in order, that
// that synced are those in files that were not set aside, which verify, and what
// journalctl shows.
func checkReadBack(t *testing.T, dir string, synced []string, n int) {
	t.Helper()
	if diff := cmp.Diff(numbered(0, n), storedIn(t, dir, false, "system")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(synced, durable(t, dir)); diff != "" {
		t.Errorf("entries that are synced (-want +got):\n%s", diff)
	}
	files := filepath.Join(dir, testMachine.String())
	for _, name := range names(t, files) {
		if !strings.HasSuffix(name, "~") {
			verifyOne(t, filepath.Join(files, name))
		}
	}
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		return // compared where there is one
	}
	out, err := exec.Command(journalctl, "-q", "-o", "cat", "-D", files, "_UID=0").Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbered(0, n), strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("journalctl (-want +got):\n%s", diff)
	}
	for _, name := range names(t, files) {
		if strings.HasSuffix(name, "~") {
			continue
		}
		if out, err := exec.Command(journalctl, "--verify", "--file", filepath.Join(files, name)).CombinedOutput(); err != nil {
			t.Errorf("journalctl --verify %s: %v\n%s", name, err, out)
		}
	}
}

// TestReadBackHoldsUpNothing holds the sync of the copy: appends, their syncs and
// Synchronize go on.
func TestReadBackHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		s := open(t, testConfig(dir, fsys))
		appendNumbered(t, s, 0, 10)
		synctest.Wait()
		x := newSyncFailer(fsys, false)
		held, release := make(chan struct{}), make(chan struct{})
		x.set(1, nil)
		fsys.Set(func(op, name string) error {
			err := x.hook(op, name)
			x.mu.Lock()
			hold := op == "datasync" && x.young[name] // no prepared file is synced like that
			x.mu.Unlock()
			if hold {
				close(held)
				<-release
			}
			return err
		})
		unlucky(t, s, 10, 20)
		<-held
		appendNumbered(t, s, 20, 30)
		if diff := cmp.Diff(numbered(20, 30), durable(t, dir)); diff != "" {
			t.Errorf("entries that are synced (-want +got):\n%s", diff)
		}
		if err := s.Synchronize(t.Context()); !errors.Is(err, journal.ErrSync) {
			t.Errorf("first Synchronize = %v, want ErrSync", err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Errorf("second Synchronize = %v", err)
		}
		close(release)
		rest(time.Second)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkReadBack(t, dir, numbered(10, 30), 30)
	})
}

// TestReadBackIsTriedAgain has the copy fail in each way for a while: its own sync
// fails, the disk is full, it cannot be written. It is tried again, later each
// time, nothing is stored twice, and no half of a copy stays.
func TestReadBackIsTriedAgain(t *testing.T) {
	for op, err := range map[string]error{
		"sync": syscall.EIO, "datasync": syscall.EIO, "create": syscall.ENOSPC, "allocate": syscall.ENOSPC, "rename": syscall.EIO, "open": syscall.EMFILE,
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				fsys := &hookfs.FS{}
				s := open(t, testConfig(dir, fsys))
				appendNumbered(t, s, 0, 10)
				rest(time.Second)
				x := newSyncFailer(fsys, false)
				tries := 0
				x.set(1, func(did, name string) error {
					switch {
					case len(x.failed) == 0:
						return nil
					case did == "open" && strings.HasSuffix(name, "~"):
						tries++
						if op != "open" {
							return nil
						}
					case did != op || op == "open" || !x.young[name]:
						return nil
					}
					return err
				})
				unlucky(t, s, 10, 20)
				rest(time.Minute + 30*time.Second)
				// At 0, 1, 3, 7, 15, 31, 63 s; or, as each attempt writes all of it, at 0 and 60.
				want := 7
				if op == "sync" || op == "datasync" {
					want = 2
				}
				if tries != want || count(s, "read_back") != 0 {
					t.Errorf("tried %d times, want %d; %d entries read back", tries, want, count(s, "read_back"))
				}
				x.set(0, nil)
				rest(3 * time.Minute)
				if n := count(s, "read_back"); n != 10 {
					t.Errorf("%d entries read back, want 10", n)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				checkReadBack(t, dir, numbered(10, 20), 20)
			})
		})
	}
}

// TestWhatCannotBeReadBackIsCounted damages two entries of the file that was set
// aside before it is read back.
func TestWhatCannotBeReadBackIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &hookfs.FS{}
		cfg := testConfig(dir, fsys)
		var operator said
		cfg.Say = operator.say
		s := open(t, cfg)
		appendNumbered(t, s, 0, 10)
		rest(time.Second)
		x := newSyncFailer(fsys, false)
		x.set(1, func(op, name string) error {
			if op == "open" && strings.HasSuffix(name, "~") {
				return syscall.EMFILE
			}
			return nil
		})
		unlucky(t, s, 10, 20)
		rest(time.Second / 2)
		for _, name := range names(t, s.dir) {
			if !strings.HasSuffix(name, "~") {
				continue
			}
			b, err := os.ReadFile(filepath.Join(s.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"message 12", "message 19"} {
				b[strings.LastIndex(string(b), n)+8]++
			}
			if err := os.WriteFile(filepath.Join(s.dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		x.set(0, nil)
		rest(time.Minute)
		if a, b := count(s, "read_back"), count(s, "not_read_back"); a != 8 || b != 2 || !operator.has("2 could not be read back") {
			t.Errorf("%d read back, %d not, said %q", a, b, operator.lines)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(numbered(10, 20), func(m string) bool { return m == "message 12" || m == "message 19" })
		if diff := cmp.Diff(want, durable(t, dir)); diff != "" {
			t.Errorf("entries that are synced (-want +got):\n%s", diff)
		}
		if own := strings.Join(storedIn(t, dir, true, "system.journal"), "\n"); !strings.Contains(own, "2 could not be read back") {
			t.Errorf("no entry tells of the loss:\n%s", own)
		}
	})
}

// TestReadBackWhenClosing fails the sync of a file as it is closed: with the store,
// because it was rotated, or because it is idle. It is set aside, and what it has is
// stored again, before the store is closed or soon.
func TestReadBackWhenClosing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Store){
		"closed":  func(*testing.T, *Store) {},
		"rotated": func(t *testing.T, s *Store) { _ = s.Rotate(t.Context()); rest(time.Minute) },
		"idle":    func(*testing.T, *Store) { rest(idleClose + time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				fsys := &hookfs.FS{}
				cfg := testConfig(dir, fsys)
				cfg.Split = true
				s := open(t, cfg)
				appendTo(t, s, 1000, settle.Synced, 0, 10)
				rest(time.Second)
				x := newSyncFailer(fsys, false)
				appendTo(t, s, 1000, settle.Appended, 10, 20)
				x.set(1, nil)
				end(t, s)
				if err := s.Close(t.Context()); (err != nil) != (name == "closed") {
					t.Errorf("Close = %v", err)
				}
				if diff := cmp.Diff(numbered(10, 20), durable(t, dir)); diff != "" || len(x.after) > 0 {
					t.Errorf("synced again: %v; entries that are synced (-want +got):\n%s", x.after, diff)
				}
				s = open(t, cfg) // goes on behind all of them
				appendTo(t, s, 1000, settle.Synced, 20, 30)
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(numbered(0, 30), storedIn(t, dir, false, "user-1000")); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// appendTo appends messages from..to-1 of a user and waits for them.
func appendTo(t *testing.T, s *Store, uid uint32, level settle.Level, from, to int) {
	t.Helper()
	var all journal.Ticket
	for _, m := range numbered(from, to) {
		ticket, err := s.Append(t.Context(), []entry.Entry{line(uid, m)})
		if err != nil {
			t.Fatal(err)
		}
		all.Join(ticket)
	}
	if err := s.Wait(t.Context(), all, level); err != nil {
		t.Fatal(err)
	}
}

func TestStoredUpTo(t *testing.T) {
	a, b := entry.ID{1}, entry.ID{2}
	file := func(id entry.ID, head, tail uint64) journal.Header {
		return journal.Header{SeqnumID: id, HeadEntrySeqnum: head, TailEntrySeqnum: tail}
	}
	for _, tt := range []struct {
		name  string
		files []journal.Header
		want  uint64
	}{
		{"none", nil, 10},
		{"the part", []journal.Header{file(a, 11, 15)}, 15},
		{"parts, in any order", []journal.Header{file(a, 16, 20), file(a, 11, 15)}, 20},
		{"a gap", []journal.Header{file(a, 12, 20)}, 10},
		{"what was before", []journal.Header{file(a, 1, 10)}, 10},
		{"more than the part", []journal.Header{file(a, 5, 30)}, 30},
		{"another sequence", []journal.Header{file(b, 11, 15)}, 10},
	} {
		if got := storedUpTo(tt.files, a, 10); got != tt.want {
			t.Errorf("%s: stored up to %d, want %d", tt.name, got, tt.want)
		}
	}
}

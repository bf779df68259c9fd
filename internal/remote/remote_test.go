package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is this machine's id in tests.
var machine = entry.ID{0xaa}

// boot1 is a peer's boot.
var boot1 = entry.ID{1}

// smallFile is journald's smallest file: 1,536 distinct fields fill it.
const smallFile = 512 << 10

// rig is a directory with the files of a test.
type rig struct {
	*Files
	t      *testing.T
	dir    string
	cfg    Config
	mu     sync.Mutex
	events []string
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.cfg = Config{Dir: r.dir, MachineID: machine, Settings: func() Settings { return Settings{MaxSize: smallFile} }}
	r.cfg.Event = func(priority int, text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, fmt.Sprint(priority, " ", text))
	}
	for _, c := range change {
		c(&r.cfg)
	}
	r.begin()
	return r
}

// begin opens the files; the test's end closes them.
func (r *rig) begin() {
	r.t.Helper()
	f, err := Open(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Files = f
	r.t.Cleanup(func() { f.Close() }) // the test looks at its own
}

// say appends messages of a peer at increasing times from mono on, and wants all to
// be taken and appended.
func (r *rig) say(name string, mono uint64, messages ...string) {
	r.t.Helper()
	t, n, err := r.Append(r.t.Context(), name, entries(boot1, mono, messages...))
	if err != nil || n != len(messages) {
		r.t.Fatalf("Append = %d, %v", n, err)
	}
	if err := t.Wait(r.t.Context(), settle.Appended); err != nil {
		r.t.Fatal(err)
	}
}

// entries of a boot, 10 µs apart from mono on.
func entries(boot entry.ID, mono uint64, messages ...string) (all []entry.Entry) {
	for i, m := range messages {
		at := mono + 10*uint64(i)
		all = append(all, entry.Entry{
			Realtime: 1_700_000_000_000_000 + at, Monotonic: at, BootID: boot,
			Fields: []entry.Field{entry.Field("MESSAGE=" + m), entry.Field("_BOOT_ID=" + boot.String())},
		})
	}
	return all
}

// names lists the directory; what differs from run to run is cut out of archives.
func (r *rig) names() (names []string) {
	r.t.Helper()
	list, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		name := e.Name()
		if base, rest, ok := strings.Cut(name, "@"); ok {
			name = base + "@" + filepath.Ext(rest)
			if parts := strings.Split(rest, "-"); len(parts) == 3 {
				name = base + "@" + parts[1] + ".journal"
			}
		}
		names = append(names, name)
	}
	return names
}

// wantNames compares the directory.
func (r *rig) wantNames(want ...string) {
	r.t.Helper()
	if d := cmp.Diff(want, r.names()); d != "" {
		r.t.Errorf("files (-want +got):\n%s", d)
	}
}

// wantStored closes the files, verifies each, and compares what they hold, as
// NUMBER MESSAGE@MONOTONIC in the order of numbers of each peer.
func (r *rig) wantStored(want map[string][]string) {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.journal*"))
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[string][]string{}
	for _, p := range paths {
		verify(r.t, p)
		j, err := journal.Open([]string{p})
		if err != nil {
			r.t.Fatal(err)
		}
		peer, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "remote-"), ".journal"), "@")
		for e, err := range j.All() {
			if err != nil {
				r.t.Fatal(err)
			}
			m, _ := e.Get("MESSAGE")
			got[peer] = append(got[peer], fmt.Sprintf("%d %s@%d", e.Seqnum, m, e.Monotonic))
			if e.Realtime != 1_700_000_000_000_000+e.Monotonic {
				r.t.Errorf("%s has realtime %d", m, e.Realtime)
			}
		}
		j.Close()
	}
	for _, list := range got {
		slices.SortFunc(list, func(a, b string) int { return number(a) - number(b) })
	}
	if d := cmp.Diff(want, got); d != "" {
		r.t.Errorf("stored (-want +got):\n%s", d)
	}
}

func number(s string) (n int) {
	if _, err := fmt.Sscan(s, &n); err != nil {
		return -1 // and so in the wrong place
	}
	return n
}

// verify runs our own check and, where there is one, journalctl's.
func verify(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if report, err := journal.Verify(t.Context(), f, info.Size(), path, journal.VerifyOptions{}); err != nil || !report.OK() {
		t.Errorf("verify %s: %v %v", path, err, report.Problems)
	}
	if _, err := exec.LookPath("journalctl"); err != nil {
		return
	}
	if out, err := exec.Command("journalctl", "--verify", "--file", path).CombinedOutput(); err != nil {
		t.Errorf("journalctl --verify %s: %v: %s", path, err, out)
	}
}

// TestPeers: each peer has its file, with numbers of its own; times stay.
func TestPeers(t *testing.T) {
	r := newRig(t)
	r.say("192.0.2.1", 100, "a", "b")
	r.say("fe80::1%eth0", 5, "v6")
	r.say("192.0.2.1", 500, "c")
	r.say("../x y@z\\", 7, "odd")
	r.wantNames("remote-..\\x2fx\\x20y\\x40z\\x5c.journal", "remote-192.0.2.1.journal", "remote-fe80::1%eth0.journal")
	r.wantStored(map[string][]string{
		"192.0.2.1":             {"1 a@100", "2 b@110", "3 c@500"},
		"fe80::1%eth0":          {"1 v6@5"},
		`..\x2fx\x20y\x40z\x5c`: {"1 odd@7"},
	})
	if _, n, err := r.Append(t.Context(), "x", entries(entry.ID{}, 1, "late")); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close = %d, %v", n, err)
	}
}

// TestRestart: a file that was closed is gone on with, also when its last entry is
// later than the clock.
func TestRestart(t *testing.T) {
	r := newRig(t)
	ahead := uint64(time.Hour.Microseconds())
	future := uint64(time.Now().UnixMicro()) - 1_700_000_000_000_000 + ahead
	r.say("p", future, "a")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.begin()
	r.say("p", future+10, "b")
	r.wantNames("remote-p.journal")
	r.wantStored(map[string][]string{"p": {fmt.Sprint("1 a@", future), fmt.Sprint("2 b@", future+10)}})
}

// TestUnclean: a file that was not closed is repaired and becomes an archive; what
// is no journal, or half made, does not stand in the way.
func TestUnclean(t *testing.T) {
	r := newRig(t)
	r.say("p", 100, "a", "b")
	copyFile(t, filepath.Join(r.dir, "remote-p.journal"), filepath.Join(r.dir, "remote-killed.journal"))
	for name, text := range map[string]string{"remote-garbage.journal": strings.Repeat("garbage", 100), "remote-unborn.journal": strings.Repeat("\x00", 600), "remote-empty.journal": ""} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.begin()
	r.wantNames("remote-garbage@.journal~", "remote-killed@0000000000000001.journal", "remote-p.journal")
	r.say("killed", 50, "c")
	r.say("garbage", 1, "d")
	for _, p := range []string{"remote-garbage@*.journal~"} {
		found, err := filepath.Glob(filepath.Join(r.dir, p))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v %v", found, err)
		}
		if err := os.Remove(found[0]); err != nil { // not to be verified
			t.Fatal(err)
		}
	}
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@110"}, "killed": {"1 a@100", "2 b@110", "3 c@50"}, "garbage": {"1 d@1"}})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOrder: an entry that would break the order begins a new file, and the numbers
// go on.
func TestOrder(t *testing.T) {
	r := newRig(t)
	r.say("p", 100, "a", "b")
	r.say("p", 105, "c")
	r.say("p", 300, "d")
	r.wantNames("remote-p.journal", "remote-p@0000000000000001.journal")
	if want := "6 remote-p.journal rotated to "; len(r.events) != 1 || !strings.HasPrefix(r.events[0], want) || !strings.Contains(r.events[0], "order broken") {
		t.Errorf("events %q, want one %q… order broken", r.events, want)
	}
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@110", "3 c@105", "4 d@300"}})
}

// TestClockBack: an entry that is much earlier begins a new file, in which a time can
// be found, but only as often as is allowed; none is refused for it.
func TestClockBack(t *testing.T) {
	r := newRig(t)
	const hour = 3600e6
	boots := func(n int) (all []entry.Entry) {
		for i := range n {
			all = append(all, entries(entry.ID{byte(i + 1)}, uint64(1000-i)*hour, fmt.Sprint(i))...)
		}
		return all
	}
	small := append(entries(boot1, 2000*hour, "a"), entries(entry.ID{2}, 2000*hour-10e6, "b")...)
	if _, n, err := r.Append(t.Context(), "small", small); n != 2 || err != nil {
		t.Errorf("Append = %d, %v", n, err)
	}
	if _, n, err := r.Append(t.Context(), "p", boots(3)); n != 3 || err != nil {
		t.Errorf("Append = %d, %v", n, err)
	}
	r.wantNames("remote-p.journal", "remote-p@0000000000000001.journal", "remote-p@0000000000000002.journal", "remote-small.journal")
	if _, n, err := r.Append(t.Context(), "many", boots(2*maxBreaks)); n != 2*maxBreaks || err != nil {
		t.Errorf("Append = %d, %v", n, err)
	}
	if got := len(r.names()); got != 4+maxBreaks+1 {
		t.Errorf("%d files, want %d", got, 4+maxBreaks+1)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"remote-p.journal", "remote-many.journal"} {
		verify(t, filepath.Join(r.dir, name))
	}
}

// TestDisorder: entries that jump back all the time are refused before they have
// taken a file each, and what came before is kept.
func TestDisorder(t *testing.T) {
	r := newRig(t)
	var all []entry.Entry
	for i := range 3 * maxBreaks {
		all = append(all, entries(boot1, 1000-10*uint64(i), fmt.Sprint(i))...)
	}
	_, n, err := r.Append(t.Context(), "p", all)
	if !errors.Is(err, ErrDisorder) || !errors.Is(err, journal.ErrOrder) || n != maxBreaks+1 {
		t.Errorf("Append = %d, %v, want %d, %v", n, err, maxBreaks+1, ErrDisorder)
	}
	r.say("other", 5, "not disturbed")
	if got := len(r.names()); got != maxBreaks+2 {
		t.Errorf("%d files, want %d", got, maxBreaks+2)
	}
}

// TestAllowance: minutes and entries earn breaks, up to the most.
func TestAllowance(t *testing.T) {
	now := time.Unix(1000, 0)
	a := newAllowance(now)
	taken := func(at time.Time) (n int) {
		for a.take(at) {
			n++
		}
		return n
	}
	a.earn(1e6)
	for i, step := range []struct {
		entries int
		passed  time.Duration
		want    int
	}{{0, 0, maxBreaks}, {99, 0, 0}, {1, 0, 1}, {0, 59 * time.Second, 0}, {0, time.Second, 1}, {150, 30 * time.Second, 2}, {0, time.Hour, maxBreaks}} {
		a.earn(step.entries)
		now = now.Add(step.passed)
		if got := taken(now); got != step.want {
			t.Errorf("step %d: %d breaks, want %d", i, got, step.want)
		}
	}
}

// TestFull: a file that is full is followed by another.
func TestFull(t *testing.T) {
	r := newRig(t)
	var messages, want []string
	for i := range 2000 {
		messages = append(messages, fmt.Sprintf("message %d", i))
		want = append(want, fmt.Sprintf("%d message %d@%d", i+1, i, 100+10*i))
	}
	r.say("p", 100, messages...)
	if got := r.names(); len(got) != 2 {
		t.Errorf("files %q, want two", got)
	}
	r.wantStored(map[string][]string{"p": want})
}

// TestUnstorable: an entry that no file can hold is named; what is before it is
// kept, and what is behind it can follow.
func TestUnstorable(t *testing.T) {
	r := newRig(t)
	all := entries(boot1, 100, "a", "b", "c")
	all[1].Fields = append(all[1].Fields, entry.Field("no equals sign"))
	_, n, err := r.Append(t.Context(), "p", all)
	var bad *journal.EntryError
	if n != 1 || !errors.As(err, &bad) {
		t.Fatalf("Append = %d, %v", n, err)
	}
	if _, n, err := r.Append(t.Context(), "p", all[2:]); n != 1 || err != nil {
		t.Fatalf("Append = %d, %v", n, err)
	}
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 c@120"}})
}

// TestAtOnce: peers write at once, and one peer in two streams at once.
func TestAtOnce(t *testing.T) {
	r := newRig(t)
	const streams, peers, rounds = 2, 3, 50
	var wg sync.WaitGroup
	for s := range streams {
		for p := range peers {
			wg.Go(func() {
				for i := range rounds {
					// Streams of different boots: their times do not stand in each other's way.
					e := entries(entry.ID{byte(s + 1)}, uint64(100*i), fmt.Sprintf("%d-%d", s, i))
					if _, n, err := r.Append(context.Background(), fmt.Sprint("p", p), e); n != 1 || err != nil {
						t.Errorf("Append = %d, %v", n, err)
					}
				}
			})
		}
	}
	wg.Wait()
	r.wantNames("remote-p0.journal", "remote-p1.journal", "remote-p2.journal")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for p := range peers {
		path := filepath.Join(r.dir, fmt.Sprintf("remote-p%d.journal", p))
		verify(t, path)
		j, err := journal.Open([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for e, err := range j.All() {
			if err != nil {
				t.Fatal(err)
			}
			m, _ := e.Get("MESSAGE")
			stream, i, _ := strings.Cut(string(m), "-")
			if fmt.Sprint(next[stream]) != i {
				t.Errorf("%s: %s after %d entries of its stream", path, m, next[stream])
			}
			next[stream]++
		}
		j.Close()
		if d := cmp.Diff(map[string]int{"0": rounds, "1": rounds}, next); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

// waitFor waits until what is true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > time.Minute {
			t.Fatalf("waits for: %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(time.Millisecond):
		}
	}
}

// TestBounds: files that are too many are closed, those of too many peers become
// archives, and all go on when their peer comes back.
func TestBounds(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxOpen, c.MaxPeers = 2, 4 })
	want := map[string][]string{}
	for i := range 6 {
		name := fmt.Sprint("p", i)
		r.say(name, 100, "a")
		want[name] = append(want[name], "1 a@100")
		waitFor(t, "two open files", func() bool { return r.open.Load() <= 2 && len(r.all()) <= 4 })
	}
	r.wantNames("remote-p0@0000000000000001.journal", "remote-p1@0000000000000001.journal", "remote-p2.journal", "remote-p3.journal", "remote-p4.journal", "remote-p5.journal")
	r.say("p2", 200, "b")
	want["p2"] = append(want["p2"], "2 b@200")
	r.wantStored(want)
}

// TestIdle: a file that nobody writes to is closed, and gone on with.
func TestIdle(t *testing.T) {
	r := newRig(t)
	r.say("p", 100, "a")
	if r.sweep(); r.open.Load() != 1 {
		t.Error("closed before it was idle")
	}
	r.all()[0].used.Add(-DefaultIdle.Microseconds())
	if r.sweep(); r.open.Load() != 0 {
		t.Error("not closed when it was idle")
	}
	r.say("p", 200, "b")
	r.wantNames("remote-p.journal")
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@200"}})
}

// TestCommands: Rotate makes archives of what has entries; Synchronize syncs.
func TestCommands(t *testing.T) {
	r := newRig(t)
	tk, _, err := r.Append(t.Context(), "p", entries(boot1, 100, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.Status(); len(st.Files) != 1 || st.Files[0].Unsynced != 0 || st.Syncs == 0 {
		t.Errorf("after Synchronize: %+v", st)
	}
	if err := r.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tk.Wait(t.Context(), settle.Synced); err != nil {
		t.Error(err)
	}
	r.wantNames("remote-p@0000000000000001.journal")
	r.say("p", 90, "b")
	r.wantStored(map[string][]string{"p": {"1 a@100", "2 b@90"}})
}

package slowfs

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// writer makes a journal file in a mount.
func writer(t *testing.T, fs *FS, name string) *journal.Writer {
	t.Helper()
	w, err := journal.Create(filepath.Join(fs.Path(), name), journal.Options{MaxSize: journal.MinMaxSize})
	noError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func appendTo(t *testing.T, w *journal.Writer, text string) journal.Pos {
	t.Helper()
	pos, _, err := w.Append(context.Background(), []entry.Entry{{Fields: []entry.Field{entry.Field("MESSAGE=" + text)}}})
	noError(t, err)
	return pos
}

// waitFor starts to wait and returns where the outcome will be.
func waitFor(w *journal.Writer, pos journal.Pos, level settle.Level) <-chan error {
	done := make(chan error, 1)
	go func() { done <- w.Wait(context.Background(), pos, level) }()
	return done
}

// TestJournalSyncHeld: while a file's sync is held, what it covers is appended and
// not synced, more is accepted, and another file goes on. (What is accepted
// meanwhile is written to the same file later: FUSE keeps it locked.)
func TestJournalSyncHeld(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{})
	slow, other := writer(t, fs, "slow.journal"), writer(t, fs, "other.journal")
	fs.Set(Rule{Calls: []Call{Fsync}, Match: "slow.*", Hold: true})

	first := appendTo(t, slow, "first")
	synced := waitFor(slow, first, settle.Synced)
	fs.WaitHeld(Fsync, 1)
	noError(t, within(t, "appended", waitFor(slow, first, settle.Appended)))
	second := waitFor(slow, appendTo(t, slow, "second"), settle.Synced)
	noError(t, within(t, "synced, of another file", waitFor(other, appendTo(t, other, "beside"), settle.Synced)))
	select {
	case err := <-synced:
		t.Errorf("synced, with %v, before the sync had returned", err)
	case err := <-second:
		t.Errorf("the second is synced, with %v, before any sync had returned", err)
	default:
	}

	fs.Set()
	noError(t, within(t, "synced", synced))
	noError(t, within(t, "synced, of the second", second))
}

// TestJournalPowerCut: after a power cut at any time, everything that was
// synced is there after Repair, once, and nothing that was not appended.
func TestJournalPowerCut(t *testing.T) {
	fs := Mount(t, t.TempDir(), Options{PowerCut: true})
	w := writer(t, fs, "a.journal")
	var pos journal.Pos
	appended, synced, unsyncedSeen := 0, 0, 0
	sync := func() {
		t.Helper()
		noError(t, within(t, "synced", waitFor(w, pos, settle.Synced)))
		synced = appended
	}
	for seed := range uint64(50) {
		for range 1 + seed%3 {
			pos = appendTo(t, w, fmt.Sprint(appended))
			appended++
		}
		noError(t, within(t, "appended", waitFor(w, pos, settle.Appended)))
		if seed%4 == 0 {
			sync()
			pos = appendTo(t, w, fmt.Sprint(appended))
			appended++
		}
		dir := filepath.Join(t.TempDir(), "image")
		fs.Image(seed, dir)
		there := messages(t, filepath.Join(dir, "a.journal"))
		for i := range appended {
			if n := there[fmt.Sprint(i)]; n > 1 || n == 0 && i < synced {
				t.Errorf("seed %d: entry %d is there %d times; %d entries are synced", seed, i, n, synced)
			} else if n == 1 && i >= synced {
				unsyncedSeen++
			}
			delete(there, fmt.Sprint(i))
		}
		if len(there) > 0 {
			t.Errorf("seed %d: never appended: %v", seed, there)
		}
	}
	if unsyncedSeen == 0 {
		t.Error("no image has an entry that was not synced: they are too kind")
	}
}

// messages repairs a journal file and counts its messages.
func messages(t *testing.T, name string) map[string]int {
	t.Helper()
	_, err := journal.Repair(name, journal.RepairOptions{})
	noError(t, err)
	j, err := journal.Open([]string{name})
	noError(t, err)
	defer j.Close()
	found := map[string]int{}
	for e, err := range j.All() {
		noError(t, err)
		text, _ := e.Get("MESSAGE")
		found[string(text)]++
	}
	return found
}

package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// wOpenThenCopy appends entries under a window that does not end, so that
// links are missing, and returns a copy of the file as kill -9 would leave it.
func wOpenThenCopy(t *testing.T, fl Flavour, sizes ...int) (path string, want []entry.Entry) {
	t.Helper()
	dir := t.TempDir()
	live := filepath.Join(dir, "live.journal")
	w, err := Create(live, Options{Flavour: fl, Index: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g := newWGen(11)
	for _, n := range sizes {
		b := g.batch(n)
		want = append(want, b...)
		pos, _, err := w.Append(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Wait(t.Context(), pos, settle.Appended); err != nil {
			t.Fatal(err)
		}
		wHoldIndex(w)
	}
	path = filepath.Join(dir, "copy.journal")
	wCopyFile(t, live, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

func TestRepairKeepsAllThatWasAppended(t *testing.T) {
	for name, fl := range wFlavours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := wOpenThenCopy(t, fl, 1, 3, 50, inFull(700, 150), 1, 20)
			if _, err := OpenWriter(path, Options{}); !errors.Is(err, ErrUnclean) {
				t.Fatalf("OpenWriter of an unclean file: %v", err)
			}
			rep, err := Repair(path, RepairOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Clean || rep.Entries != uint64(len(want)) || rep.Lost != 0 || rep.Hidden != 1 || rep.Cut != 0 || rep.Relinked < 20 {
				t.Errorf("report: %+v", rep)
			}
			wSameEntries(t, path, want)
			wVerify(t, path)

			before, _ := os.ReadFile(path)
			if rep, err = Repair(path, RepairOptions{}); err != nil || !rep.Clean {
				t.Errorf("second Repair: %+v, %v", rep, err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("second Repair changed the file")
			}

			// And it can be continued.
			w, err := OpenWriter(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			g := newWGen(12)
			g.rt, g.mono = 1_800_000_000_000_000, 1_000_000_000
			more := g.batch(100)
			if _, _, err := w.Append(t.Context(), more); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			wSameEntries(t, path, append(want, more...))
			wVerify(t, path)
		})
	}
}

// wSameEntries checks that a file has exactly the entries want, read by this
// package.
func wSameEntries(t testing.TB, path string, want []entry.Entry) {
	t.Helper()
	got := wReadAll(t, path)
	if d := cmp.Diff(wFlatten(want), got); d != "" {
		t.Fatalf("entries of %s (-want +got):\n%.2000s", path, d)
	}
}

// wFlat is what must come back of an entry.
type wFlat struct {
	Realtime, Monotonic uint64
	BootID              string
	Fields              map[string]int
}

func wFlatten(entries []entry.Entry) []wFlat {
	out := make([]wFlat, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = wFlat{e.Realtime, e.Monotonic, e.BootID.String(), map[string]int{}}
		for _, f := range e.Fields {
			out[i].Fields[string(f)] = 1
		}
	}
	return out
}

func wReadAll(t testing.TB, path string) []wFlat {
	t.Helper()
	j, err := Open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if s := j.Skipped(); len(s) > 0 {
		t.Fatal(s)
	}
	out := []wFlat{}
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, wFlatten([]entry.Entry{*e})...)
	}
	return out
}

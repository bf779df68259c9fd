package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// uUnsorted writes a file of 50 entries, changes the items of each, and sets
// the file's state.
func uUnsorted(t *testing.T, flavour Flavour, state State, change func(items [][]byte)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unsorted.journal")
	w, err := Create(path, Options{Flavour: flavour, MaxSize: MinMaxSize})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		e := entry.Entry{Fields: []entry.Field{
			entry.Field("A=constant"), entry.Field(fmt.Sprintf("N=%d", i)), entry.Field(fmt.Sprintf("M=%d", i%3)), entry.Field("Z=constant"),
		}}
		if _, _, err := w.Append(context.Background(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := object.EntryItemSizeCompact
	if flavour.Regular {
		size = object.EntryItemSize
	}
	for _, p := range vParse(b).entries {
		var items [][]byte
		for at := p + object.EntryItems; at < p+int(object.U64(b, p+object.ObjSize)); at += size {
			items = append(items, slices.Clone(b[at:at+size]))
		}
		change(items)
		copy(b[p+object.EntryItems:], slices.Concat(items...))
	}
	b[object.HdrState] = byte(state)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestItemsNeedNotBeSorted: journald copies entries from /run/log/journal to
// /var/log/journal with their items in the order of the copied entry.
func TestItemsNeedNotBeSorted(t *testing.T) {
	for _, flavour := range []Flavour{{}, {Regular: true}} {
		t.Run(fmt.Sprintf("%+v", flavour), func(t *testing.T) {
			path := uUnsorted(t, flavour, StateOffline, slices.Reverse)
			uVerify(t, path)
			w, err := OpenWriter(path, Options{Flavour: flavour, MaxSize: MinMaxSize})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Append(t.Context(), []entry.Entry{{Fields: []entry.Field{entry.Field("A=constant"), entry.Field("Z=new")}}}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			uVerify(t, path)
			if n := len(wReadAll(t, path)); n != 51 {
				t.Errorf("%d entries, want the 50 and a new one", n)
			}

			path = uUnsorted(t, flavour, StateOnline, slices.Reverse)
			report, err := Repair(path, RepairOptions{})
			if err != nil || report.Lost != 0 {
				t.Errorf("Repair = %+v, %v, want nothing lost", report, err)
			}
			uVerify(t, path)
			if n := len(wReadAll(t, path)); n != 50 {
				t.Errorf("%d entries after a repair, want 50", n)
			}
		})
	}
}

func TestItemsComeOnce(t *testing.T) {
	for name, change := range map[string]func(items [][]byte){
		"neighbours": func(items [][]byte) { items[1] = items[0] },
		"apart":      func(items [][]byte) { items[3] = items[0] },
	} {
		t.Run(name, func(t *testing.T) {
			path := uUnsorted(t, Flavour{}, StateOffline, change)
			if w, err := OpenWriter(path, Options{MaxSize: MinMaxSize}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("OpenWriter = %v, %v, want ErrCorrupt", w, err)
			}
		})
	}
}

// uVerify runs our own and the real verification, where there is one.
func uVerify(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wVerifyBytes(t, b)
	if _, err := exec.LookPath("journalctl"); err == nil {
		wVerify(t, path)
	}
}

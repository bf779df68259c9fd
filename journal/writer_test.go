package journal

import (
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

var wFlavours = map[string]Flavour{
	"compact keyed":         {},
	"compact unkeyed":       {Unkeyed: true},
	"regular keyed":         {Regular: true},
	"regular unkeyed":       {Regular: true, Unkeyed: true},
	"compact no zstd":       {NoCompression: true},
	"regular unkeyed plain": {Regular: true, Unkeyed: true, NoCompression: true},
}

func TestWriterFilesVerify(t *testing.T) {
	wNeedTool(t, "journalctl")
	for name, fl := range wFlavours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.journal")
			w, err := Create(path, Options{Flavour: fl, MachineID: entry.ID{1}, BootID: entry.ID{2}})
			if err != nil {
				t.Fatal(err)
			}
			wVerify(t, path)
			g := newWGen(1)
			for _, n := range []int{1, 1, 2, 35, inFull(1000, 200)} {
				if _, k, err := w.Append(t.Context(), g.batch(n)); k != n || err != nil {
					t.Fatalf("Append of %d: %d, %v", n, k, err)
				}
				if err := w.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				wVerify(t, path)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			wVerify(t, path)
		})
	}
}

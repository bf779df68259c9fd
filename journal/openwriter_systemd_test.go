package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Files of every flavour that a writer of systemd closed cleanly are continued: with
// each hash, offset size, compression and header that this package writes behind.
// The result passes Verify and journalctl, which reads old and new entries.
func TestOpenWriterContinuesEveryFlavour(t *testing.T) {
	oneGoroutine(t)
	files := map[string][]byte{}
	for _, name := range []string{"r-00", "r-01", "r-10", "r-11", "esc"} {
		b := sampleBytes(t, name)
		b[object.HdrState] = object.StateOffline
		files[name] = b
	}
	for _, h := range history {
		if h.header >= object.HeaderSize252 {
			b := h.do(t, sampleBytes(t, h.from))
			b[object.HdrState] = object.StateOffline
			files[h.from+" "+h.String()] = b
		}
	}
	for name, b := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.journal")
			readerMust(t, os.WriteFile(path, b, 0o600))
			h := decodeHeader(b)
			w, err := OpenWriter(path, Options{MachineID: h.MachineID, Clock: func() (uint64, uint64) { return 1 << 52, 1 << 50 }})
			readerMust(t, err)
			long := bytes.Repeat([]byte("again and "), 100)
			for i := range 200 {
				e := entry.Entry{BootID: entry.ID{7}, Fields: []entry.Field{
					entry.Field(fmt.Sprintf("MESSAGE=new %d", i)), entry.Field("PRIORITY=6"), append(entry.Field("LONG="), long[:600+i]...),
				}}
				_, _, err := w.Append(t.Context(), []entry.Entry{e})
				readerMust(t, err)
			}
			readerMust(t, w.Close())
			after := fileBytes(t, path)
			if r := verifyBytes(t, after); len(r.Problems) > 0 {
				t.Errorf("%v", r.Problems[:min(5, len(r.Problems))])
			}
			want := h.NEntries + 200
			if now := decodeHeader(after); now.NEntries != want || now.IncompatibleFlags != h.IncompatibleFlags || now.HeaderSize != h.HeaderSize {
				t.Errorf("%d entries of %d; flags %x, were %x", now.NEntries, want, now.IncompatibleFlags, h.IncompatibleFlags)
			}
			if n := bytes.Count([]byte(journalctl(t, "--file", path, "-o", "export")), []byte("__CURSOR=")); uint64(n) != want {
				t.Errorf("journalctl reads %d entries, want %d", n, want)
			}
			if h.CompatibleFlags == 0 {
				journalctl(t, "--verify", "--file", path)
			}
		})
	}
}

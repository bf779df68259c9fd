package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// A file with tight arrays is smaller, has the same entries in the same lists, and is
// continued by a writer without them; both verifiers find nothing wrong with it.
func TestTightArrays(t *testing.T) {
	const n = 3500 // when loose ones have just grown
	for _, fl := range []Flavour{{}, {Regular: true}} {
		t.Run(fmt.Sprintf("regular %v", fl.Regular), func(t *testing.T) {
			boot := entry.ID{1}
			fields := func(i int) []entry.Field {
				return []entry.Field{entry.Field("A=1"), entry.Field("B=1"), entry.Field("C=1"), fmt.Appendf(nil, "N=%d", i)}
			}
			write := func(w *Writer, from, to int) {
				for i := from; i < to; i++ {
					e := []entry.Entry{{Fields: fields(i), BootID: boot, Realtime: 1e15 + uint64(i), Monotonic: uint64(i)}}
					if _, _, err := w.Append(t.Context(), e); err != nil {
						t.Fatal(err)
					}
				}
			}
			var verified []string
			sizes := map[bool]uint64{}
			for _, tight := range []bool{false, true} {
				path := filepath.Join(t.TempDir(), "a.journal")
				o := Options{Flavour: fl, BootID: boot, TightArrays: tight}
				w, err := Create(path, o)
				readerMust(t, err)
				write(w, 0, n)
				sizes[tight] = w.Stats().Bytes
				readerMust(t, w.Close())
				o.TightArrays = !tight
				w, err = OpenWriter(path, o)
				readerMust(t, err)
				write(w, n, n+3000)
				readerMust(t, w.Close())
				b, err := os.ReadFile(path)
				readerMust(t, err)
				report, err := Verify(t.Context(), bytes.NewReader(b), int64(len(b)), path, VerifyOptions{})
				if err != nil || report.Failed > 0 {
					t.Errorf("tight %v: %v, %v", tight, report.Problems, err)
				}
				j, err := Open([]string{path})
				readerMust(t, err)
				j.SetMatch(And(Term(entry.Field("B=1")), Term(entry.Field("A=1"))))
				got := 0
				for e, err := range j.All() {
					if err != nil || e.Realtime != 1e15+uint64(got) {
						t.Fatalf("entry %d: %v, %v", got, e, err)
					}
					got++
				}
				if got != n+3000 {
					t.Errorf("tight %v: %d entries, want %d", tight, got, n+3000)
				}
				readerMust(t, j.Close())
				verified = append(verified, path)
			}
			if sizes[true]+60<<10 > sizes[false] {
				t.Errorf("%d bytes, without %d", sizes[true], sizes[false])
			}
			for _, path := range verified {
				wVerify(t, path)
			}
		})
	}
}

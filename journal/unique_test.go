package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// valuesFile writes a file whose field V has n values, which take several batches,
// and returns its bytes, the values, and the offsets of their objects; all oldest
// first.
func valuesFile(t *testing.T, n int) (b []byte, values []string, offs []uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "v.journal")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		values = append(values, fmt.Sprintf("%06d %s", i, strings.Repeat("x", 150)))
		e := entry.Entry{Realtime: uint64(1e15 + i), Monotonic: uint64(i), BootID: entry.ID{1}, Fields: []entry.Field{entry.Field("V=" + values[i]), entry.Field(fmt.Sprintf("OTHER=%d", i))}}
		if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = fileBytes(t, path)
	for _, o := range layoutOf(t, b) {
		if o.t == object.Data && bytes.Contains(b[o.off:o.off+o.size], []byte("V=0")) {
			offs = append(offs, o.off)
		}
	}
	if len(offs) != n {
		t.Fatalf("%d objects of %d values", len(offs), n)
	}
	return b, values, offs
}

// A list that is damaged somewhere costs no value but the damaged one, and none is
// there twice; the damage is told.
func TestUniqueValuesOfADamagedList(t *testing.T) {
	const n = 1500
	b, values, offs := valuesFile(t, n)
	const at = n - 900 // in the second batch, going down
	for name, damage := range map[string]struct {
		patch func(b []byte)
		lost  int // values
	}{
		"none":          {func([]byte) {}, 0},
		"to itself":     {func(b []byte) { object.PutU64(b[offs[at]:], object.DataNextField, offs[at]) }, 0},
		"forward":       {func(b []byte) { object.PutU64(b[offs[at]:], object.DataNextField, offs[n-1]) }, 0},
		"out of line":   {func(b []byte) { object.PutU64(b[offs[at]:], object.DataNextField, offs[at]-3) }, 0},
		"to the header": {func(b []byte) { object.PutU64(b[offs[at]:], object.DataNextField, 8) }, 0},
		"object gone":   {func(b []byte) { b[offs[at]+object.ObjType] = 99 }, 1},
		"another field": {func(b []byte) { b[bytes.Index(b, []byte("V="+values[at]))] = 'W' }, 1},
	} {
		for mode, o := range readModes {
			t.Run(name+", "+mode, func(t *testing.T) {
				bad := bytes.Clone(b)
				damage.patch(bad)
				path := filepath.Join(t.TempDir(), "v.journal")
				readerMust(t, os.WriteFile(path, bad, 0o600))
				j := openSample(t, o, path)
				count := make(map[string]int)
				for v, err := range j.UniqueValues("V") {
					if err != nil {
						t.Fatal(err)
					}
					count[string(v)]++
				}
				want := make(map[string]int)
				for i, v := range values {
					if damage.lost == 0 || i != at {
						want[v] = 1
					}
				}
				if diff := cmp.Diff(want, count); diff != "" {
					t.Errorf("values (-want +got):\n%s", diff)
				}
				if told := len(j.Warnings()) > 0; told != (name != "none") {
					t.Errorf("warnings %v", j.Warnings())
				}
			})
		}
	}
}

// What a mapped file loses while its values are being delivered ends the list, not
// the process.
func TestUniqueValuesOfAFileThatShrinks(t *testing.T) {
	const n = 1500
	b, values, offs := valuesFile(t, n)
	path := filepath.Join(t.TempDir(), "v.journal")
	readerMust(t, os.WriteFile(path, b, 0o600))
	j := openSample(t, ReadOptions{Map: true}, path)
	const left = 100
	got := make(map[string]int)
	for v, err := range j.UniqueValues("V") {
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			readerMust(t, os.Truncate(path, int64(offs[left])))
		}
		got[string(v)]++
	}
	for i, v := range values {
		if c := got[v]; c > 1 || c == 0 && (i < left || i == n-1) {
			t.Errorf("value %d of %d is there %d times", i, n, c)
		}
	}
	var format *FormatError
	if w := j.Warnings(); len(w) == 0 || !errors.As(w[0], &format) {
		t.Errorf("warnings %v", w)
	}
}

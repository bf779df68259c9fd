package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/entry"
)

// repeats writes a file of entries whose fields occur again and again, more of
// them than a dataCache keeps: some in nearly every entry, most now and then,
// and one that is new each time.
func repeats(t *testing.T) (path string, want [][]string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	path = filepath.Join(t.TempDir(), "repeats.journal")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		fields := []string{fmt.Sprintf("NEW=%d", i), fmt.Sprintf("HOT=%d", i%7)}
		for k := range 4 {
			n := r.IntN(1200)
			fields = append(fields, fmt.Sprintf("F%d=%d %s", k, n, bytes.Repeat([]byte{byte('a' + n%26)}, n%900)))
		}
		e := entry.Entry{}
		for _, f := range fields {
			e.Fields = append(e.Fields, entry.Field(f))
		}
		if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(fields)
		want = append(want, fields)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

func sorted(fields []entry.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, string(f))
	}
	slices.Sort(out)
	return out
}

// What is read does not depend on what the cache kept of it, and fields with the
// same id are equal.
func TestRepeatedFields(t *testing.T) {
	path, want := repeats(t)
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, path)
			byID := make(map[uint64]string)
			for pass := range 2 {
				for i := range want {
					e, err := j.Next()
					if err != nil {
						t.Fatalf("pass %d, entry %d: %v", pass, i, err)
					}
					if diff := cmp.Diff(want[i], sorted(e.Fields)); diff != "" {
						t.Fatalf("pass %d, entry %d (-written +read):\n%s", pass, i, diff)
					}
					for k, id := range j.FieldIDs() {
						f := string(e.Fields[k])
						if known, ok := byID[id]; id == 0 || ok && known != f {
							t.Fatalf("id %#x: %q, before %q", id, f, known)
						}
						byID[id] = f
					}
				}
				j.SeekHead()
			}
			if used := j.cache.young; used < 4 {
				t.Errorf("generation %d: the test fills too few", used)
			}
		})
	}
}

// With SetFields the named fields come, and Whole has all of the same entry.
func TestSetFields(t *testing.T) {
	path, want := repeats(t)
	names := []string{"F1", "NEW", "NONE"}
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, path)
			if _, err := j.Whole(); !errors.Is(err, io.EOF) {
				t.Errorf("Whole before the first entry: %v", err)
			}
			for i := range want {
				switch i {
				case 500:
					j.SetFields(names...)
				case 2500:
					j.SetFields()
				}
				e, err := j.Next()
				if err != nil {
					t.Fatal(err)
				}
				few := want[i]
				if i >= 500 && i < 2500 {
					few = slices.DeleteFunc(slices.Clone(few), func(f string) bool {
						return !slices.Contains(names, string(entry.Field(f).Name()))
					})
				}
				if diff := cmp.Diff(few, sorted(e.Fields)); diff != "" {
					t.Fatalf("entry %d (-written +read):\n%s", i, diff)
				}
				if i%5 != 0 {
					continue
				}
				seqnum := e.Seqnum
				if e, err = j.Whole(); err != nil || e.Seqnum != seqnum {
					t.Fatalf("entry %d whole: %v", i, err)
				}
				if diff := cmp.Diff(want[i], sorted(e.Fields)); diff != "" {
					t.Fatalf("entry %d whole (-written +read):\n%s", i, diff)
				}
			}
		})
	}
}

// An entry that has none of the fields asked for is delivered all the same.
func TestSetFieldsLeavesNoEntryOut(t *testing.T) {
	j := openSample(t, ReadOptions{}, sample(t, "r-11"))
	all := 0
	for _, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		all++
	}
	j.SetFields("NO_SUCH_FIELD")
	j.SeekHead()
	n := 0
	for e, err := range j.All() {
		if err != nil || len(e.Fields) > 0 {
			t.Fatalf("%v, fields %q", err, e.Fields)
		}
		n++
	}
	if n != all || all == 0 {
		t.Errorf("%d entries instead of %d", n, all)
	}
}

func TestSetFieldsAllocatesNothing(t *testing.T) {
	for mode, o := range readModes {
		t.Run(mode, func(t *testing.T) {
			j := openSample(t, o, sample(t, "r-11"))
			j.SetFields("MESSAGE")
			next := func() {
				if _, err := j.Next(); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				next()
			}
			if n := testing.AllocsPerRun(500, next); n != 0 {
				t.Errorf("%v allocations an entry", n)
			}
		})
	}
}

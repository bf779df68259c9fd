package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Value finds what Read reads first of a name, whatever else an entry has, and
// remembers of an object that it is another field.
func TestReaderValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.journal")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	for i := range n {
		fields := []entry.Field{
			entry.Field(fmt.Sprintf("MES=%d", i%3)), entry.Field("MESSAGES=all"), entry.Field(fmt.Sprintf("PID=%d", i)),
			entry.Field("LONG=" + strings.Repeat("long ", 100+i)),
		}
		switch i % 5 {
		case 0: // none
		case 1:
			fields = append(fields, entry.Field("MESSAGE=again"))
		case 2:
			fields = append(fields, entry.Field(fmt.Sprintf("MESSAGE=first %d", i)), entry.Field(fmt.Sprintf("MESSAGE=second %d", i)))
		case 3:
			fields = append(fields, entry.Field(fmt.Sprintf("MESSAGE=%d %s", i, strings.Repeat("compressed ", 100))))
		default:
			fields = append(fields, entry.Field("MESSAGE="))
		}
		e := entry.Entry{Realtime: uint64(1e15 + i), Monotonic: uint64(i), BootID: entry.ID{1}, Fields: fields}
		if _, _, err := w.Append(t.Context(), []entry.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for mode, o := range readModes {
		for _, tc := range []struct{ left, after int }{{othersMax, n}, {0, n}, {othersMax, 10}} {
			left := tc.left
			t.Run(fmt.Sprintf("%s, %d, list after %d", mode, left, tc.after), func(t *testing.T) {
				j := openSample(t, o, path)
				r := j.NewReader()
				defer r.Close()
				r.prefix, r.left, r.listAfter = []byte("MESSAGE="), left, tc.after
				for i := range n {
					moved(t, j.Next)
					p, _ := j.Place()
					value, _, found, ok := r.Value(&p, []byte("MESSAGE="))
					got := fmt.Sprintf("%s %v", value, found)
					e, _ := r.Read(&p)
					first, has := e.Get("MESSAGE")
					if want := fmt.Sprintf("%s %v", first, has); got != want || !ok {
						t.Fatalf("entry %d: %.40q, want %.40q (%v)", i, got, want, ok)
					}
				}
				f := r.files[0]
				followed := tc.after < n && f.m != nil
				if got := f.list.state == listWhole; got != followed {
					t.Errorf("list followed: %v", got)
				}
				if got, want := f.others.has(r.fs.items[0]), left > 0 && !followed; got != want {
					t.Errorf("remembered: %v", got)
				}
				j.SeekHead()
				moved(t, j.Next)
				p, _ := j.Place()
				if value, _, found, _ := r.Value(&p, []byte("PID=")); !found || string(value) != "0" {
					t.Errorf("another field: %q, %v", value, found)
				}
			})
		}
	}
}

// What is damaged is told when it may be what is looked for, and an entry of which
// nothing is left counts as lost.
func TestReaderValueOfDamage(t *testing.T) {
	const n = 4
	b, _, offs := valuesFile(t, n)
	var others []uint64
	for _, o := range layoutOf(t, b) {
		if o.t == object.Entry {
			for _, off := range o.items {
				if off != offs[len(others)] {
					others = append(others, off)
					break
				}
			}
		}
	}
	b[offs[1]+object.ObjType] = 99   // the value
	b[others[2]+object.ObjType] = 99 // the other field
	b[offs[3]+object.ObjType], b[others[3]+object.ObjType] = 99, 99
	path := filepath.Join(t.TempDir(), "v.journal")
	readerMust(t, os.WriteFile(path, b, 0o600))
	j := openSample(t, ReadOptions{}, path)
	r := j.NewReader()
	for i, want := range []struct{ found, ok bool }{{true, true}, {false, true}, {true, true}, {false, false}} {
		if k, err := j.Skip(1); k != 1 || err != nil {
			t.Fatal(k, err)
		}
		p, _ := j.Place()
		if _, _, found, ok := r.Value(&p, []byte("V=")); found != want.found || ok != want.ok {
			t.Errorf("entry %d: found %v, ok %v", i, found, ok)
		}
	}
	r.Close()
	f := j.files[0].f
	if f.unread != 1 || f.badFields != 1 || len(j.Warnings()) != 3 {
		t.Errorf("%d entries unread, %d fields, warnings %v", f.unread, f.badFields, j.Warnings())
	}
}

// fieldOf returns where the FIELD object of a name is.
func fieldOf(t *testing.T, b []byte, name string) uint64 {
	t.Helper()
	for _, o := range layoutOf(t, b) {
		if o.t == object.FieldName && string(b[o.off+object.FieldPayload:][:len(name)]) == name {
			return o.off
		}
	}
	t.Fatalf("no field %s", name)
	return 0
}

// A list of a field's objects that is damaged hides no value: it is not used, or what
// is not on it is found as without.
func TestReaderValueListDamaged(t *testing.T) {
	const n = 6
	for name, damage := range map[string]struct {
		do     func(b []byte, field uint64, offs []uint64)
		online bool
		want   listState
	}{
		"whole":         {func([]byte, uint64, []uint64) {}, false, listWhole},
		"being written": {func([]byte, uint64, []uint64) {}, true, listUnused},
		"cut short":     {func(b []byte, _ uint64, offs []uint64) { object.PutU64(b[offs[4]:], object.DataNextField, 0) }, false, listWhole},
		"empty":         {func(b []byte, field uint64, _ []uint64) { object.PutU64(b[field:], object.FieldHeadData, 0) }, false, listWhole},
		"forward":       {func(b []byte, _ uint64, offs []uint64) { object.PutU64(b[offs[2]:], object.DataNextField, offs[4]) }, false, listUnused},
		"to itself":     {func(b []byte, _ uint64, offs []uint64) { object.PutU64(b[offs[2]:], object.DataNextField, offs[2]) }, false, listUnused},
		"to nowhere":    {func(b []byte, _ uint64, offs []uint64) { object.PutU64(b[offs[2]:], object.DataNextField, offs[1]-8) }, false, listUnused},
		"no such name":  {func(b []byte, field uint64, _ []uint64) { b[field+object.FieldPayload] = 'X' }, false, listUnused},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, offs := valuesFile(t, n)
			field := fieldOf(t, b, "V")
			damage.do(b, field, offs)
			if damage.online {
				b[object.HdrState] = object.StateOnline
			}
			path := filepath.Join(t.TempDir(), "v.journal")
			readerMust(t, os.WriteFile(path, b, 0o600))
			j := openSample(t, ReadOptions{Map: true}, path)
			j.files[0].f.lazy = false
			j.files[0].f.loads = mapAfter
			j.files[0].f.mapDue()
			r := j.NewReader()
			defer r.Close()
			r.prefix, r.left, r.listAfter = []byte("V="), othersMax, 0
			for i := range n {
				moved(t, j.Next)
				p, _ := j.Place()
				value, _, found, ok := r.Value(&p, []byte("V="))
				e, _ := r.Read(&p)
				if want, _ := e.Get("V"); !ok || !found || string(value) != string(want) {
					t.Errorf("entry %d: %.20q %v %v, want %.20q", i, value, found, ok, want)
				}
			}
			if got := r.files[0].list.state; got != damage.want {
				t.Errorf("state of the list %d, want %d", got, damage.want)
			}
		})
	}
}

// Looking for a value allocates nothing.
func TestReaderValueAllocatesNothing(t *testing.T) {
	j := openSample(t, ReadOptions{Map: true}, sample(t, "r-10"))
	r := j.NewReader()
	defer r.Close()
	moved(t, j.Next)
	p, _ := j.Place()
	prefix := []byte("MESSAGE=")
	r.Value(&p, prefix)
	if n := testing.AllocsPerRun(100, func() { r.Value(&p, prefix) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

package entry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-log/tidemark/entry"
)

// What the reader accepts re-encodes to itself, errors are of the package's own
// type, and how the bytes arrive makes no difference.
func FuzzExportReader(f *testing.F) {
	f.Add([]byte(head1 + "MESSAGE=a\nE=\n" + bin("B", "x\ny") + "\nMESSAGE=b\n\n"))
	f.Add([]byte("\n\n__REALTIME_TIMESTAMP=0x5\nA=1\n\nbad\nB=" + bin("__X", "1") + "_BOOT_ID=\n\n"))
	f.Add([]byte(head1 + bin("A", "") + "A\n\xff\xff\xff\xff\x00\x00\x00\x00\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := entry.Limits{Field: 300, Entry: 1000, Fields: 8}
		r := entry.NewExportReader(bytes.NewReader(in), entry.ExportOptions{Limits: limits})
		first, err := readAll(r)
		var ee *entry.ExportError
		if err != nil && !errors.As(err, &ee) {
			t.Fatalf("error %v is not an ExportError", err)
		}
		slow := entry.NewExportReader(iotest.HalfReader(bytes.NewReader(in)), entry.ExportOptions{Limits: limits, Buffer: 16})
		got, slowErr := readAll(slow)
		// An endless entry is noticed later in a large buffer.
		if diff := cmp.Diff(first, got); diff != "" && !errors.Is(slowErr, entry.ErrExportEntry) {
			t.Errorf("entries by small reads (-whole +small):\n%s", diff)
		}
		reencode(t, first)
	})
}

// reencode writes entries, reads them again and compares.
func reencode(t *testing.T, entries []entry.Entry) {
	t.Helper()
	var out []byte
	var want []entry.Entry
	for i := range entries {
		e := &entries[i]
		if slices.ContainsFunc(e.Fields, func(f entry.Field) bool { return strings.HasPrefix(string(f), "__") }) {
			continue // possible in binary form only, and it would turn into text
		}
		out = entry.AppendExport(out, e)
		want = append(want, withoutBoot(e))
	}
	again, err := readAll(entry.NewExportReader(bytes.NewReader(out), entry.ExportOptions{}))
	if err != nil {
		t.Fatalf("own output %q: %v", out, err)
	}
	for i := range again {
		again[i] = withoutBoot(&again[i])
	}
	if diff := cmp.Diff(want, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("entries written and read again (-want +got):\n%s", diff)
	}
}

// withoutBoot returns e without _BOOT_ID fields: an export has the header's.
func withoutBoot(e *entry.Entry) entry.Entry {
	c := *e
	c.Fields = slices.DeleteFunc(slices.Clone(e.Fields), func(f entry.Field) bool { return string(f.Name()) == "_BOOT_ID" })
	return c
}

func FuzzNativeDecoder(f *testing.F) {
	f.Add([]byte("MESSAGE=a\nPRIORITY=1\n\n" + bin("B", "x\ny") + "_X=1\n.c\n\nA=1"))
	f.Add([]byte("A\n\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte(bin("AB", strings.Repeat("x", 300))))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := entry.NativeDecoder{Limits: entry.Limits{Field: 300, Entry: 1000, Fields: 8}, Spare: len(in) % 3}
		before := bytes.Clone(in)
		var first []entry.Entry
		var again []byte
		for i, e := range d.Decode(in) {
			first = append(first, clone(&e))
			if i > 0 {
				again = append(again, '\n')
			}
			again = entry.AppendNative(again, e.Fields)
			for _, f := range e.Fields {
				if !entry.ValidName(f.Name(), false) || len(f) == len(f.Name()) {
					t.Fatalf("field %q accepted", []byte(f))
				}
			}
		}
		if !bytes.Equal(before, in) {
			t.Fatal("the datagram was changed")
		}
		// The limit is lower for text than for binary fields, so not with limits.
		d = entry.NativeDecoder{}
		var second []entry.Entry
		for _, e := range d.Decode(again) {
			second = append(second, clone(&e))
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("entries written and read again (-want +got):\n%s", diff)
		}
		if d.Counts != (entry.NativeCounts{}) {
			t.Errorf("own output is dropped: %+v", d.Counts)
		}
	})
}

// The decoder accepts the objects that encoding/json accepts, and what it makes
// of them is valid.
func FuzzJSONDecoder(f *testing.F) {
	f.Add([]byte(`{"msg":"a\u00e9\ud83d\ude00","level":"info","a":{"b":[1,2],"c":[1.5e3,"x",null]},"_PID":1}`))
	f.Add([]byte(`{"":[],"1":{},"@timestamp":true} `))
	f.Fuzz(func(t *testing.T, in []byte) {
		var d entry.JSONDecoder
		e, _, err := d.Decode(in)
		var je *entry.JSONError
		if err != nil && !errors.As(err, &je) {
			t.Fatalf("error %v is not a JSONError", err)
		}
		trimmed := bytes.TrimLeft(in, " \t\r\n")
		valid := json.Valid(in) && len(trimmed) > 0 && trimmed[0] == '{'
		if valid != (err == nil) && !(valid && strings.Contains(err.Error(), "deeper")) {
			t.Fatalf("error %v, but valid is %v", err, valid)
		}
		for _, f := range e.Fields {
			if !entry.ValidName(f.Name(), false) || len(f) == len(f.Name()) {
				t.Fatalf("field %q made", []byte(f))
			}
		}
		if _, ok := e.Get("MESSAGE"); err == nil && !ok {
			t.Error("no MESSAGE")
		}
		checkJSON(t, &e)
	})
}

func FuzzAppendJSON(f *testing.F) {
	f.Add([]byte("A=1\x00A=2\x00B=\"\\\n\t\x01\x00__CURSOR=x\x00_BOOT_ID=z\x00bad=1\x00C=\xff"), true)
	f.Fuzz(func(t *testing.T, in []byte, pretty bool) {
		e := &entry.Entry{Realtime: 1}
		for f := range bytes.SplitSeq(in, []byte{0}) {
			e.Fields = append(e.Fields, f)
		}
		checkJSON(t, e)
		var a, b any
		for _, x := range []struct {
			o  entry.JSONOptions
			to *any
		}{{entry.JSONOptions{Pretty: pretty}, &a}, {entry.JSONOptions{}, &b}} {
			if err := json.Unmarshal(entry.AppendJSON(nil, e, x.o), x.to); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("pretty (-compact +pretty):\n%s", diff)
		}
	})
}

// checkJSON prints e as JSON, reads that with encoding/json and compares.
func checkJSON(t *testing.T, e *entry.Entry) {
	t.Helper()
	out := entry.AppendJSON(nil, e, entry.JSONOptions{All: true})
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("own output %q: %v", out, err)
	}
	want := map[string][]any{
		"__CURSOR":              {e.Cursor().String()},
		"__REALTIME_TIMESTAMP":  {jsonNumber(e.Realtime)},
		"__MONOTONIC_TIMESTAMP": {jsonNumber(e.Monotonic)},
		"_BOOT_ID":              {e.BootID.String()},
	}
	for _, f := range e.Fields {
		name := string(f.Name())
		if !entry.ValidName(f.Name(), true) || len(name) == len(f) || name == "_BOOT_ID" {
			continue
		}
		want[name] = append(want[name], jsonValue(f.Value()))
	}
	flat := map[string]any{}
	for name, values := range want {
		flat[name] = values[0]
		if len(values) > 1 {
			flat[name] = values
		}
	}
	if diff := cmp.Diff(flat, got); diff != "" {
		t.Errorf("JSON read by encoding/json (-want +got):\n%s", diff)
	}
}

// jsonValue is what encoding/json reads for a value.
func jsonValue(v []byte) any {
	if entry.Printable(v, true) {
		return string(v)
	}
	array := []any{}
	for _, c := range v {
		array = append(array, float64(c))
	}
	return array
}

func jsonNumber(v uint64) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func FuzzParseCursor(f *testing.F) {
	f.Add(cursorText)
	f.Add("t=5;q=;m=0")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := entry.ParseCursor(s)
		if err != nil {
			if !errors.Is(err, entry.ErrCursor) {
				t.Fatalf("error %v is not %v", err, entry.ErrCursor)
			}
			return
		}
		again, err := entry.ParseCursor(c.String())
		if err != nil || again != c {
			t.Errorf("%q is printed as %q, which reads as %v, %v", s, c, again, err)
		}
	})
}

package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// texts are such as are left alone, and such as are changed.
var texts = [...]string{"plain ", "µs\x7f ", "\" ", "\\ ", "\x01 ", "< ", "> ", "& ", "\u2028 ", "\u2029 ", "\xff "}

// fill gives every field below v a value of its own, so that one that is left out of
// an encoding, or in the place of another, shows.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint(texts[*n%uint64(len(texts))], *n))
	case reflect.Uint64:
		v.SetUint(1<<63 + *n)
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("fill has no value for " + v.Kind().String())
	}
}

// The quick encoding of a status is that of encoding/json, whatever it has, and had the
// last time.
func TestStatusAsJSON(t *testing.T) {
	var full Status
	n := uint64(0)
	fill(reflect.ValueOf(&full).Elem(), &n)
	turned := full
	turned.Counts = slices.Clone(full.Counts)
	slices.Reverse(turned.Counts)
	more := full
	more.Counts = append(slices.Clone(turned.Counts), full.Counts...)
	empty := keptStatus{Status: Status{Endpoints: []Endpoint{}, Files: []File{{}}, Counts: []Count{{"a", "b", 1}}}}
	var kept keptStatus
	for i, s := range []Status{full, turned, full, empty.Status, more, {}, full} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		kept.Status = s
		if got := kept.appendJSON(nil); string(got) != string(want) {
			t.Errorf("status %d:\ngot  %s\nwant %s", i, got, want)
		}
	}
	if room := make([]byte, 0, 16<<10); testing.AllocsPerRun(10, func() { _ = empty.appendJSON(room) }) != 0 {
		t.Error("a status of plain texts is encoded with allocations")
	}
}

// A plain call is understood as quickly, and no other.
func TestPlainCall(t *testing.T) {
	for _, tt := range []struct {
		message, method string
	}{
		{`{"method":"org.varlink.service.GetInfo"}`, "org.varlink.service.GetInfo"},
		{`{"method":"a.B","parameters":{}}`, "a.B"},
		{`{"method":""}`, ""},
		{`{"method":"a\u0062"}`, ""},
		{`{"method":"aé"}`, ""},
		{`{"method":"a.B","oneway":true}`, ""},
		{`{"method":"a.B","parameters":{}`, ""},
		{`{"method":"a.B"} `, ""},
		{`{"method":"a.B`, ""},
		{``, ""},
	} {
		got, ok := plainCall([]byte(tt.message))
		if got != tt.method || ok != (tt.method != "") {
			t.Errorf("%s: %q %t", tt.message, got, ok)
		}
		if in, err := parseCall([]byte(tt.message)); ok && (err != nil || in.Method != got || len(in.Parameters) > 0 || in.Oneway || in.More) {
			t.Errorf("%s: %+v %v", tt.message, in, err)
		}
	}
}

package journal

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// maxHandlerSpare is the size up to which the memory of a record is used again.
const maxHandlerSpare = 64 << 10

// maxHandlerFields bounds the fields of an entry, as journald does.
const maxHandlerFields = entry.DefaultMaxFields

// record is an entry in the making.
type record struct {
	arena   []byte // all fields, one after the other
	ends    []int  // where each ends
	name    []byte // keys up to here, joined
	counts  entry.JSONCounts
	list    []entry.Field
	entries []entry.Entry
}

func (r *record) begin() {
	if cap(r.arena) > maxHandlerSpare {
		r.arena = nil
	}
	r.arena, r.ends, r.name, r.counts = r.arena[:0], r.ends[:0], r.name[:0], entry.JSONCounts{}
}

// add adds a field of a name of ours, with its '='.
func (r *record) add(name string, value func(b []byte) []byte) {
	r.arena = value(append(r.arena, name...))
	r.ends = append(r.ends, len(r.arena))
}

// fields are those before and those of the record. They are valid until the next
// begin.
func (r *record) fields(before []entry.Field) []entry.Field {
	r.list = append(r.list[:0], before...)
	from := 0
	for _, end := range r.ends {
		r.list = append(r.list, r.arena[from:end:end])
		from = end
	}
	if n := len(r.list) - maxHandlerFields; n > 0 {
		r.counts.TooMany += n
		r.list = r.list[:maxHandlerFields]
	}
	return r.list
}

// attr adds an attribute: a field, those of its members, or nothing.
func (r *record) attr(a slog.Attr) {
	v := a.Value.Resolve()
	if a.Key == "" && v.Equal(slog.Value{}) {
		return
	}
	outer := len(r.name)
	r.name = entry.AppendKey(r.name, a.Key)
	switch v.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			r.name = append(r.name, '_')
		}
		for _, member := range v.Group() {
			r.attr(member)
		}
	case slog.KindAny:
		r.any(v.Any())
	default:
		r.field(func(b []byte) []byte { return appendValue(b, v) })
	}
	r.name = r.name[:outer]
}

// field adds a field with the current name.
func (r *record) field(value func(b []byte) []byte) {
	from := len(r.arena)
	r.arena = r.counts.AppendName(r.arena, r.name)
	switch string(r.arena[from:]) {
	case "MESSAGE", "PRIORITY", "TIMESTAMP": // not to be taken for the record's own
		name := "FIELD_" + string(r.arena[from:])
		r.arena = append(r.arena[:from], name...)
	}
	r.arena = value(append(r.arena, '='))
	r.ends = append(r.ends, len(r.arena))
}

// appendValue appends a value of a kind that is one text.
func appendValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return append(b, v.String()...)
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindFloat64:
		return strconv.AppendFloat(b, v.Float64(), 'g', -1, 64)
	case slog.KindTime:
		return appendTime(b, v.Time())
	default:
		return append(b, v.String()...)
	}
}

func appendTime(b []byte, t time.Time) []byte { return t.AppendFormat(b, time.RFC3339Nano) }

// any adds a value of no ordinary kind. A nil pointer in it may make its methods
// panic, which is no reason to lose the record.
func (r *record) any(x any) {
	before := len(r.ends)
	defer func() {
		if p := recover(); p != nil && len(r.ends) == before {
			r.field(func(b []byte) []byte { return fmt.Appendf(b, "!PANIC: %v", p) })
		}
	}()
	text := func(s string) { r.field(func(b []byte) []byte { return append(b, s...) }) }
	switch x := x.(type) {
	case nil:
		r.counts.Null++
	case error:
		text(x.Error())
	case []byte:
		text(string(x))
	case []string:
		for _, s := range x {
			text(s)
		}
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			b = []byte("!ERROR: " + err.Error())
		}
		text(string(b))
	case fmt.Stringer:
		text(x.String())
	default:
		b, err := json.Marshal(x)
		if err != nil {
			text(fmt.Sprintf("%+v", x))
			return
		}
		r.json(b)
	}
}

// json adds the fields of a JSON value.
func (r *record) json(value []byte) {
	// One level down no name has a meaning of its own. The decoder puts its own in
	// front, which is cut off again.
	const outer = "X"
	line := append(append([]byte(`{"`+outer+`":{"`+outer+`":`), value...), "}}"...)
	var d entry.JSONDecoder
	e, counts, err := d.Decode(line)
	if err != nil {
		r.field(func(b []byte) []byte { return append(b, value...) })
		return
	}
	r.counts.Null += counts.Null
	r.counts.TooMany += counts.TooMany
	for _, f := range e.Fields {
		inner, ok := bytes.CutPrefix(f.Name(), []byte(outer+"_"+outer))
		if !ok {
			continue // MESSAGE, which the decoder adds
		}
		before := len(r.name)
		r.name = entry.AppendKey(r.name, inner)
		r.field(func(b []byte) []byte { return append(b, f.Value()...) })
		r.name = r.name[:before]
	}
}

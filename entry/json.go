package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// JSONThreshold is the length in bytes of NAME=value from which journalctl
// prints null instead of the value.
const JSONThreshold = 4096

// JSONOptions are the options of AppendJSON.
type JSONOptions struct {
	// All prints values of any length (journalctl -a).
	All bool
	// Pretty prints one key per line, indented by tabs.
	Pretty bool
	// OutputFields limits the fields to these names, if not nil. The four keys
	// of the head are always printed.
	OutputFields map[string]bool
}

// AppendJSON appends e as one JSON object by journalctl's rules, without a line
// end: every value is a string; a value that is not printable an array of byte
// numbers; one from JSONThreshold on null; and a name that occurs several times
// has an array of its values.
//
// The order of keys is __CURSOR, __REALTIME_TIMESTAMP, __MONOTONIC_TIMESTAMP,
// _BOOT_ID, then the fields in the order of first appearance. Fields with an
// invalid name are left out.
func AppendJSON(b []byte, e *Entry, o JSONOptions) []byte {
	var room [64]jsonField
	fields, dunder := jsonFields(room[:0], e, o)
	if dunder {
		// A stored field is called like one of the head: print the head as
		// fields, so that the name stands once.
		fields, _ = jsonFields(headFields(e), e, o)
		return appendObject(b, fields, o, true)
	}
	return appendObject(AppendJSONHead(b, e, o), fields, o, false)
}

// AppendJSONHead appends what an object of AppendJSON begins with: the brace and
// the keys __CURSOR, __REALTIME_TIMESTAMP, __MONOTONIC_TIMESTAMP and _BOOT_ID
// with their values, without a comma behind.
func AppendJSONHead(b []byte, e *Entry, o JSONOptions) []byte {
	open, sep, colon := `{"`, `,"`, `":"`
	if o.Pretty {
		open, sep, colon = "{\n\t\"", ",\n\t\"", `" : "`
	}
	b = append(append(append(b, open...), "__CURSOR"...), colon...)
	b = append(e.Cursor().AppendTo(b), '"')
	b = append(append(append(b, sep...), "__REALTIME_TIMESTAMP"...), colon...)
	b = append(strconv.AppendUint(b, e.Realtime, 10), '"')
	b = append(append(append(b, sep...), "__MONOTONIC_TIMESTAMP"...), colon...)
	b = append(strconv.AppendUint(b, e.Monotonic, 10), '"')
	b = append(append(append(b, sep...), "_BOOT_ID"...), colon...)
	return append(hex.AppendEncode(b, e.BootID[:]), '"')
}

// jsonField is a field on its way to JSON.
type jsonField struct {
	f    Field
	name int    // length of the name
	key  uint64 // equal names have equal keys
	done bool   // printed with an earlier one of that name
}

// jsonFields appends the fields of e that are to be printed. dunder tells that
// one of them has a name that begins with "__".
func jsonFields(dst []jsonField, e *Entry, o JSONOptions) (fields []jsonField, dunder bool) {
	for _, f := range e.Fields {
		n := nameLen(f)
		if n == len(f) || f[n] != '=' || !validStart(f, n, true) {
			continue
		}
		if isBootID(f) || o.OutputFields != nil && !o.OutputFields[string(f[:n])] {
			continue
		}
		dunder = dunder || f[0] == '_' && f[1] == '_'
		dst = append(dst, jsonField{f: f, name: n, key: nameKey(f[:n])})
	}
	return dst, dunder
}

// nameKey is a cheap hash of a name, and other for most different names.
func nameKey(name []byte) uint64 {
	n := len(name)
	if n < 8 {
		var k uint64
		for _, c := range name {
			k = k<<8 | uint64(c)
		}
		return k
	}
	return binary.LittleEndian.Uint64(name)*3 ^ binary.LittleEndian.Uint64(name[n-8:]) ^ uint64(n)<<56
}

// headFields returns the keys of the head as fields.
func headFields(e *Entry) []jsonField {
	var fields []jsonField
	add := func(name, value string) {
		fields = append(fields, jsonField{f: Field(name + "=" + value), name: len(name), key: nameKey([]byte(name))})
	}
	add("__CURSOR", e.Cursor().String())
	add("__REALTIME_TIMESTAMP", strconv.FormatUint(e.Realtime, 10))
	add("__MONOTONIC_TIMESTAMP", strconv.FormatUint(e.Monotonic, 10))
	add("_BOOT_ID", e.BootID.String())
	return fields
}

// appendObject appends the fields and closes the object; first tells that
// nothing stands before them.
func appendObject(b []byte, fields []jsonField, o JSONOptions, first bool) []byte {
	for i := range fields {
		x := &fields[i]
		if x.done {
			continue
		}
		switch {
		case first:
			b = append(b, '{')
			first = false
		default:
			b = append(b, ',')
		}
		if o.Pretty {
			b = append(b, '\n', '\t')
		}
		b = append(b, '"')
		b = append(b, x.f[:x.name]...)
		b = append(b, '"')
		if o.Pretty {
			b = append(b, " : "...)
		} else {
			b = append(b, ':')
		}
		b = appendValues(b, fields[i:], o)
	}
	if o.Pretty {
		b = append(b, '\n')
	}
	return append(b, '}')
}

// appendValues appends the value of fields[0], or the array of the values of
// all that are called so.
func appendValues(b []byte, fields []jsonField, o JSONOptions) []byte {
	x := &fields[0]
	array := false
	for j := 1; j < len(fields); j++ {
		y := &fields[j]
		if y.key != x.key || y.done || !bytes.Equal(y.f[:y.name], x.f[:x.name]) {
			continue
		}
		if !array {
			array = true
			b = append(b, '[')
			b = appendElement(b, x, o)
		}
		b = append(b, ',')
		b = appendElement(b, y, o)
		y.done = true
	}
	if !array {
		return AppendJSONValue(b, x.f, x.name, o, 1)
	}
	if o.Pretty {
		b = append(b, '\n', '\t')
	}
	return append(b, ']')
}

func appendElement(b []byte, x *jsonField, o JSONOptions) []byte {
	if o.Pretty {
		b = append(b, '\n', '\t', '\t')
	}
	return AppendJSONValue(b, x.f, x.name, o, 2)
}

// AppendJSONValue appends the value of f, whose name has nameLen bytes, as a
// JSON string, array of bytes or null. depth is how deep it stands, for Pretty.
func AppendJSONValue(b []byte, f Field, nameLen int, o JSONOptions, depth int) []byte {
	value := f[nameLen+1:]
	switch {
	case !o.All && len(f) >= JSONThreshold:
		return append(b, "null"...)
	case JSONPlain(value):
		b = append(b, '"')
		b = append(b, value...)
		return append(b, '"')
	case Printable(value, true):
		b = append(b, '"')
		b = appendEscaped(b, value)
		return append(b, '"')
	default:
		return appendByteArray(b, value, o.Pretty, depth)
	}
}

// JSONPlain reports whether b is printable ASCII without what JSON wants escaped:
// between quotes it is a JSON string as it is.
func JSONPlain(b []byte) bool {
	n := len(b)
	if n < 8 {
		for _, c := range b {
			if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
				return false
			}
		}
		return true
	}
	for i := 0; i < n-8; i += 8 {
		if !plainWord(binary.LittleEndian.Uint64(b[i:])) {
			return false
		}
	}
	return plainWord(binary.LittleEndian.Uint64(b[n-8:]))
}

// plainWord is JSONPlain for eight bytes.
func plainWord(x uint64) bool {
	del, quote, back := x^0x7f*ones, x^'"'*ones, x^'\\'*ones
	found := x | (x-0x20*ones)&^x | (del-ones)&^del | (quote-ones)&^quote | (back-ones)&^back
	return found&high == 0
}

// appendEscaped appends printable text with what JSON wants escaped.
func appendEscaped(b, text []byte) []byte {
	from := 0
	for i, c := range text {
		var short byte
		switch c {
		case '"', '\\':
			short = c
		case '\n':
			short = 'n'
		case '\t':
			short = 't'
		default:
			continue
		}
		b = append(b, text[from:i]...)
		b = append(b, '\\', short)
		from = i + 1
	}
	return append(b, text[from:]...)
}

// appendByteArray appends value as an array of numbers.
func appendByteArray(b, value []byte, pretty bool, depth int) []byte {
	b = append(b, '[')
	line := func(depth int) {
		if !pretty {
			return
		}
		b = append(b, '\n')
		for range depth {
			b = append(b, '\t')
		}
	}
	for i, c := range value {
		if i > 0 {
			b = append(b, ',')
		}
		line(depth + 1)
		b = strconv.AppendUint(b, uint64(c), 10)
	}
	line(depth)
	return append(b, ']')
}

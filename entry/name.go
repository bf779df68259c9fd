package entry

import "bytes"

// MaxNameLen is the longest field name in bytes.
const MaxNameLen = 64

// Limits bound what the decoders of this package accept. A zero member means
// systemd's own limit.
type Limits struct {
	// Field is the longest field in bytes: NAME=value of a text field, the value
	// of a binary one. 0 means DefaultMaxField.
	Field int
	// Entry is the longest entry in bytes as it is serialized. 0 means
	// DefaultMaxEntry.
	Entry int
	// Fields is the highest number of fields in an entry. 0 means
	// DefaultMaxFields.
	Fields int
}

// The limits of systemd's journal-importer.h.
const (
	// DefaultMaxField is DATA_SIZE_MAX, in bytes.
	DefaultMaxField = 768 << 20
	// DefaultMaxEntry is ENTRY_SIZE_MAX, in bytes.
	DefaultMaxEntry = 770 << 20
	// DefaultMaxFields is ENTRY_FIELD_COUNT_MAX.
	DefaultMaxFields = 1024
)

// withDefaults fills in the members that are zero.
func (l Limits) withDefaults() Limits {
	if l.Field <= 0 {
		l.Field = DefaultMaxField
	}
	if l.Entry <= 0 {
		l.Entry = DefaultMaxEntry
	}
	if l.Fields <= 0 {
		l.Fields = DefaultMaxFields
	}
	return l
}

// isNameByte says which bytes may stand in a field name.
var isNameByte = nameBytes()

func nameBytes() (t [256]bool) {
	for c := 'A'; c <= 'Z'; c++ {
		t[c] = true
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	t['_'] = true
	return t
}

// ValidName reports whether name may be a field name: 1 to 64 bytes of
// [A-Z0-9_], not beginning with a digit; beginning with '_', as only trusted
// fields do, if allowUnderscore is set.
func ValidName(name []byte, allowUnderscore bool) bool {
	n := nameLen(name)
	return n == len(name) && validStart(name, n, allowUnderscore)
}

// AppendKey appends a key, of JSON or of a logger, to name in the bytes that names may
// have: upper-cased, others as '_'. Members of an object get its name and a '_' in
// front. A name that is too long ends some bytes after MaxNameLen, so that it is known
// as such.
func AppendKey[K string | []byte](name []byte, key K) []byte {
	for i := range len(key) {
		// An underscore that will be dropped is not counted.
		if len(name) > 2*MaxNameLen {
			break
		}
		c := key[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if !isNameByte[c] {
			c = '_'
		}
		name = append(name, c)
	}
	return name
}

// AppendName appends to b the field name for what AppendKey has made of keys: without
// the '_'s that it begins with, FIELD for nothing and FIELD_ before a digit, at most
// MaxNameLen bytes. It counts what it leaves out.
func (c *JSONCounts) AppendName(b, name []byte) []byte {
	from := len(b)
	if len(name) > 0 && name[0] == '_' {
		c.Underscores++
		name = bytes.TrimLeft(name, "_")
	}
	switch {
	case len(name) == 0:
		return append(b, "FIELD"...)
	case name[0] <= '9':
		b = append(b, "FIELD_"...)
	}
	b = append(b, name...)
	if len(b)-from > MaxNameLen {
		c.Cut++
		b = b[:from+MaxNameLen]
	}
	return b
}

// nameLen counts the name bytes b begins with; MaxNameLen+1 stands for "too
// many".
func nameLen(b []byte) int {
	if len(b) > MaxNameLen+1 {
		b = b[:MaxNameLen+1]
	}
	for i, c := range b {
		if !isNameByte[c] {
			return i
		}
	}
	return len(b)
}

// validStart reports whether the n name bytes that b begins with are a valid
// name, n being from nameLen.
func validStart(b []byte, n int, allowUnderscore bool) bool {
	if n == 0 || n > MaxNameLen {
		return false
	}
	c := b[0]
	return c >= 'A' && (c != '_' || allowUnderscore)
}

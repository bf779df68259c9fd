package render

import (
	"bytes"
	"slices"

	"github.com/tidemark-log/tidemark/entry"
)

// knower is a format that is faster when it is told which fields it has printed
// before: ids has a number for each field of e, and fields with the same number
// are equal; 0 says nothing.
type knower interface {
	appendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error)
}

// PrintKnown is Print of an entry whose fields have ids. Fields with the same id
// must be equal, in all calls; 0 is no id.
func (p *Formatter) PrintKnown(e *entry.Entry, ids []uint64) error {
	b, err := p.AppendKnown(p.buf[:0], e, ids)
	return p.put(b, err)
}

// AppendKnown appends to b what PrintKnown prints.
func (p *Formatter) AppendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error) {
	if k, ok := p.f.(knower); ok && len(ids) == len(e.Fields) {
		return k.appendKnown(b, e, ids)
	}
	return p.f.append(b, e)
}

// Fields returns the names of the only fields that Print looks at; nil: all.
func (p *Formatter) Fields() []string {
	switch f := p.f.(type) {
	case *short:
		if f.o.Explain != nil {
			return nil // any of them may be put into an explanation
		}
		return slices.Clone(headerFields[:])
	case *cat:
		if len(f.o.OutputFields) == 0 {
			return []string{"MESSAGE", "PRIORITY"}
		}
		return append(slices.Clone(f.o.OutputFields), "PRIORITY")
	case *json:
		return slices.Clone(f.only)
	default:
		return nil
	}
}

// knownField is what was found out about a field.
type knownField struct {
	id    uint64
	name  uint8 // length of its name
	no    uint8 // number of its name, of json
	class class
}

// class says how a field is printed.
type class uint8

const (
	unknown class = iota
	plain         // as it is
	omitted       // not at all
	special       // by the rules
)

const (
	knownBits = 13
	// knownSize is the number of fields that are remembered, 16 bytes each.
	knownSize = 1 << knownBits
)

// knownFields remembers fields by their ids: of those that share a place the one
// that came last.
type knownFields []knownField

// place returns where the field called id is remembered. Whether it is, is for
// the caller to see.
func (k *knownFields) place(id uint64) *knownField {
	if *k == nil {
		*k = make(knownFields, knownSize)
	}
	return &(*k)[id*0x9e3779b97f4a7c15>>(64-knownBits)]
}

func (x *export) appendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error) {
	b = entry.AppendExportHead(b, e)
	for i, f := range e.Fields {
		k := x.known.place(ids[i])
		if k.id != ids[i] || k.class == unknown {
			k.id, k.class = ids[i], x.classify(f)
		}
		switch k.class {
		case plain:
			b = append(append(b, f...), '\n')
		case omitted:
		case special, unknown:
			var err error
			if b, err = x.appendField(b, f); err != nil {
				return b, err
			}
		}
		if ids[i] == 0 {
			k.class = unknown
		}
	}
	return append(b, '\n'), nil
}

func (x *export) classify(f entry.Field) class {
	name := f.Name()
	switch {
	case bytes.HasPrefix(f, bootIDPrefix):
		return omitted
	case len(name) == len(f) || !entry.ValidName(name, true):
		return special
	case !x.filter.has(name):
		return omitted
	case entry.Printable(f, false):
		return plain
	default:
		return special
	}
}

// maxNames is how many names json tells apart by a bit each.
const maxNames = 64

func (j *json) appendKnown(b []byte, e *entry.Entry, ids []uint64) ([]byte, error) {
	if j.o.Pretty {
		return j.append(b, e)
	}
	from := len(b)
	b = append(b, j.before...)
	b = entry.AppendJSONHead(b, e, j.o)
	seen := uint64(0)
	for i, f := range e.Fields {
		k := j.known.place(ids[i])
		if k.id != ids[i] || k.class == unknown {
			*k = j.classify(f)
			k.id = ids[i]
		}
		c := k.class
		if ids[i] == 0 {
			k.class = unknown
		}
		if c == omitted {
			continue
		}
		if k.no >= maxNames || seen&(1<<k.no) != 0 {
			// A name that occurs twice, or one that is not told apart.
			return j.append(b[:from], e)
		}
		seen |= 1 << k.no
		n := int(k.name)
		b = append(b, `,"`...)
		b = append(b, f[:n]...)
		if c == plain {
			b = append(b, `":"`...)
			b = append(b, f[n+1:]...)
			b = append(b, '"')
			continue
		}
		b = append(b, `":`...)
		b = entry.AppendJSONValue(b, f, n, j.o, 1)
	}
	b = append(b, '}')
	return append(b, j.tail...), nil
}

func (j *json) classify(f entry.Field) knownField {
	name := f.Name()
	n := len(name)
	if n == len(f) || !entry.ValidName(name, true) || bytes.HasPrefix(f, bootIDPrefix) ||
		j.o.OutputFields != nil && !j.o.OutputFields[string(name)] {
		return knownField{class: omitted}
	}
	k := knownField{class: special, name: uint8(n), no: maxNames} //nolint:gosec // a name has at most 64 bytes
	if bytes.HasPrefix(name, []byte("__")) {
		return k // it may be called like what stands at the head
	}
	if (j.o.All || len(f) < entry.JSONThreshold) && entry.JSONPlain(f[n+1:]) {
		k.class = plain
	}
	no, ok := j.names[string(name)]
	if !ok && len(j.names) < maxNames {
		no, ok = uint8(len(j.names)), true //nolint:gosec // below 64
		j.names[string(name)] = no
	}
	if ok {
		k.no = no
	}
	return k
}

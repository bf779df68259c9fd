package render

import "github.com/tidemark-log/tidemark/entry"

// json prints an object an entry, framed as the mode says.
type json struct {
	o            entry.JSONOptions
	before, tail string

	only  []string // names of the fields to print; nil: all
	known knownFields
	names map[string]uint8 // numbers of the names in known
}

func newJSON(m Mode, o Options) *json {
	j := &json{names: make(map[string]uint8), o: entry.JSONOptions{All: o.All, Pretty: m == JSONPretty}}
	if len(o.OutputFields) > 0 {
		j.o.OutputFields = newFilter(o.OutputFields)
		j.only = o.OutputFields
	}
	j.before, j.tail = m.Frame()
	return j
}

// Frame returns what stands before and behind each value of a json mode.
func (m Mode) Frame() (before, behind string) {
	switch m {
	case JSONSSE:
		return "data: ", "\n\n"
	case JSONSeq:
		return "\x1e", "\n"
	default:
		return "", "\n"
	}
}

func (j *json) append(b []byte, e *entry.Entry) ([]byte, error) {
	b = append(b, j.before...)
	b = entry.AppendJSON(b, e, j.o)
	return append(b, j.tail...), nil
}

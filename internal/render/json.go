package render

import "github.com/tidemark-log/tidemark/entry"

// json prints an object an entry, framed as the mode says.
type json struct {
	o            entry.JSONOptions
	before, tail string
}

func newJSON(m Mode, o Options) *json {
	j := &json{o: entry.JSONOptions{All: o.All, Pretty: m == JSONPretty}, tail: "\n"}
	if len(o.OutputFields) > 0 {
		j.o.OutputFields = newFilter(o.OutputFields)
	}
	switch m {
	case JSONSSE:
		j.before, j.tail = "data: ", "\n\n"
	case JSONSeq:
		j.before = "\x1e"
	default:
	}
	return j
}

func (j *json) append(b []byte, e *entry.Entry) ([]byte, error) {
	b = append(b, j.before...)
	b = entry.AppendJSON(b, e, j.o)
	return append(b, j.tail...), nil
}

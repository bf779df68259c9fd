package render

import (
	"bytes"
	"errors"

	"github.com/tidemark-log/tidemark/entry"
)

// errInvalidField ends the output as it ends journalctl's.
var errInvalidField = errors.New("Invalid field.") //nolint:revive,staticcheck // journalctl's words

// filter is the set of --output-fields; nil lets everything through.
type filter map[string]bool

func newFilter(names []string) filter {
	if len(names) == 0 {
		return nil
	}
	f := make(filter, len(names))
	for _, n := range names {
		f[n] = true
	}
	return f
}

func (f filter) has(name []byte) bool { return f == nil || f[string(name)] }

// verbose prints all fields, one below the other, under time and cursor.
type verbose struct {
	o      Options
	filter filter
	stamp  *stamper
}

func newVerbose(o Options) *verbose {
	return &verbose{o: o, filter: newFilter(o.OutputFields), stamp: newStamper(stampFull, true, o.Location)}
}

func (v *verbose) append(b []byte, e *entry.Entry) ([]byte, error) {
	b = v.appendTitle(b, e)
	for _, f := range e.Fields {
		name := f.Name()
		if len(name) == len(f) || !entry.ValidName(name, true) {
			return b, errInvalidField
		}
		if !v.filter.has(name) {
			continue
		}
		on, off := v.colors(f)
		b = append(append(b, "    "...), on...)
		b = append(append(b, name...), '=')
		value := f[len(name)+1:]
		if v.o.All || (!v.o.NoFull || len(f) < printChars) && entry.Printable(f, true) {
			t := text{indent: 4 + len(name) + 1, full: true, cstrings: v.o.All}
			b = t.append(b, value)
			b = append(b, off...)
		} else {
			b = appendBlob(b, len(value), off)
			b = append(b, '\n')
		}
	}
	return v.o.appendExplained(b, e), nil
}

// appendTitle writes the line with time and cursor.
func (v *verbose) appendTitle(b []byte, e *entry.Entry) []byte {
	var h header
	for _, f := range e.Fields {
		h.takeTime(f)
	}
	t, _ := h.times(e)
	b = append(v.stamp.append(b, t), " ["...)
	return append(e.Cursor().AppendTo(b), "]\n"...)
}

func (v *verbose) colors(f entry.Field) (on, off string) {
	if v.o.Colors != None && bytes.HasPrefix(f, []byte("MESSAGE=")) {
		return ansiHighlight, ansiNormal
	}
	return "", ""
}

// cat prints the bare message, or the first value of each field asked for.
type cat struct {
	o       Options
	palette palette
}

func (c *cat) append(b []byte, e *entry.Entry) ([]byte, error) {
	var on, highlight, off string
	if c.o.Colors != None {
		priority, _ := e.Get("PRIORITY")
		on, highlight, off = c.palette.priority(priority, false)
	}
	if len(c.o.OutputFields) == 0 {
		if v, ok := e.Get("MESSAGE"); ok {
			b = c.appendValue(b, v, on, highlight, off)
		}
		return b, nil
	}
	for _, name := range c.o.OutputFields {
		if v, ok := e.Get(name); ok {
			if name == "MESSAGE" {
				b = c.appendValue(b, v, on, highlight, off)
				continue
			}
			b = append(append(append(b, on...), v...), off...)
			b = append(b, '\n')
		}
	}
	return b, nil
}

func (c *cat) appendValue(b, v []byte, on, highlight, off string) []byte {
	b = append(b, on...)
	if c.o.Colors != None {
		from, to := 0, 0
		if c.o.Highlight != nil {
			from, to, _ = c.o.Highlight(v)
		}
		b = append(append(b, v[:from]...), highlight...)
		b = append(append(b, v[from:to]...), on...)
		v = v[to:]
	}
	return append(append(append(b, v...), off...), '\n')
}

// export prints the Journal Export Format.
type export struct {
	filter filter
	known  knownFields
}

var bootIDPrefix = []byte("_BOOT_ID=")

func (x *export) append(b []byte, e *entry.Entry) ([]byte, error) {
	b = entry.AppendExportHead(b, e)
	for _, f := range e.Fields {
		if bytes.HasPrefix(f, bootIDPrefix) {
			continue // the head has it
		}
		var err error
		if b, err = x.appendField(b, f); err != nil {
			return b, err
		}
	}
	return append(b, '\n'), nil
}

func (x *export) appendField(b []byte, f entry.Field) ([]byte, error) {
	name := f.Name()
	if len(name) == len(f) || !entry.ValidName(name, true) {
		return b, errInvalidField
	}
	if x.filter.has(name) {
		b = entry.AppendExportField(b, f)
	}
	return b, nil
}

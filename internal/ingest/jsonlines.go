package ingest

import (
	"github.com/tidemark-log/tidemark/entry"
)

// JSONDecoder turns the lines of one HTTP request into entries with their
// trusted fields: _TRANSPORT=http, _SOURCE_ADDR, and those of this machine. It
// is not safe for concurrent use.
type JSONDecoder struct {
	// Counts grow from line to line: what was changed or left out.
	Counts entry.JSONCounts

	decoder   entry.JSONDecoder
	source    entry.Field
	in        *Ingest
	transport entry.Field
}

// jsonSpare is how many fields are added to those of a line.
const jsonSpare = 8

// NewJSONDecoder makes the decoder for a request from peer, the address of a
// client without its port; empty on a Unix socket. It may be called
// concurrently, also while Run runs and after.
func (in *Ingest) NewJSONDecoder(peer string) *JSONDecoder {
	d := &JSONDecoder{in: in, transport: in.words.http, decoder: entry.JSONDecoder{Spare: jsonSpare}}
	if peer != "" {
		d.source = entry.Field("_SOURCE_ADDR=" + peer)
	}
	now, _ := in.now()
	in.host.refresh(now)
	return d
}

// Decode reads one JSON object as entry.JSONDecoder does. The entry is valid
// until the next call; it has no fields when its level is not to be stored. The error is a *entry.JSONError.
func (d *JSONDecoder) Decode(line []byte) (entry.Entry, error) {
	e, counts, err := d.decoder.Decode(line)
	d.Counts.Underscores += counts.Underscores
	d.Counts.Cut += counts.Cut
	d.Counts.Null += counts.Null
	d.Counts.TooMany += counts.TooMany
	if err != nil {
		return entry.Entry{}, err
	}
	if !d.in.stores(levelOfEntry(&e)) {
		d.in.counts.add(httpLevel, 1)
		return entry.Entry{}, nil
	}
	e.Fields = append(e.Fields, d.transport)
	if d.source != nil {
		e.Fields = append(e.Fields, d.source)
	}
	e.Fields = append(e.Fields, d.in.host.fields()...)
	return e, nil
}

// levelOfEntry is the level that PRIORITY gives, or the one of messages without.
func levelOfEntry(e *entry.Entry) uint8 {
	if v, _ := e.Get("PRIORITY"); len(v) == 1 && v[0] >= '0' && v[0] <= '7' {
		return v[0] - '0'
	}
	return defaultPriority
}

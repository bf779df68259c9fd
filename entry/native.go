package entry

import (
	"bytes"
	"encoding/binary"
	"math"
)

// NativeCounts counts what a NativeDecoder has dropped, by reason.
type NativeCounts struct {
	// BadNames: fields with an invalid name or one that begins with '_'.
	BadNames uint64
	// Noise: last lines without a newline.
	Noise uint64
	// Malformed: datagrams that end inside a binary field or whose binary field
	// is not followed by a newline. The fields before it are kept.
	Malformed uint64
	// TooMany: entries with more fields than the limit, dropped whole.
	TooMany uint64
	// TooLarge: entries with a field, or as a whole, over the limit, dropped
	// whole.
	TooLarge uint64
	// Empty: entries without any valid field.
	Empty uint64
}

// NativeDecoder reads bodies of the journald native protocol. The zero value is
// ready for use. It keeps its buffers from call to call, so a steady stream of
// datagrams allocates nothing. It is not safe for concurrent use.
type NativeDecoder struct {
	// Counts grow from call to call; the owner may read and reset them.
	Counts NativeCounts
	// Limits bound one entry; zero means journald's limits.
	Limits Limits
	// Spare is how many more fields the caller may append to Entry.Fields of each
	// entry without an allocation and without touching its neighbours.
	Spare int

	entries []Entry
	fields  []Field // of all entries, each followed by Spare free slots
	ends    []int   // per entry: end of its fields in fields
	arena   []byte  // NAME=value of binary fields
}

// keepArena is the largest arena in bytes that is kept for the next datagram.
const keepArena = 1 << 20

// Decode returns the entries of one datagram, or of the contents of a passed
// file. Text fields alias the datagram, binary ones a buffer of d; all of it is
// borrowed until the next call. Realtime is left 0, and Urgent is set when the
// last PRIORITY of an entry is 0, 1 or 2.
//
// Fields with an invalid name or a leading '_' are dropped, lines that begin
// with '.' or '#' ignored. A last line without newline is dropped, a malformed
// binary field ends the datagram; what came before is kept. One difference to
// journald 252 is on purpose: an entry without valid fields, or with too many,
// does not end the datagram, so that the entries behind it are not lost.
func (d *NativeDecoder) Decode(datagram []byte) []Entry {
	entries, _ := d.DecodeSome(datagram, math.MaxInt)
	return entries
}

// DecodeSome is Decode that stops behind most entries: rest is what the next
// call is to read, empty at the end. It bounds the memory that a file full of
// tiny entries takes.
func (d *NativeDecoder) DecodeSome(datagram []byte, most int) (entries []Entry, rest []byte) {
	d.entries, d.fields, d.ends = d.entries[:0], d.fields[:0], d.ends[:0]
	if cap(d.arena) > keepArena {
		d.arena = nil
	}
	d.arena = d.arena[:0]
	limits := d.Limits.withDefaults()
	for rest = datagram; len(rest) > 0 && len(d.entries) < most; {
		rest = d.entry(rest, limits)
	}
	// The fields may have moved while they were gathered: slice them only now.
	start := 0
	for i, end := range d.ends {
		d.entries[i].Fields = d.fields[start:end:(end + d.Spare)]
		start = end + d.Spare
	}
	return d.entries, rest
}

// entry reads one entry up to and including its empty line and returns the
// rest: nil when the datagram is to be read no further.
func (d *NativeDecoder) entry(p []byte, limits Limits) (rest []byte) {
	start, size := len(d.fields), 0
	tooMany, urgent, lines := false, false, false
	for len(p) > 0 {
		nl := bytes.IndexByte(p, '\n')
		if nl < 0 {
			d.Counts.Noise++
			p = nil
			break
		}
		if nl == 0 {
			p = p[1:]
			break
		}
		lines = true
		if p[0] == '.' || p[0] == '#' {
			p = p[nl+1:]
			continue
		}
		// journald compares before it adds: one field more than the limit passes.
		tooMany = tooMany || len(d.fields)-start > limits.Fields
		n := nameLen(p)
		var f Field
		if eq := p[n] == '='; eq || bytes.IndexByte(p[n:nl], '=') >= 0 {
			f, p = p[:nl:nl], p[nl+1:]
			if !eq {
				n = 0
			}
			if len(f) > limits.Field {
				return d.dropLarge(start)
			}
		} else {
			value, after, verdict := nativeValue(p[nl+1:], limits.Field)
			switch verdict {
			case valueGood:
			case valueTooLarge:
				return d.dropLarge(start)
			case valueMalformed:
				d.Counts.Malformed++
				p = nil
				continue
			}
			if n == nl && validStart(p, n, false) {
				f = d.join(p[:n], value)
			} else {
				n = 0
			}
			p = after
		}
		if !validStart(f, n, false) {
			d.Counts.BadNames++
			continue
		}
		if size += len(f) + 1; size > limits.Entry {
			return d.dropLarge(start)
		}
		if tooMany {
			continue
		}
		d.fields = append(d.fields, f)
		if level, ok := priority(f); ok {
			urgent = level <= 2
		}
	}
	d.finish(start, tooMany, urgent, lines)
	return p
}

// finish keeps or drops the entry whose fields begin at start.
func (d *NativeDecoder) finish(start int, tooMany, urgent, lines bool) {
	switch {
	case tooMany:
		d.Counts.TooMany++
		d.fields = d.fields[:start]
	case len(d.fields) > start:
		d.ends = append(d.ends, len(d.fields))
		d.entries = append(d.entries, Entry{Urgent: urgent})
		for range d.Spare {
			d.fields = append(d.fields, nil)
		}
	case lines:
		d.Counts.Empty++
	}
}

// dropLarge drops the entry whose fields begin at start and the rest of the
// datagram, as journald does.
func (d *NativeDecoder) dropLarge(start int) []byte {
	d.Counts.TooLarge++
	d.fields = d.fields[:start]
	return nil
}

// join puts NAME=value of a binary field into the arena. A full arena is left
// to the fields that are in it already, and a larger one begun.
func (d *NativeDecoder) join(name, value []byte) Field {
	need := len(name) + 1 + len(value)
	if cap(d.arena)-len(d.arena) < need {
		d.arena = make([]byte, 0, max(2*cap(d.arena), need, 4096))
	}
	at := len(d.arena)
	d.arena = append(d.arena, name...)
	d.arena = append(d.arena, '=')
	d.arena = append(d.arena, value...)
	return d.arena[at:len(d.arena):len(d.arena)]
}

type valueVerdict uint8

const (
	valueGood valueVerdict = iota
	valueMalformed
	valueTooLarge
)

// nativeValue reads length, value and newline of a binary field.
func nativeValue(p []byte, limit int) (value, rest []byte, verdict valueVerdict) {
	if len(p) < 9 {
		return nil, nil, valueMalformed
	}
	size := binary.LittleEndian.Uint64(p)
	if size > uint64(limit) {
		return nil, nil, valueTooLarge
	}
	p = p[8:]
	if uint64(len(p)) <= size || p[size] != '\n' {
		return nil, nil, valueMalformed
	}
	return p[:size], p[size+1:], valueGood
}

// priority returns the level of a PRIORITY field with one digit.
func priority(f Field) (level int, ok bool) {
	const prefix = "PRIORITY="
	if len(f) != len(prefix)+1 || f[0] != 'P' || string(f[:len(prefix)]) != prefix {
		return 0, false
	}
	c := f[len(prefix)]
	return int(c - '0'), c >= '0' && c <= '9'
}

// AppendNative appends one entry in the native protocol as sd_journal_send
// does: NAME=value, or the binary form when the value holds a newline. The
// empty line that separates two entries of a datagram is the caller's. Fields
// without '=' are left out.
func AppendNative(b []byte, fields []Field) []byte {
	for _, f := range fields {
		eq := bytes.IndexByte(f, '=')
		switch {
		case eq < 0:
			continue
		case bytes.IndexByte(f[eq+1:], '\n') < 0:
			b = append(b, f...)
		default:
			b = appendBinary(b, f, eq)
		}
		b = append(b, '\n')
	}
	return b
}

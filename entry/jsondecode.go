package entry

import "bytes"

// JSONCounts counts what a JSONDecoder changed or left out in one line.
type JSONCounts struct {
	// Underscores: names that lost the '_' they began with.
	Underscores int
	// Cut: names cut to MaxNameLen bytes.
	Cut int
	// Null: values that were null, dropped.
	Null int
	// TooMany: fields over the limit, dropped.
	TooMany int
}

// maxJSONDepth is how deep objects and arrays may be nested.
const maxJSONDepth = 100

// JSONDecoder turns JSON objects into entries:
//
//   - names are upper-cased, bytes other than [A-Z0-9_] become '_', and a name
//     is cut to 64 bytes. A leading '_' is dropped and counted. A name that would
//     be empty or begin with a digit gets FIELD_ in front;
//   - message, else msg, is MESSAGE; without either the raw line is MESSAGE;
//   - priority, else level, else severity is PRIORITY when it is a number from 0
//     to 7 or a word for one; else it keeps its name;
//   - the first of timestamp, @timestamp, time, ts is TIMESTAMP;
//   - numbers and booleans are stored as text, null is dropped;
//   - members of nested objects are named OUTER_INNER;
//   - an array of numbers from 0 to 255 is a value of those bytes; any other
//     array repeats the field.
//
// The zero value is ready for use. Its buffers are kept from call to call. It
// is not safe for concurrent use.
type JSONDecoder struct {
	// Limits bound one entry; zero means journald's limits. Only Fields matters:
	// the caller bounds the line.
	Limits Limits
	// Spare is how many more fields the caller may append to Entry.Fields without
	// an allocation.
	Spare int

	scan   jsonScanner
	counts JSONCounts
	max    int
	name   []byte // current name, as upper-cased so far
	key    []byte // a key as it stands in the line
	value  []byte
	arena  []byte // all fields, one after the other
	spans  []span // the fields in arena
	roles  [roleCount]int
	fields []Field
}

// role is a meaning that a top-level key may have beside its name.
type role uint8

const (
	roleNone role = iota
	roleMessage
	roleMsg
	rolePriority // priority, level, severity in this order
	roleLevel
	roleSeverity
	roleTimestamp // timestamp, @timestamp, time, ts in this order
	roleAtTimestamp
	roleTime
	roleTS
	roleCount
)

// Decode reads one line, which must hold exactly one JSON object. The entry is
// borrowed until the next call; its Realtime is 0, and Urgent is set when its
// priority is 0, 1 or 2. The error is a *JSONError.
func (d *JSONDecoder) Decode(line []byte) (Entry, JSONCounts, error) {
	d.reset(line)
	s := &d.scan
	if s.peek() != '{' {
		s.want("an object")
	} else if d.object(1, false) {
		if s.peek(); s.pos < len(s.data) {
			s.fail("more text behind the object")
		}
	}
	if s.err != nil {
		err := s.err
		*s = jsonScanner{}
		return Entry{}, d.counts, err
	}
	e := d.finish(bytes.Trim(line, " \t\r\n"))
	*s = jsonScanner{}
	return e, d.counts, nil
}

func (d *JSONDecoder) reset(line []byte) {
	d.scan = jsonScanner{data: line}
	d.counts = JSONCounts{}
	d.max = d.Limits.withDefaults().Fields
	if cap(d.arena) > keepArena {
		d.arena = nil
	}
	d.name, d.arena, d.spans = d.name[:0], d.arena[:0], d.spans[:0]
	for i := range d.roles {
		d.roles[i] = -1
	}
}

// object reads the object at pos; its members' names go behind the current one
// if nested is set.
func (d *JSONDecoder) object(depth int, nested bool) bool {
	s := &d.scan
	if depth > maxJSONDepth {
		return s.fail("nested deeper than %d", maxJSONDepth)
	}
	s.pos++
	if s.peek() == '}' {
		s.pos++
		return true
	}
	outer := len(d.name)
	for {
		var ok bool
		if d.key, ok = s.text(d.key[:0]); !ok {
			return false
		}
		if nested {
			d.name = append(d.name, '_')
		}
		d.name = AppendKey(d.name, d.key)
		as := roleNone
		if !nested {
			as = roleOf(d.name)
		}
		if !s.accept(':', "a colon") || !d.member(depth, as) {
			return false
		}
		d.name = d.name[:outer]
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return true
		default:
			return s.want("a comma or the end of the object")
		}
	}
}

// roleOf returns the role of a top-level name.
func roleOf(name []byte) role {
	switch string(name) {
	case "MESSAGE":
		return roleMessage
	case "MSG":
		return roleMsg
	case "LEVEL":
		return roleLevel
	case "SEVERITY":
		return roleSeverity
	case "PRIORITY":
		return rolePriority
	case "TIMESTAMP":
		return roleTimestamp
	case "_TIMESTAMP":
		return roleAtTimestamp
	case "TIME":
		return roleTime
	case "TS":
		return roleTS
	}
	return roleNone
}

// member reads the value of the current name.
func (d *JSONDecoder) member(depth int, as role) bool {
	s := &d.scan
	switch s.peek() {
	case '{':
		return d.object(depth+1, true)
	case '[':
		return d.array(depth+1, as)
	}
	ok, null := d.scalar()
	if ok && !null {
		d.add(d.value, as)
	}
	return ok
}

// scalar reads a string, number, boolean or null into value.
func (d *JSONDecoder) scalar() (ok, null bool) {
	s := &d.scan
	d.value = d.value[:0]
	switch c := s.peek(); {
	case c == '"':
		d.value, ok = s.text(d.value)
	case c == 't':
		ok = s.literal("true")
		d.value = append(d.value, "true"...)
	case c == 'f':
		ok = s.literal("false")
		d.value = append(d.value, "false"...)
	case c == 'n':
		d.counts.Null++
		return s.literal("null"), true
	case c == '-' || c >= '0' && c <= '9':
		var text []byte
		text, ok = s.number()
		d.value = append(d.value, text...)
	default:
		return s.want("a value"), false
	}
	return ok, false
}

// array reads the array at pos.
func (d *JSONDecoder) array(depth int, as role) bool {
	s := &d.scan
	if depth > maxJSONDepth {
		return s.fail("nested deeper than %d", maxJSONDepth)
	}
	start := s.pos
	if d.byteArray() {
		d.add(d.value, as)
		return true
	}
	s.pos = start + 1
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for {
		if !d.member(depth, as) {
			return false
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return true
		default:
			return s.want("a comma or the end of the array")
		}
	}
}

// byteArray reads an array of numbers from 0 to 255 into value. It returns false
// when the array is something else or empty, at any position then.
func (d *JSONDecoder) byteArray() bool {
	s := &d.scan
	s.pos++
	d.value = d.value[:0]
	for {
		if c := s.peek(); c < '0' || c > '9' {
			return false
		}
		v, digits := 0, 0
		for ; s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 && digits < 4; s.pos++ {
			v = v*10 + int(s.data[s.pos]-'0')
			digits++
		}
		if v > 255 || digits > 1 && s.data[s.pos-digits] == '0' {
			return false
		}
		d.value = append(d.value, byte(v))
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return true
		default:
			return false
		}
	}
}

// add adds a field with the current name.
func (d *JSONDecoder) add(value []byte, as role) {
	if len(d.spans) >= d.max {
		d.counts.TooMany++
		return
	}
	if d.roles[as] < 0 {
		d.roles[as] = len(d.spans)
	}
	from := len(d.arena)
	d.arena = d.counts.AppendName(d.arena, d.name)
	d.arena = append(d.arena, '=')
	d.arena = append(d.arena, value...)
	d.spans = append(d.spans, span{from, len(d.arena)})
}

// finish gives the fields with a role their names and makes the entry.
func (d *JSONDecoder) finish(line []byte) Entry {
	if d.roles[roleMessage] < 0 {
		if at := d.roles[roleMsg]; at >= 0 {
			d.rename(at, "MESSAGE=", d.valueOf(at))
		} else {
			// The last field makes room when the entry is full.
			if len(d.spans) >= d.max {
				d.spans = d.spans[:d.max-1]
				d.counts.TooMany++
			}
			d.spans = append(d.spans, span{})
			d.rename(len(d.spans)-1, "MESSAGE=", line)
		}
	}
	urgent := d.setPriority()
	if d.roles[roleTimestamp] < 0 {
		for as := roleAtTimestamp; as <= roleTS; as++ {
			if at := d.roles[as]; at >= 0 && at < len(d.spans) {
				d.rename(at, "TIMESTAMP=", d.valueOf(at))
				break
			}
		}
	}
	d.fields = d.fields[:0]
	for _, s := range d.spans {
		d.fields = append(d.fields, d.arena[s.from:s.to:s.to])
	}
	for range d.Spare {
		d.fields = append(d.fields, nil)
	}
	return Entry{Fields: d.fields[:len(d.spans)], Urgent: urgent}
}

// setPriority makes the first of priority, level and severity that names a
// level the PRIORITY field, and reports whether it is urgent. A PRIORITY that
// names none stays and is the only one.
func (d *JSONDecoder) setPriority() (urgent bool) {
	for as := rolePriority; as <= roleSeverity; as++ {
		at := d.roles[as]
		if at < 0 || at >= len(d.spans) {
			continue
		}
		if level, ok := levelOf(d.valueOf(at)); ok {
			d.rename(at, "PRIORITY=", []byte{'0' + level})
			return level <= 2
		}
		if as == rolePriority {
			break
		}
	}
	return false
}

// valueOf returns the value of field at.
func (d *JSONDecoder) valueOf(at int) []byte {
	return Field(d.arena[d.spans[at].from:d.spans[at].to]).Value()
}

// rename makes field at prefix (NAME=) and value.
func (d *JSONDecoder) rename(at int, prefix string, value []byte) {
	from := len(d.arena)
	d.arena = append(d.arena, prefix...)
	d.arena = append(d.arena, value...)
	d.spans[at] = span{from, len(d.arena)}
}

// levelOf reads a syslog level: a digit from 0 to 7 or a word for one.
func levelOf(value []byte) (level byte, ok bool) {
	var room [16]byte
	if len(value) > len(room) {
		return 0, false
	}
	word := room[:0]
	for _, c := range value {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		word = append(word, c)
	}
	switch string(word) {
	case "0", "emerg", "emergency", "panic":
		return 0, true
	case "1", "alert":
		return 1, true
	case "2", "crit", "critical", "fatal":
		return 2, true
	case "3", "err", "error":
		return 3, true
	case "4", "warn", "warning":
		return 4, true
	case "5", "notice":
		return 5, true
	case "6", "info", "informational", "information":
		return 6, true
	case "7", "debug", "trace":
		return 7, true
	}
	return 0, false
}

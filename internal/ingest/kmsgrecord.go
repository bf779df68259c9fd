package ingest

import (
	"bytes"
	"strconv"
)

// kmsgRecordText is a record of /dev/kmsg, taken to pieces:
//
//	PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];TEXT\n
//	 KEY=VALUE\n…
type kmsgRecordText struct {
	priority        int
	seq, usec       uint64
	identifier, pid []byte // of a process that has written to the log; nil: none
	text            []byte // with C escapes
	rest            []byte // the lines of metadata
}

func parseKmsg(record []byte) (r kmsgRecordText, ok bool) {
	head, text, ok := bytes.Cut(record, []byte{';'})
	if !ok {
		return r, false
	}
	parts := [3]uint64{}
	for i := range parts {
		var number []byte
		number, head, _ = bytes.Cut(head, []byte{','})
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return r, false
		}
		parts[i] = n
	}
	if parts[0] > 999 {
		return r, false
	}
	r.priority, r.seq, r.usec = int(parts[0]), parts[1], parts[2]
	if r.text, r.rest, ok = bytes.Cut(text, []byte{'\n'}); !ok {
		return r, false
	}
	if r.priority&facilityMask != 0 {
		var has, hasPID bool
		r.identifier, r.pid, r.text, has, hasPID = splitIdentifier(r.text)
		if !has {
			r.identifier = nil
		}
		if !hasPID {
			r.pid = nil
		}
	}
	return r, true
}

// kmsgField returns the first line of metadata without the blank it begins
// with; nil at the end.
func kmsgField(p []byte) (line, rest []byte) {
	if len(p) == 0 || p[0] != ' ' {
		return nil, nil
	}
	line, rest, ok := bytes.Cut(p[1:], []byte{'\n'})
	if !ok {
		return nil, nil
	}
	return line, rest
}

package control

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// keptStatus is a Status that is used again, with texts of its last answer.
type keptStatus struct {
	Status
	counts []countText
}

// countText is how the text of a count begins.
type countText struct{ name, reason, text string }

// appendJSON appends s as json.Marshal has it. That finds out about each of a hundred
// counts anew what it consists of, and takes ten times as long. The names of counts are
// those of the last time, mostly.
func (s *keptStatus) appendJSON(b []byte) []byte {
	b = appendText(b, `{"version":`, s.Version)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(s.PID), 10)
	b = appendNumber(b, `,"started":`, s.Started)
	b = appendText(b, `,"machineID":`, s.MachineID)
	b = appendText(b, `,"bootID":`, s.BootID)
	b = appendText(b, `,"data":`, s.Data)
	b = appendText(b, `,"run":`, s.Run)
	b = appendList(b, `,"endpoints":`, s.Endpoints, (*Endpoint).appendJSON)
	b = appendText(b, `,"sync":`, s.Sync)
	b = strconv.AppendInt(append(b, `,"notify":`...), s.Notify, 10)
	b = strconv.AppendInt(append(b, `,"nice":`...), int64(s.Nice), 10)
	b = strconv.AppendInt(append(b, `,"buffer":`...), s.Buffer, 10)
	b = strconv.AppendInt(append(b, `,"buffered":`...), s.Buffered, 10)
	b = appendNumber(b, `,"clockSteps":`, s.ClockSteps)
	b = appendNumber(b, `,"syncs":`, s.Syncs)
	b = appendNumber(b, `,"syncErrors":`, s.SyncErrors)
	b = appendNumber(b, `,"unsynced":`, s.Unsynced)
	b = appendNumber(b, `,"unsyncedBytes":`, s.UnsyncedBytes)
	b = appendNumber(b, `,"unsyncedSince":`, s.UnsyncedSince)
	b = appendList(b, `,"files":`, s.Files, (*File).appendJSON)
	b = s.Space.appendJSON(append(b, `,"space":`...))
	b = s.appendCounts(append(b, `,"counts":`...))
	b = appendList(b, `,"histograms":`, s.Histograms, (*Histogram).appendJSON)
	return append(b, '}')
}

func (e *Endpoint) appendJSON(b []byte) []byte {
	b = appendText(b, `{"protocol":`, e.Protocol)
	b = appendText(b, `,"address":`, e.Address)
	return append(b, '}')
}

func (f *File) appendJSON(b []byte) []byte {
	b = appendText(b, `{"path":`, f.Path)
	b = appendNumber(b, `,"entries":`, f.Entries)
	b = appendNumber(b, `,"bytes":`, f.Bytes)
	b = strconv.AppendInt(append(b, `,"unwritten":`...), f.Unwritten, 10)
	b = appendNumber(b, `,"unsynced":`, f.Unsynced)
	b = strconv.AppendInt(append(b, `,"fill":`...), int64(f.Fill), 10)
	b = appendText(b, `,"seqnumID":`, f.SeqnumID)
	b = appendNumber(b, `,"tailSeqnum":`, f.TailSeqnum)
	b = appendNumber(b, `,"headRealtime":`, f.HeadRealtime)
	b = appendNumber(b, `,"tailRealtime":`, f.TailRealtime)
	if f.Error != "" {
		b = appendText(b, `,"error":`, f.Error)
	}
	return append(b, '}')
}

func (s *Space) appendJSON(b []byte) []byte {
	b = appendNumber(b, `{"usage":`, s.Usage)
	b = appendNumber(b, `,"limit":`, s.Limit)
	b = appendNumber(b, `,"available":`, s.Available)
	b = strconv.AppendInt(append(b, `,"archived":`...), int64(s.Archived), 10)
	b = strconv.AppendInt(append(b, `,"prepared":`...), int64(s.Prepared), 10)
	b = strconv.AppendBool(append(b, `,"full":`...), s.Full)
	return append(b, '}')
}

func (s *keptStatus) appendCounts(b []byte) []byte {
	if s.Counts == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i := range s.Counts {
		c := &s.Counts[i]
		if i == len(s.counts) {
			s.counts = append(s.counts, countText{})
		}
		t := &s.counts[i]
		if t.text == "" || t.name != c.Name || t.reason != c.Reason {
			*t = countText{c.Name, c.Reason, string(append(appendText(appendText(nil, `{"name":`, c.Name), `,"reason":`, c.Reason), `,"n":`...))}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendNumber(b, t.text, c.N), '}')
	}
	return append(b, ']')
}

func (h *Histogram) appendJSON(b []byte) []byte {
	b = appendText(b, `{"name":`, h.Name)
	b = appendText(b, `,"unit":`, h.Unit)
	b = appendList(b, `,"counts":`, h.Counts, func(n *uint64, b []byte) []byte { return strconv.AppendUint(b, *n, 10) })
	b = appendNumber(b, `,"sum":`, h.Sum)
	return append(b, '}')
}

// appendList appends a name and a list.
func appendList[T any](b []byte, name string, list []T, one func(*T, []byte) []byte) []byte {
	b = append(b, name...)
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(&list[i], b)
	}
	return append(b, ']')
}

// appendNumber appends a name and a number.
func appendNumber(b []byte, name string, n uint64) []byte {
	return strconv.AppendUint(append(b, name...), n, 10)
}

// ASCII that stands for itself in a JSON string as encoding/json writes it, as bits: what
// is below 64, and the rest.
const (
	plainLow  = (1<<64 - 1) &^ (1<<' ' - 1) &^ (1<<'"' | 1<<'&' | 1<<'<' | 1<<'>')
	plainHigh = (1<<64 - 1) &^ (1 << ('\\' - 64))
)

// appendText appends a name and a text.
func appendText(b []byte, name, text string) []byte {
	b = append(b, name...)
	more := false // than ASCII
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			more = true
			continue
		}
		plain := uint64(plainLow)
		if c >= 64 {
			plain = plainHigh
		}
		if plain>>(c&63)&1 == 0 {
			return appendQuoted(b, text)
		}
	}
	if more && (!utf8.ValidString(text) || strings.ContainsAny(text, "\u2028\u2029")) {
		return appendQuoted(b, text)
	}
	return append(append(append(b, '"'), text...), '"')
}

// appendQuoted appends a text that has to be changed.
func appendQuoted(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string always has a form
	return append(b, quoted...)
}

package ingest

import (
	"strconv"
	"unsafe"

	"github.com/tidemark-log/tidemark/entry"
)

// maxBatch is how many entries are handed over at once at most, but for those
// of one datagram's last piece: what bounds the memory that tiny entries take.
const maxBatch = 512

// keepText is the largest text arena in bytes that is kept for the next batch.
const keepText = 1 << 20

// batch gathers entries for one call of the sink. Everything in it is borrowed
// from it until reset; a steady stream allocates nothing.
type batch struct {
	entries []entry.Entry
	fields  []entry.Field // of all entries; older entries may lie in former arrays
	text    []byte        // bytes of fields that are made here; likewise
	start   int           // in fields: where the current entry begins
}

func (b *batch) reset() {
	if cap(b.text) > keepText {
		b.text = nil
	}
	b.entries, b.fields, b.text, b.start = b.entries[:0], b.fields[:0], b.text[:0], 0
}

// add adds a field to the current entry.
func (b *batch) add(f entry.Field) { b.fields = append(b.fields, f) }

// addAll adds fields to the current entry.
func (b *batch) addAll(f []entry.Field) { b.fields = append(b.fields, f...) }

// room makes sure that n more bytes of text do not move what is there.
func (b *batch) room(n int) {
	if cap(b.text)-len(b.text) < n {
		b.text = make([]byte, 0, max(2*cap(b.text), n, 16<<10))
	}
}

// addBytes adds the field name=value. name ends in '='.
func (b *batch) addBytes(name string, value []byte) {
	b.room(len(name) + len(value))
	at := len(b.text)
	b.text = append(append(b.text, name...), value...)
	b.add(b.text[at:len(b.text):len(b.text)])
}

// addUint adds the field name=value. name ends in '='.
func (b *batch) addUint(name string, value uint64) {
	b.room(len(name) + 20)
	at := len(b.text)
	b.text = strconv.AppendUint(append(b.text, name...), value, 10)
	b.add(b.text[at:len(b.text):len(b.text)])
}

// keep adds f, with a copy of its bytes if they do not lie in data.
func (b *batch) keep(f entry.Field, data []byte) {
	if !within(f, data) {
		b.room(len(f))
		at := len(b.text)
		b.text = append(b.text, f...)
		f = b.text[at:len(b.text):len(b.text)]
	}
	b.add(f)
}

// within reports whether f is a part of data.
func within(f, data []byte) bool {
	if len(f) == 0 || len(data) == 0 {
		return len(f) == 0
	}
	at := uintptr(unsafe.Pointer(&f[0])) - uintptr(unsafe.Pointer(&data[0]))
	return at < uintptr(len(data))
}

// words are fields that many entries share. They are never changed.
type words struct {
	journal, syslog, stdout, kernel, http entry.Field // _TRANSPORT
	kernelName                            entry.Field // SYSLOG_IDENTIFIER
	priority                              [8]entry.Field
}

func newWords() words {
	w := words{
		journal:    entry.Field("_TRANSPORT=journal"),
		syslog:     entry.Field("_TRANSPORT=syslog"),
		stdout:     entry.Field("_TRANSPORT=stdout"),
		kernel:     entry.Field("_TRANSPORT=kernel"),
		http:       entry.Field("_TRANSPORT=http"),
		kernelName: entry.Field("SYSLOG_IDENTIFIER=kernel"),
	}
	for i := range w.priority {
		w.priority[i] = entry.Field("PRIORITY=" + string(rune('0'+i)))
	}
	return w
}

// end makes an entry of the fields added since the last one.
func (b *batch) end(owner uint32, urgent bool) {
	n := len(b.fields)
	b.entries = append(b.entries, entry.Entry{Fields: b.fields[b.start:n:n], Owner: owner, Urgent: urgent})
	b.start = n
}

// drop forgets the fields added since the last entry.
func (b *batch) drop() { b.fields = b.fields[:b.start] }

package demo

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A record is one line that a feeder sends. Its text names the feeder, the
// place in that feeder's order and a checksum of the rest, so that whoever
// reads it back can tell a lost, a doubled and a torn record apart:
//
//	[demo 3 1742 9ae0daaf] Accepted publickey for deploy …
type record struct {
	feeder int
	seq    int
	text   string
}

const recordMark = "[demo "

// encode returns the line of r.
func (r record) encode() string {
	return fmt.Sprintf("%s%d %d %08x] %s", recordMark, r.feeder, r.seq, r.sum(), r.text)
}

func (r record) sum() uint32 {
	return crc32.ChecksumIEEE([]byte(strconv.Itoa(r.feeder) + " " + strconv.Itoa(r.seq) + " " + r.text))
}

// decodeRecord reads a stored message. ours is false for messages that no
// feeder sent; whole is false when the checksum does not fit the text.
func decodeRecord(msg string) (r record, ours, whole bool) {
	head, ok := strings.CutPrefix(msg, recordMark)
	if !ok {
		return record{}, false, false
	}
	head, text, ok := strings.Cut(head, "] ")
	parts := strings.Fields(head)
	if !ok || len(parts) != 3 {
		return record{}, true, false
	}
	var err1, err2, err3 error
	var sum uint64
	r.feeder, err1 = strconv.Atoi(parts[0])
	r.seq, err2 = strconv.Atoi(parts[1])
	sum, err3 = strconv.ParseUint(parts[2], 16, 32)
	r.text = text
	return r, true, err1 == nil && err2 == nil && err3 == nil && uint32(sum) == r.sum()
}

package selfbench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemark-log/tidemark/journal"
)

// ErrLost tells that what was acknowledged is not in the files, whole, once and in order.
var ErrLost = errors.New("records are missing")

// recordSize is the length of a record, its newline included.
const recordSize = 100

// Where the numbers stand in a record.
const (
	callerAt, callerDigits = 7, 5
	numberAt, numberDigits = 20, 12
)

// record is a line that names its caller and its number.
type record [recordSize]byte

// newRecord is record 0 of a caller.
func newRecord(caller int) *record {
	r := new(record)
	copy(r[:], "caller 00000 record 000000000000 of tidemark bench, with words to make it as long as lines are.....\n")
	digits(r[callerAt:callerAt+callerDigits], uint64(caller))
	return r
}

// number makes r record n of its caller.
func (r *record) number(n uint64) { digits(r[numberAt:numberAt+numberDigits], n) }

// text is r without its newline.
func (r *record) text() []byte { return r[:recordSize-1] }

func digits(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
}

// checker counts records as they are read back: of each caller 0, 1, 2 …
type checker struct {
	next []*record // by caller, the one to come
	seen []uint64
}

func newChecker(callers int) *checker {
	c := &checker{seen: make([]uint64, callers)}
	for i := range callers {
		c.next = append(c.next, newRecord(i))
	}
	return c
}

// see takes the text of a record.
func (c *checker) see(text []byte) error {
	caller := 0
	if len(text) == recordSize-1 {
		for _, b := range text[callerAt : callerAt+callerDigits] {
			caller = caller*10 + int(b-'0')
		}
	}
	if caller < 0 || caller >= len(c.next) || string(text) != string(c.next[caller].text()) {
		return fmt.Errorf("%w: %q is not what was appended next", ErrLost, text)
	}
	c.seen[caller]++
	c.next[caller].number(c.seen[caller])
	return nil
}

// end compares what was seen with what each caller has appended.
func (c *checker) end(acked []uint64) error {
	for i, n := range acked {
		if c.seen[i] != n {
			return fmt.Errorf("%w: caller %d appended %d, there are %d", ErrLost, i, n, c.seen[i])
		}
	}
	return nil
}

// checkLines looks for acked[i] records of caller i in a file of lines, which
// ends with zeroes if it was made longer ahead.
func checkLines(path string, acked []uint64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c := newChecker(len(acked))
	in := bufio.NewReaderSize(f, 1<<20)
	var r record
	for {
		switch _, err := io.ReadFull(in, r[:]); {
		case err == io.EOF || err == nil && r == record{}:
			return c.end(acked)
		case err != nil:
			return fmt.Errorf("read %s back: %w", path, err)
		case r[recordSize-1] != '\n':
			return fmt.Errorf("%w: %q does not end as a record", ErrLost, r[:])
		}
		if err := c.see(r.text()); err != nil {
			return err
		}
	}
}

// checkJournal looks for them in the messages of a journal file.
func checkJournal(path string, acked []uint64) error {
	j, err := journal.Open([]string{path})
	if err != nil {
		return fmt.Errorf("read %s back: %w", path, err)
	}
	defer j.Close()
	c := newChecker(len(acked))
	for e, err := range j.All() {
		if err != nil {
			return fmt.Errorf("read %s back: %w", path, err)
		}
		message, _ := e.Get("MESSAGE")
		if err := c.see(message); err != nil {
			return err
		}
	}
	return c.end(acked)
}

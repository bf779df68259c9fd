package query

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/journal"
)

// FieldNames prints the names of all fields, one a line (-N).
func FieldNames(w *bufio.Writer, j *journal.Journal) error {
	for name, err := range j.FieldNames() {
		if err != nil {
			return err
		}
		if err := writeLine(w, []byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// FieldValues prints the values of a field, one a line (-F), at most lines of
// them when that is not negative.
func FieldValues(w *bufio.Writer, j *journal.Journal, name string, lines int) error {
	if !isMatchName(name) {
		return wordsf("Failed to query unique data objects: Invalid argument")
	}
	for value, err := range j.UniqueValues(name) {
		if err != nil {
			return wordsf("Failed to query unique data objects: %w", err)
		}
		if lines == 0 {
			return nil
		}
		lines--
		// journalctl prints a C string.
		if i := bytes.IndexByte(value, 0); i >= 0 {
			value = value[:i]
		}
		if err := writeLine(w, value); err != nil {
			return err
		}
	}
	return nil
}

func writeLine(w *bufio.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

// BootList is the list of boots in a journal, printed by --list-boots.
type BootList struct {
	boots   []journal.Boot
	reverse bool
}

// Boots reads the boots of j; reverse lists the newest first (-r).
func Boots(j *journal.Journal, reverse bool) (*BootList, error) {
	boots, err := j.Boots()
	if err != nil {
		return nil, wordsf("Failed to determine boots: %w", err)
	}
	return &BootList{boots: boots, reverse: reverse}, nil
}

// index is the number of boot i: 0 for the last, -1 for the one before.
func (l *BootList) index(i int) int { return i - len(l.boots) + 1 }

// order returns the indexes in the order to print.
func (l *BootList) order() []int {
	order := make([]int, len(l.boots))
	for i := range order {
		order[i] = i
	}
	if l.reverse {
		slices.Reverse(order)
	}
	return order
}

// Table prints the boots in columns, with times in loc; heading says whether
// their names stand above.
func (l *BootList) Table(w *bufio.Writer, loc *time.Location, heading bool) error {
	if len(l.boots) == 0 {
		return nil
	}
	var rows [][]string
	if heading {
		rows = append(rows, []string{"IDX", "BOOT ID", "FIRST ENTRY", "LAST ENTRY"})
	}
	for _, i := range l.order() {
		b := l.boots[i]
		rows = append(rows, []string{strconv.Itoa(l.index(i)), b.ID.String(), formatTime(b.First, loc), formatTime(b.Last, loc)})
	}
	var width [4]int
	for _, r := range rows {
		for c := range r {
			width[c] = max(width[c], len(r[c]))
		}
	}
	for n, r := range rows {
		number := fmt.Sprintf("%*s", width[0], r[0])
		if heading && n == 0 {
			number = fmt.Sprintf("%-*s", width[0], r[0])
		}
		line := fmt.Sprintf("%s %-*s %-*s %s", number, width[1], r[1], width[2], r[2], r[3])
		if err := writeLine(w, []byte(strings.TrimRight(line, " "))); err != nil {
			return err
		}
	}
	return nil
}

// JSON prints the boots as an array of objects, times in µs, framed by before and
// behind. Without boots it prints nothing.
func (l *BootList) JSON(w *bufio.Writer, pretty bool, before, behind string) error {
	type boot struct {
		Index int    `json:"index"`
		ID    string `json:"boot_id"`
		First uint64 `json:"first_entry"`
		Last  uint64 `json:"last_entry"`
	}
	if len(l.boots) == 0 {
		return nil
	}
	all := make([]boot, 0, len(l.boots))
	for _, i := range l.order() {
		b := l.boots[i]
		all = append(all, boot{l.index(i), b.ID.String(), b.First, b.Last})
	}
	text, err := json.Marshal(all)
	if err == nil && pretty {
		text, err = json.MarshalIndent(all, "", "\t")
		text = bytes.ReplaceAll(text, []byte(`": `), []byte(`" : `))
	}
	if err != nil {
		return err
	}
	_, err = w.WriteString(before + string(text) + behind)
	return err
}

// formatTime writes a time as journalctl's lists do.
func formatTime(usec uint64, loc *time.Location) string {
	return time.UnixMicro(int64(min(usec, 1<<55))).In(loc).Format("Mon 2006-01-02 15:04:05 MST") //nolint:gosec // below 2^63
}

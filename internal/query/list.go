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

	"github.com/tidemark-log/tidemark/entry"
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

// period is a boot, or a run of a unit, with the times of its first and last
// entry in µs.
type period struct {
	id          entry.ID
	first, last uint64
}

// place returns the index that an id and an offset mean in list: from the id, or
// from before the first, or, for an offset of 0 and below, from the last one.
func place(list []period, id entry.ID, offset int) (at int, ok bool) {
	at = offset
	switch {
	case !id.IsZero():
		i := slices.IndexFunc(list, func(p period) bool { return p.id == id })
		if i < 0 {
			return 0, false
		}
		at += i
	case at > 0:
		at--
	default:
		at += len(list) - 1
	}
	return at, at >= 0 && at < len(list)
}

// PeriodList is the list of boots in a journal (--list-boots), or of the runs of
// a unit (--list-invocations).
type PeriodList struct {
	title, key string
	periods    []period
	reverse    bool
}

// periodsOf are all boots of j, the oldest first.
func periodsOf(j *journal.Journal) ([]period, error) {
	boots, err := j.Boots()
	if err != nil {
		return nil, err
	}
	list := make([]period, len(boots))
	for i, b := range boots {
		list[i] = period{b.ID, b.First, b.Last}
	}
	return list, nil
}

// Boots reads the boots of j; reverse lists the newest first (-r).
func Boots(j *journal.Journal, reverse bool) (*PeriodList, error) {
	boots, err := periodsOf(j)
	if err != nil {
		return nil, wordsf("Failed to determine boots: %w", err)
	}
	return &PeriodList{title: "BOOT ID", key: "boot_id", periods: boots, reverse: reverse}, nil
}

// index is the number of period i: 0 for the last, -1 for the one before.
func (l *PeriodList) index(i int) int { return i - len(l.periods) + 1 }

// order returns the indexes in the order to print.
func (l *PeriodList) order() []int {
	order := make([]int, len(l.periods))
	for i := range order {
		order[i] = i
	}
	if l.reverse {
		slices.Reverse(order)
	}
	return order
}

// Table prints the list in columns, with times in loc; heading says whether
// their names stand above, and underline makes those stand out; nil: they do not.
func (l *PeriodList) Table(w *bufio.Writer, loc *time.Location, heading bool, underline func(cell string) string) error {
	if len(l.periods) == 0 {
		return nil
	}
	var rows [][]string
	if heading {
		rows = append(rows, []string{"IDX", l.title, "FIRST ENTRY", "LAST ENTRY"})
	}
	for _, i := range l.order() {
		p := l.periods[i]
		rows = append(rows, []string{strconv.Itoa(l.index(i)), p.id.String(), FormatTime(p.first, loc), FormatTime(p.last, loc)})
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
		if heading && n == 0 && underline != nil {
			line = underline(number)
			for c := 1; c < len(r); c++ {
				line += underline(fmt.Sprintf(" %-*s", width[c], r[c]))
			}
		}
		if err := writeLine(w, []byte(strings.TrimRight(line, " "))); err != nil {
			return err
		}
	}
	return nil
}

// JSON prints the list as an array of objects, times in µs, framed by before and
// behind. Of nothing it prints nothing.
func (l *PeriodList) JSON(w *bufio.Writer, pretty bool, before, behind string) error {
	if len(l.periods) == 0 {
		return nil
	}
	b := []byte{'['}
	for n, i := range l.order() {
		p := l.periods[i]
		if n > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"index":%d,"%s":"%s","first_entry":%d,"last_entry":%d}`, l.index(i), l.key, p.id, p.first, p.last)
	}
	b = append(b, ']')
	if pretty {
		var text bytes.Buffer
		if err := json.Indent(&text, b, "", "\t"); err != nil {
			return err
		}
		b = bytes.ReplaceAll(text.Bytes(), []byte(`": `), []byte(`" : `))
	}
	_, err := w.WriteString(before + string(b) + behind)
	return err
}

// FormatTime writes a time as journalctl's lists do.
func FormatTime(usec uint64, loc *time.Location) string {
	return time.UnixMicro(int64(min(usec, 1<<55))).In(loc).Format("Mon 2006-01-02 15:04:05 MST") //nolint:gosec // below 2^63
}

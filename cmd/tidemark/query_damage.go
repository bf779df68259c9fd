package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tidemark-log/tidemark/journal"
)

// warnDamage says in one line that files were damaged or could not be read: the
// first of them, and how many more there are.
func warnDamage(j *journal.Journal, stderr io.Writer) {
	var first string
	files := 0
	for _, f := range j.Files() {
		d, ok := f.Damage()
		if !ok {
			continue
		}
		if files++; files == 1 {
			first = fmt.Sprintf("%s: damaged%s: %s: try tidemark verify", f.Name(), whereDamaged(f.Warnings()[0]), passedOver(d))
		}
	}
	for _, err := range j.Skipped() {
		if files++; files == 1 {
			step := "nothing of it was shown, try tidemark verify"
			if errors.Is(err, fs.ErrPermission) {
				step = readStep(err, "")
			}
			first = fmt.Sprintf("%v: %s", err, step)
		}
	}
	if files > 1 {
		first += fmt.Sprintf(" (and %s)", plural(uint64(files-1), "files more"))
	}
	if files > 0 {
		_, _ = fmt.Fprintf(stderr, "warning: %s\n", first)
	}
}

// whereDamaged says what was found first, without the file's name.
func whereDamaged(err error) string {
	var bad *journal.FormatError
	if !errors.As(err, &bad) {
		return fmt.Sprintf(" (%v)", err)
	}
	if bad.Detail == "" {
		return fmt.Sprintf(" at %#x (%v)", bad.Offset, bad.Err)
	}
	return fmt.Sprintf(" at %#x (%s)", bad.Offset, bad.Detail)
}

// passedOver says what of a damaged file was not shown.
func passedOver(d journal.Damage) string {
	var lost []string
	if d.Entries > 0 {
		lost = append(lost, plural(d.Entries, "entries")+" passed over")
	}
	if d.Fields > 0 {
		lost = append(lost, plural(d.Fields, "fields of others")+" missing")
	}
	if len(lost) == 0 {
		return "every entry could be read"
	}
	return strings.Join(lost, ", ") + ", all others could be read"
}

package query

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// findBoot returns the boot that o asks for.
func (o *Options) findBoot(j *journal.Journal) (entry.ID, error) {
	if o.Boot.ID.IsZero() && o.Boot.Offset == 0 && !o.ThisBoot.IsZero() {
		return o.ThisBoot, nil
	}
	if o.Boot.ID.IsZero() && o.Boot.Offset == 0 {
		return o.Boot.last(j)
	}
	id, ok, err := j.BootAt(o.Boot.ID, o.Boot.Offset)
	switch {
	case err != nil:
		return entry.ID{}, o.Boot.missing(err.Error())
	case !ok:
		return entry.ID{}, o.Boot.missing("No such boot ID in journal")
	}
	return id, nil
}

func (b Boot) missing(why string) error {
	which := fmt.Sprintf("%+d", b.Offset)
	if !b.ID.IsZero() {
		which = b.ID.String()
	}
	return &AdviceError{wordsf("Data from the specified boot (%s) is not available: %s", which, why), "--list-boots lists those in the files"}
}

// last returns the boot of the last entry.
func (b Boot) last(j *journal.Journal) (entry.ID, error) {
	j.SetMatch(journal.Match{})
	j.SeekTail()
	e, err := j.Previous()
	switch {
	case errors.Is(err, io.EOF):
		return entry.ID{}, b.missing("No such boot ID in journal")
	case err != nil:
		return entry.ID{}, b.missing(err.Error())
	}
	return e.BootID, nil
}

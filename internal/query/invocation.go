package query

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// Invocation says which run of a unit is asked for: systemd gives each start of
// a unit an id.
type Invocation struct {
	// Set is false when entries of all runs are wanted.
	Set bool
	// ID is the run that Offset counts from; zero: before the first or, for an
	// Offset of 0 and below, the last one of the unit.
	ID     entry.ID
	Offset int
}

// ParseInvocation reads an invocation as --invocation takes it: all, an offset,
// an id, or both.
func ParseInvocation(s string) (Invocation, error) {
	b, ok := parseBoot(s)
	if !ok {
		return Invocation{}, wordsf("Failed to parse invocation descriptor '%s'", s)
	}
	return Invocation(b), nil
}

// unitless reports whether the run can only be found with the unit.
func (i Invocation) unitless() bool { return i.Set && (i.ID.IsZero() || i.Offset != 0) }

// match matches what belongs to a run: its own entries, and what service
// managers and privileged daemons say of it.
func (i Invocation) match() journal.Match {
	return journal.Or(
		term("_SYSTEMD_INVOCATION_ID="+i.ID.String()),
		term("OBJECT_SYSTEMD_INVOCATION_ID="+i.ID.String()),
		term("INVOCATION_ID="+i.ID.String()),
		term("USER_INVOCATION_ID="+i.ID.String()),
	)
}

// invocationMatch finds the run that o asks for.
func (o *Options) invocationMatch(j *journal.Journal) (journal.Match, error) {
	i := o.Invocation
	if !i.unitless() {
		return i.match(), nil
	}
	runs, err := o.runs(j)
	if err != nil {
		return journal.Match{}, err
	}
	at, ok := place(runs, i.ID, i.Offset)
	if !ok {
		which := fmt.Sprintf("%+d", i.Offset)
		if !i.ID.IsZero() {
			which = i.ID.String() + which
		}
		return journal.Match{}, &AdviceError{wordsf("No journal invocation entry found from the specified invocation (%s).", which), "--list-invocations lists those in the files"}
	}
	return Invocation{ID: runs[at].id}.match(), nil
}

// runs are the runs of the one unit in o, in the order in which they begin, in
// the boot that o asks for. Every entry of the unit is read.
func (o *Options) runs(j *journal.Journal) ([]period, error) {
	unit := runUnit{fields: systemRunFields[:]}
	names := o.Units
	if len(o.UserUnits) > 0 {
		unit.fields, names = userRunFields[:], o.UserUnits
	}
	var err error
	if unit.name, err = MangleUnit(names[0]); err != nil {
		return nil, wordsf("Failed to find invocations of '%s': %w", names[0], err)
	}
	if isGlob(unit.name) {
		return nil, wordsf("Failed to find invocations of '%s': it is a pattern, not one unit", names[0])
	}
	match := unit.match()
	if o.Boot.Set {
		boot, err := o.findBoot(j)
		if err != nil {
			return nil, err
		}
		match = journal.And(match, term("_BOOT_ID="+boot.String()))
	}
	j.SetMatch(match)
	j.SeekHead()
	var runs []period
	index := make(map[entry.ID]int)
	for {
		e, err := j.Next()
		if errors.Is(err, io.EOF) {
			return runs, nil
		}
		if err != nil {
			return nil, wordsf("Failed to iterate through journal: %w", err)
		}
		id, ok := unit.run(e)
		if !ok {
			continue
		}
		at, seen := index[id]
		if !seen {
			at = len(runs)
			index[id] = at
			runs = append(runs, period{id: id, first: e.Realtime})
		}
		runs[at].last = e.Realtime
	}
}

// runField is a field that names a unit and the one that names its run.
type runField struct{ unit, run, also string }

var (
	systemRunFields = [...]runField{
		{"_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID", ""},
		{"UNIT", "INVOCATION_ID", "_PID=1"},
		{"OBJECT_SYSTEMD_UNIT", "OBJECT_SYSTEMD_INVOCATION_ID", "_UID=0"},
	}
	userRunFields = [...]runField{
		{"_SYSTEMD_USER_UNIT", "_SYSTEMD_INVOCATION_ID", ""},
		{"USER_UNIT", "USER_INVOCATION_ID", ""},
		{"OBJECT_SYSTEMD_USER_UNIT", "OBJECT_SYSTEMD_INVOCATION_ID", "_UID=0"},
	}
)

// runUnit is a unit whose runs are looked for.
type runUnit struct {
	name   string
	fields []runField
}

func (u runUnit) match() journal.Match {
	var any []journal.Match
	for _, f := range u.fields {
		m := term(f.unit + "=" + u.name)
		if f.also != "" {
			m = journal.And(m, term(f.also))
		}
		any = append(any, m)
	}
	return journal.Or(any...)
}

// run returns the id of the run that e belongs to.
func (u runUnit) run(e *entry.Entry) (id entry.ID, ok bool) {
	for _, f := range u.fields {
		if name, ok := e.Get(f.unit); !ok || string(name) != u.name {
			continue
		}
		text, _ := e.Get(f.run)
		id, err := entry.ParseID(string(text))
		return id, err == nil && !id.IsZero()
	}
	return entry.ID{}, false
}

// Invocations reads the runs of the one unit in o.
func Invocations(j *journal.Journal, o Options) (*PeriodList, error) {
	runs, err := o.runs(j)
	if err != nil {
		return nil, err
	}
	return &PeriodList{title: "INVOCATION ID", key: "invocation_id", periods: runs, reverse: o.Reverse}, nil
}

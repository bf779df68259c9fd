package query

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
)

// match builds the filter of o: options and arguments are ANDed.
func (o *Options) match(j *journal.Journal) (journal.Match, error) {
	all, err := o.sourceMatches(j)
	if err != nil {
		return journal.Match{}, err
	}
	if o.Priorities != AllPriorities {
		var p []string
		for i := range entry.Levels {
			if o.Priorities&(1<<i) != 0 {
				p = append(p, strconv.Itoa(i))
			}
		}
		all = append(all, anyOf("PRIORITY=", p))
	}
	args, err := o.argumentMatch()
	if err != nil {
		return journal.Match{}, err
	}
	all = append(all, args...)
	if len(all) == 0 {
		return journal.Match{}, nil
	}
	return journal.And(all...), nil
}

// sourceMatches are those for boot, unit, run and identifier.
func (o *Options) sourceMatches(j *journal.Journal) (all []journal.Match, err error) {
	if o.Invocation.Set {
		run, err := o.invocationMatch(j)
		if err != nil {
			return nil, err
		}
		all = append(all, run) // of one unit, in one boot
	} else if all, err = o.unitAndBoot(j); err != nil {
		return nil, err
	}
	if o.Kernel {
		all = append(all, term("_TRANSPORT=kernel"))
	}
	if len(o.Identifiers) > 0 {
		any, err := identifiers(j, o.Identifiers)
		if err != nil {
			return nil, wordsf("Failed to add filter for syslog identifiers: %w", err)
		}
		all = append(all, any)
	}
	if len(o.NotIdentifiers) > 0 {
		any, err := identifiers(j, o.NotIdentifiers)
		if err != nil {
			return nil, wordsf("Failed to add exclude filter for syslog identifiers: %w", err)
		}
		all = append(all, journal.Not(any))
	}
	return all, nil
}

func (o *Options) unitAndBoot(j *journal.Journal) (all []journal.Match, err error) {
	if o.Boot.Set {
		id, err := o.findBoot(j)
		if err != nil {
			return nil, err
		}
		all = append(all, term("_BOOT_ID="+id.String()))
	}
	if len(o.Units)+len(o.UserUnits) > 0 {
		units, err := o.unitMatches(j)
		if err != nil {
			return nil, &AdviceError{wordsf("Failed to add filter for units: %w", err), "-F _SYSTEMD_UNIT lists those in the files"}
		}
		all = append(all, journal.Or(units...))
	}
	return all, nil
}

// identifiers matches any of names, and what the globs among them match, as
// journalctl 258 reads them.
func identifiers(j *journal.Journal, names []string) (journal.Match, error) {
	var globs []string
	for _, n := range names {
		if isGlob(n) {
			globs = append(globs, n)
		}
	}
	found, err := possibleValues(j, []string{"SYSLOG_IDENTIFIER"}, globs)
	return anyOf("SYSLOG_IDENTIFIER=", append(found, names...)), err
}

func anyOf(prefix string, values []string) journal.Match {
	m := make([]journal.Match, len(values))
	for i, v := range values {
		m[i] = term(prefix + v)
	}
	return journal.Or(m...)
}

// errNoData is what journalctl says when no unit fits a glob.
var errNoData = errors.New("No data available") //nolint:staticcheck // as the C library says it

// unitMatches returns one match for each unit that is meant.
func (o *Options) unitMatches(j *journal.Journal) ([]journal.Match, error) {
	uid := strconv.Itoa(o.UID)
	var all []journal.Match
	for _, kind := range []struct {
		patterns []string
		fields   []string
		match    func(unit string) journal.Match
	}{
		{o.Units, systemUnitFields[:], unitMatch},
		{o.UserUnits, userUnitFields[:], func(unit string) journal.Match { return userUnitMatch(unit, uid) }},
	} {
		var globs []string
		for _, p := range kind.patterns {
			unit, err := MangleUnit(p)
			if err != nil {
				return nil, err
			}
			if isGlob(unit) {
				globs = append(globs, unit)
			} else {
				all = append(all, kind.match(unit))
			}
		}
		units, err := possibleValues(j, kind.fields, globs)
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			all = append(all, kind.match(u))
		}
	}
	if len(all) == 0 {
		return nil, errNoData
	}
	return all, nil
}

// possibleValues returns the values of fields that match one of globs.
func possibleValues(j *journal.Journal, fields, globs []string) (list []string, err error) {
	if len(globs) == 0 {
		return nil, nil
	}
	seen := make(map[string]bool)
	for _, field := range fields {
		for value, err := range j.UniqueValues(field) {
			if err != nil {
				return nil, err
			}
			for _, g := range globs {
				if u := string(value); !seen[u] && fnmatch(g, u) {
					seen[u] = true
					list = append(list, u)
				}
			}
		}
	}
	return list, nil
}

// group is a conjunction as it is typed: values of one field are alternatives,
// different fields must all match, and no value of not may.
type group struct {
	fields []string // in order of appearance
	values map[string][]journal.Match
	not    []journal.Match
}

func (g *group) add(match string) {
	name, _, _ := strings.Cut(match, "=")
	if g.values == nil {
		g.values = make(map[string][]journal.Match)
	}
	if g.values[name] == nil {
		g.fields = append(g.fields, name)
	}
	g.values[name] = append(g.values[name], term(match))
}

func (g *group) match() journal.Match {
	var all []journal.Match
	for _, name := range g.fields {
		all = append(all, journal.Or(g.values[name]...))
	}
	for _, m := range g.not {
		all = append(all, journal.Not(m))
	}
	return journal.And(all...)
}

func (g *group) empty() bool { return len(g.fields)+len(g.not) == 0 }

// argumentMatch reads facilities and matches: groups joined by + are
// alternatives, and facilities belong to the first.
func (o *Options) argumentMatch() ([]journal.Match, error) {
	groups := []*group{{}}
	for _, f := range o.Facilities {
		groups[0].add("SYSLOG_FACILITY=" + strconv.Itoa(f))
	}
	terms := false
	for _, arg := range o.Matches {
		if arg == "+" {
			if !terms {
				break
			}
			groups, terms = append(groups, &group{}), false
			continue
		}
		if err := groups[len(groups)-1].addArgument(arg, o); err != nil {
			return nil, err
		}
		terms = true
	}
	if len(o.Matches) > 0 && !terms {
		return nil, &ArgumentError{`"+" can only be used between terms`, matchHint}
	}
	var any []journal.Match
	for _, g := range groups {
		if !g.empty() {
			any = append(any, g.match())
		}
	}
	if len(any) == 0 {
		return nil, nil
	}
	return []journal.Match{journal.Or(any...)}, nil
}

// ArgumentError is an argument that cannot be right, whatever there is to query.
type ArgumentError struct {
	Words string // journalctl's
	Hint  string // what is wanted instead
}

func (e *ArgumentError) Error() string { return e.Words }

// AdviceError is what journalctl says of something that is not in the files, and
// the next step.
type AdviceError struct {
	Err  error
	Hint string
}

func (e *AdviceError) Error() string { return e.Err.Error() }

func (e *AdviceError) Unwrap() error { return e.Err }

const matchHint = "want FIELD=VALUE, or the path of a program or device; between two of them a + means or; -g PATTERN searches messages"

func (g *group) addArgument(arg string, o *Options) error {
	if strings.HasPrefix(arg, "/") {
		return g.addPath(arg, o)
	}
	name, value, found := strings.Cut(arg, "=")
	positive, negated := strings.CutSuffix(name, "!")
	if !found || !isMatchName(positive) {
		hint := matchHint
		if upper := strings.ToUpper(positive); found && isMatchName(upper) {
			hint = "names of fields are upper-case: " + upper + arg[len(positive):]
		}
		return &ArgumentError{"Failed to add match '" + arg + "': Invalid argument", hint}
	}
	if negated {
		g.not = append(g.not, term(positive+"="+value))
	} else {
		g.add(arg)
	}
	return nil
}

// isMatchName reports whether sd-journal would match this field.
func isMatchName(name string) bool {
	return name != "" && !strings.HasPrefix(name, "__") && onlyOf(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", "")
}

// commLen is the longest _COMM, TASK_COMM_LEN of the kernel without its NUL.
const commLen = 15

const pathHint = "name a program or device that is there; -D DIR names where journal files are, -g PATTERN searches messages"

// addPath adds what a path stands for: the program, or the script and its
// interpreter, or the device.
func (g *group) addPath(arg string, o *Options) error {
	p, err := filepath.EvalSymlinks(arg)
	if err != nil {
		return &AdviceError{wordsf("Couldn't canonicalize path: %w", Reason(err)), pathHint}
	}
	info, err := os.Lstat(p)
	if err != nil {
		return wordsf("Couldn't stat file: %w", Reason(err))
	}
	switch mode := info.Mode(); {
	case mode.IsRegular() && mode.Perm()&0o111 != 0:
		interpreter := scriptInterpreter(p)
		if interpreter == "" {
			g.add("_EXE=" + p)
			return nil
		}
		comm := filepath.Base(p)
		g.add("_COMM=" + comm[:min(len(comm), commLen)])
		// An interpreter behind a link changes too often to be compared.
		if info, err := os.Lstat(interpreter); err == nil && info.Mode()&os.ModeSymlink == 0 {
			g.add("_EXE=" + interpreter)
		}
		return nil
	case mode&os.ModeDevice != 0:
		return g.addDevice(p, info, o)
	default:
		return &AdviceError{wordsf("File is neither a device node, nor regular file, nor executable: %s", arg), pathHint}
	}
}

// scriptInterpreter returns the first word behind #! in the file; empty when it
// is no script.
func scriptInterpreter(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadSlice('\n')
	text, found := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(text)
	if err != nil || !found || len(words) == 0 {
		return ""
	}
	return words[0]
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/internal/render"
)

// queryAction is what a query command line asks for.
type queryAction uint8

const (
	actShow queryAction = iota
	actHelp
	actVersion
	actFieldNames
	actFieldValues
	actBoots
	actHeader
	actDiskUsage
	actModes
	actFacilities
	actVerify
	actSync
	actRotate
	actFlush
	actRelinquish
)

// queryArgs is a query command line, read.
type queryArgs struct {
	action queryAction
	query  query.Options
	render render.Options
	mode   render.Mode

	directory string
	files     []string
	system    bool   // only system files; with user: these too
	user      bool   // only files of this user
	field     string // of -F
	pattern   string
	noTail    bool
	fold      query.Case
	noPager   bool
	atEnd     bool // the pager begins at the end
	catalog   bool // asked for; there is none

	looked []string  // directories that were looked for, there or not
	now    time.Time // what --since refers to
}

// argKind says whether an option takes a value.
type argKind uint8

const (
	argNone argKind = iota
	argRequired
	argOptional // as -nVALUE or --lines=VALUE
)

// queryOption is an option as getopt_long knows it. A short of 0 means none. One
// without set is journalctl's and not ours.
type queryOption struct {
	short byte
	long  string
	kind  argKind
	set   func(a *queryArgs, value string) error
	// peek, of an optional value, takes the next word too if it is one.
	peek func(word string) bool
}

// flag makes a setter for an option without a value.
func flag(set func(a *queryArgs)) func(*queryArgs, string) error {
	return func(a *queryArgs, _ string) error {
		set(a)
		return nil
	}
}

// sourceOptions and those below are the options of journalctl 252 that query
// has.
func sourceOptions() []queryOption {
	return []queryOption{
		{'D', "directory", argRequired, func(a *queryArgs, v string) error { a.directory = v; return nil }, nil},
		{0, "file", argRequired, func(a *queryArgs, v string) error {
			names, err := filepath.Glob(v)
			if err != nil || len(names) == 0 {
				names = []string{v}
			}
			a.files = append(a.files, names...)
			return nil
		}, nil},
		{'m', "merge", argNone, flag(func(a *queryArgs) { a.query.Merge = true }), nil},
		{0, "system", argNone, flag(func(a *queryArgs) { a.system = true }), nil},
		{0, "user", argNone, flag(func(a *queryArgs) { a.user = true }), nil},
	}
}

func filterOptions() []queryOption {
	return []queryOption{
		{'S', "since", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Since, err = query.ParseTime(v, a.now)
			a.query.SinceSet = true
			return err
		}, nil},
		{'U', "until", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Until, err = query.ParseTime(v, a.now)
			a.query.UntilSet = true
			return err
		}, nil},
		{'c', "cursor", argRequired, func(a *queryArgs, v string) error { return setCursor(&a.query.Cursor, v) }, nil},
		{0, "after-cursor", argRequired, func(a *queryArgs, v string) error { return setCursor(&a.query.AfterCursor, v) }, nil},
		{0, "cursor-file", argRequired, func(a *queryArgs, v string) error { a.query.CursorFile = v; return nil }, nil},
		{'b', "boot", argOptional, func(a *queryArgs, v string) (err error) {
			if v == "" {
				v = "0"
			}
			a.query.Boot, err = query.ParseBoot(v)
			return err
		}, func(word string) bool { _, err := query.ParseBoot(word); return err == nil }},
		{0, "this-boot", argNone, flag(func(a *queryArgs) { a.query.Boot = query.Boot{Set: true} }), nil},
		{'k', "dmesg", argNone, flag(func(a *queryArgs) { a.query.Kernel, a.query.Boot.Set = true, true }), nil},
		{'u', "unit", argRequired, func(a *queryArgs, v string) error { a.query.Units = append(a.query.Units, v); return nil }, nil},
		{0, "user-unit", argRequired, func(a *queryArgs, v string) error {
			a.query.UserUnits = append(a.query.UserUnits, v)
			return nil
		}, nil},
		{'t', "identifier", argRequired, func(a *queryArgs, v string) error {
			a.query.Identifiers = append(a.query.Identifiers, v)
			return nil
		}, nil},
		{'p', "priority", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Priorities, err = query.ParsePriorities(v)
			return err
		}, nil},
		{0, "facility", argRequired, (*queryArgs).setFacility, nil},
		{'g', "grep", argRequired, func(a *queryArgs, v string) error { a.pattern = v; return nil }, nil},
		{0, "case-sensitive", argOptional, (*queryArgs).setCase, nil},
	}
}

func outputOptions() []queryOption {
	return []queryOption{
		{0, "no-pager", argNone, flag(func(a *queryArgs) { a.noPager = true }), nil},
		{0, "no-full", argNone, flag(func(a *queryArgs) { a.render.NoFull = true }), nil},
		{0, "no-tail", argNone, flag(func(a *queryArgs) { a.noTail = true }), nil},
		{0, "no-hostname", argNone, flag(func(a *queryArgs) { a.render.NoHostname = true }), nil},
		{'o', "output", argRequired, (*queryArgs).setMode, nil},
		{0, "output-fields", argRequired, func(a *queryArgs, v string) error {
			a.render.OutputFields = append(a.render.OutputFields, strings.FieldsFunc(v, func(r rune) bool { return r == ',' })...)
			return nil
		}, nil},
		{'n', "lines", argOptional, func(a *queryArgs, v string) (err error) {
			if v == "" {
				v = "10"
			}
			a.query.Lines, err = query.ParseLines(v)
			return err
		}, func(word string) bool { _, err := query.ParseLines(word); return err == nil }},
		{'r', "reverse", argNone, flag(func(a *queryArgs) { a.query.Reverse = true }), nil},
		{'f', "follow", argNone, flag(func(a *queryArgs) { a.query.Follow = true }), nil},
		{0, "show-cursor", argNone, flag(func(a *queryArgs) { a.query.ShowCursor = true }), nil},
		{0, "utc", argNone, flag(func(a *queryArgs) { a.render.UTC = true }), nil},
		{'x', "catalog", argNone, flag(func(a *queryArgs) { a.catalog = true }), nil},
		{'l', "full", argNone, flag(func(a *queryArgs) { a.render.NoFull = false }), nil},
		{'a', "all", argNone, flag(func(a *queryArgs) { a.render.All = true }), nil},
		{'q', "quiet", argNone, flag(func(a *queryArgs) { a.query.Quiet = true }), nil},
		{'e', "pager-end", argNone, flag(func(a *queryArgs) {
			a.atEnd, a.query.Boot.Set = true, true
			if a.query.Lines == query.LinesDefault {
				a.query.Lines = 1000
			}
		}), nil},
	}
}

func commandOptions() []queryOption {
	command := func(short byte, long string, act queryAction) queryOption {
		return queryOption{short, long, argNone, flag(func(a *queryArgs) { a.action = act }), nil}
	}
	return []queryOption{
		command('h', "help", actHelp),
		command(0, "version", actVersion),
		command('N', "fields", actFieldNames),
		{'F', "field", argRequired, func(a *queryArgs, v string) error {
			a.action, a.field = actFieldValues, v
			return nil
		}, nil},
		command(0, "list-boots", actBoots),
		command(0, "header", actHeader),
		command(0, "disk-usage", actDiskUsage),
		command(0, "verify", actVerify),
		command(0, "sync", actSync),
		command(0, "rotate", actRotate),
		command(0, "flush", actFlush),
		command(0, "relinquish-var", actRelinquish),
		command(0, "smart-relinquish-var", actRelinquish),
	}
}

// setMode notes the output mode; those for programs turn -q on.
func (a *queryArgs) setMode(v string) (err error) {
	if v == "help" {
		a.action = actModes
		return nil
	}
	a.mode, err = render.ParseMode(v)
	a.query.Quiet = a.query.Quiet || a.mode.Quiet()
	return withHint(err, "-o help lists them")
}

// wordsf makes an error in journalctl's words, which begin like sentences.
func wordsf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// setCursor keeps a cursor; its text is read later, but an empty one would not
// be noticed then.
func setCursor(to *string, v string) error {
	if *to = v; v == "" {
		return wordsf("Failed to seek to cursor: Invalid argument")
	}
	return nil
}

func (a *queryArgs) setFacility(v string) error {
	if v == "help" {
		a.action = actFacilities
		return nil
	}
	list, err := query.ParseFacilities(v)
	a.query.Facilities = append(a.query.Facilities, list...)
	return withHint(err, "--facility=help lists them")
}

func (a *queryArgs) setCase(v string) error {
	sensitive, err := config.ParseBool(v)
	switch {
	case v == "" || sensitive:
		a.fold = query.CaseSensitive
	case err == nil:
		a.fold = query.CaseInsensitive
	default:
		return wordsf("Bad --case-sensitive= argument \"%s\": Invalid argument", v)
	}
	return nil
}

// queryOptions are all options of journalctl.
func queryOptions() []queryOption {
	return slices.Concat(sourceOptions(), filterOptions(), outputOptions(), commandOptions(), unsupportedOptions())
}

// parseQuery reads a command line as journalctl does.
func parseQuery(argv []string, now time.Time) (*queryArgs, error) {
	a := &queryArgs{query: query.Defaults(), now: now}
	words, err := getopt(queryOptions(), a, argv)
	if err != nil {
		return nil, err
	}
	if a.action == actHelp || a.action == actVersion || a.action == actModes || a.action == actFacilities {
		return a, nil
	}
	if a.noTail {
		a.query.Lines = query.LinesAll
	}
	if a.directory != "" && len(a.files) > 0 {
		return nil, wordsf("Please specify at most one of -D/--directory=, --file=.")
	}
	if a.action != actShow && len(words) > 0 {
		return nil, wordsf("Extraneous arguments starting with '%s'", words[0])
	}
	if a.action == actBoots && a.query.Merge {
		return nil, wordsf("Using --boot or --list-boots with --merge is not supported.")
	}
	a.query.Matches = words
	a.query.UID = os.Getuid()
	if a.pattern != "" {
		if a.query.Pattern, err = query.CompilePattern(a.pattern, a.fold); err != nil {
			return nil, err
		}
	}
	return a, a.query.Complete()
}

// getopt hands every option of argv to its setter, in order, and returns the
// other words. It follows getopt_long(3): options and words may be mixed, --
// ends the options, short ones may be joined, long ones shortened.
func getopt(options []queryOption, a *queryArgs, argv []string) (words []string, err error) {
	for len(argv) > 0 {
		word := argv[0]
		argv = argv[1:]
		switch {
		case word == "--":
			return append(words, argv...), nil
		case strings.HasPrefix(word, "--"):
			argv, err = setLong(options, a, word[2:], argv)
		case len(word) > 1 && word[0] == '-':
			argv, err = setShort(options, a, word[1:], argv)
		default:
			words = append(words, word)
		}
		if err != nil {
			return nil, err
		}
		if a.action == actHelp || a.action == actVersion || a.action == actModes || a.action == actFacilities {
			return nil, nil // these answer at once
		}
	}
	return words, nil
}

// setLong applies --name or --name=value and returns the words that are left.
func setLong(options []queryOption, a *queryArgs, word string, argv []string) ([]string, error) {
	name, value, hasValue := strings.Cut(word, "=")
	found, err := findLong(options, name)
	switch {
	case err != nil:
		return nil, err
	case found.set == nil:
		return nil, notSupported(found)
	case hasValue && found.kind == argNone:
		return nil, fmt.Errorf("option '--%s' doesn't allow an argument", found.long)
	case hasValue && value == "" && found.kind == argOptional:
		return argv, found.set(a, " ") // an empty value, which is not none
	case hasValue || found.kind == argNone:
		return argv, found.set(a, value)
	case found.kind == argOptional:
		return setOptional(found, a, argv)
	case len(argv) == 0:
		return nil, fmt.Errorf("option '--%s' requires an argument", found.long)
	}
	return argv[1:], found.set(a, argv[0])
}

// notSupported says that an option is journalctl's only.
func notSupported(o *queryOption) error {
	return fmt.Errorf("option --%s is not supported by tidemark", o.long)
}

// findLong returns the option that is called name, or the only one that begins
// so.
func findLong(options []queryOption, name string) (*queryOption, error) {
	var found []*queryOption
	var names strings.Builder
	for i := range options {
		o := &options[i]
		if o.long == name {
			return o, nil
		}
		if strings.HasPrefix(o.long, name) {
			found = append(found, o)
			names.WriteString(" '--" + o.long + "'")
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("unrecognized option '--%s'", name)
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("option '--%s' is ambiguous; possibilities:%s", name, names.String())
	}
}

// setShort applies the letters of one word and returns the words that are left.
func setShort(options []queryOption, a *queryArgs, letters string, argv []string) ([]string, error) {
	for letters != "" {
		var found *queryOption
		for i := range options {
			if options[i].short == letters[0] {
				found = &options[i]
			}
		}
		letter, rest := letters[0], letters[1:]
		switch {
		case found == nil:
			return nil, fmt.Errorf("invalid option -- '%c'", letter)
		case found.set == nil:
			return nil, notSupported(found)
		case found.kind == argNone:
			if err := found.set(a, ""); err != nil {
				return nil, err
			}
			letters = rest
		case rest != "":
			return argv, found.set(a, rest)
		case found.kind == argOptional:
			return setOptional(found, a, argv)
		case len(argv) == 0:
			return nil, fmt.Errorf("option requires an argument -- '%c'", letter)
		default:
			return argv[1:], found.set(a, argv[0])
		}
	}
	return argv, nil
}

// setOptional applies an option without its value, or with the next word when
// that can be one.
func setOptional(o *queryOption, a *queryArgs, argv []string) ([]string, error) {
	if o.peek != nil && len(argv) > 0 && o.peek(argv[0]) {
		return argv[1:], o.set(a, argv[0])
	}
	return argv, o.set(a, "")
}

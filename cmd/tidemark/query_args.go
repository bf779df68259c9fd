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
	actInvocations
	actVerify
	actSync
	actRotate
	actFlush
	actRelinquish
	actListCatalog
	actDumpCatalog
	actVacuum
	actRotateVacuum
)

// queryArgs is a query command line, read.
type queryArgs struct {
	action queryAction
	query  query.Options
	render render.Options
	mode   render.Mode

	dirs      []string // of -D, or those below --root
	files     []string
	named     bool   // there was a -D
	root      bool   // there was a --root
	namespace string // of --namespace
	system    bool   // only system files; with user: these too
	user      bool   // only files of this user
	field     string // of -F
	grep      bool   // there was a -g
	pattern   string // of it
	noTail    bool
	fold      query.Case
	noPager   bool
	atEnd     bool   // the pager begins at the end
	catalog   bool   // -x
	rootDir   string // of --root

	vacuum vacuumLimits
	data   string    // of the daemon that has rotated; empty: as findPlaces says
	looked []string  // directories that were looked for, there or not
	now    time.Time // what --since refers to
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

// addFiles adds what a pattern of --file matches, or its text.
func (a *queryArgs) addFiles(v string) error {
	names, err := filepath.Glob(v)
	if err != nil || len(names) == 0 {
		names = []string{v}
	}
	a.files = append(a.files, names...)
	return nil
}

// setRoot reads the journals of a system whose root directory is v.
func (a *queryArgs) setRoot(v string) error {
	a.root, a.rootDir, a.dirs = true, v, nil
	for _, dir := range []string{config.JournaldRunning, config.JournaldFiles} {
		a.dirs = append(a.dirs, filepath.Join(v, dir))
	}
	return nil
}

func (a *queryArgs) setFacility(v string) error {
	for word := range strings.SplitSeq(v, ",") {
		if word == "help" {
			a.action = actFacilities
			return nil
		}
		list, err := query.ParseFacilities(word)
		if err != nil {
			return withHint(err, "--facility=help lists them")
		}
		a.query.Facilities = append(a.query.Facilities, list...)
	}
	return nil
}

// emptyValue is an optional value that was given and is empty, as in --lines=; it
// cannot be typed. An empty one was not given.
const emptyValue = "\x00"

// orElse is an optional value, or what it means that there is none.
func orElse(v, none string) string {
	switch v {
	case "":
		return none
	case emptyValue:
		return ""
	default:
		return v
	}
}

func (a *queryArgs) setCase(v string) error {
	v = orElse(v, "yes")
	sensitive, err := config.ParseBool(v)
	switch {
	case sensitive:
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
	return slices.Concat(sourceOptions(), filterOptions(), outputOptions(), commandOptions(), refusedOptions())
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
	if err := a.together(words); err != nil {
		return nil, err
	}
	if a.user && !a.system { // whose files hold no system units
		a.query.UserUnits = append(a.query.UserUnits, a.query.Units...)
		a.query.Units = nil
	}
	a.query.Matches = words
	a.query.UID = os.Getuid()
	if a.grep {
		if a.query.Pattern, err = query.CompilePattern(a.pattern, a.fold); err != nil {
			return nil, asTyped(err)
		}
	}
	return a, a.query.Complete()
}

// together refuses what does not go together.
func (a *queryArgs) together(words []string) error {
	switch {
	case a.root && len(a.files) > 0, len(a.dirs) > 0 && len(a.files) > 0, a.root && a.named:
		return wordsf("Please specify at most one of -D/--directory=, --file=, -M/--machine=, --root=, --image=.")
	}
	if err := a.query.Conflict(); err != nil {
		return err
	}
	switch {
	case a.action != actShow && a.action != actListCatalog && a.action != actDumpCatalog && len(words) > 0:
		return wordsf("Extraneous arguments starting with '%s'", words[0])
	case a.action == actBoots && a.query.Merge:
		return wordsf("Using --boot or --list-boots with --merge is not supported.")
	case a.action == actInvocations && len(a.query.Units)+len(a.query.UserUnits) != 1:
		return withHint(wordsf("--list-invocations wants one unit."), "name it with -u UNIT, or --user-unit UNIT")
	}
	return nil
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
	case hasValue && found.kind == argNone:
		return nil, fmt.Errorf("option '--%s' doesn't allow an argument", found.long)
	case hasValue && value == "" && found.kind == argOptional:
		return argv, found.set(a, emptyValue)
	case hasValue || found.kind == argNone:
		return argv, found.set(a, value)
	case found.kind == argOptional:
		return setOptional(found, a, argv)
	case len(argv) == 0:
		return nil, withHint(fmt.Errorf("option '--%s' requires an argument", found.long), valueHint(found))
	}
	return argv[1:], found.set(a, argv[0])
}

const optionHint = "--help lists the options"

// valueHint is the next step where the value of an option is missing.
func valueHint(o *queryOption) string {
	switch o.long {
	case "output":
		return "-o help lists the modes"
	case "unit", "user-unit":
		return "name a unit, as in -u ssh.service: -F _SYSTEMD_UNIT lists them"
	case "identifier", "exclude-identifier":
		return "name an identifier: -F SYSLOG_IDENTIFIER lists them"
	}
	return "give it a value: " + optionHint
}

// findLong returns the option that is called name, or the only one that begins
// so.
func findLong(options []queryOption, name string) (*queryOption, error) {
	var found []*queryOption
	var names strings.Builder
	for i := range options {
		o := &options[i]
		if o.long == "" {
			continue
		}
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
		long := make([]string, 0, len(options))
		for i := range options {
			if options[i].long != "" {
				long = append(long, options[i].long)
			}
		}
		hint := optionHint
		if like := suggestOption(long, name); like != "" {
			hint = like + " " + hint
		}
		return nil, withHint(fmt.Errorf("unrecognized option '--%s'", name), hint)
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
			return nil, withHint(fmt.Errorf("invalid option -- '%c'", letter), optionHint)
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
			return nil, withHint(fmt.Errorf("option requires an argument -- '%c'", letter), valueHint(found))
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

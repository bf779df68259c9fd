package main

import (
	"fmt"
	"strings"

	"github.com/tidemark-log/tidemark/internal/query"
)

// argKind says whether an option takes a value.
type argKind uint8

const (
	argNone argKind = iota
	argRequired
	argOptional // as -nVALUE or --lines=VALUE
)

// queryOption is an option as getopt_long knows it. A short of 0, and an empty
// long, mean none.
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

// sourceOptions and those below are the options of journalctl 252, and those
// that 253 to 257 have added: -i, -I, -T, -W, -n +N, --truncate-newline,
// --invocation and --list-invocations.
func sourceOptions() []queryOption {
	return []queryOption{
		{'D', "directory", argRequired, func(a *queryArgs, v string) error {
			a.dirs, a.named = append(a.dirs, v), true
			return nil
		}, nil},
		{'i', "file", argRequired, (*queryArgs).addFiles, nil},
		{0, "root", argRequired, (*queryArgs).setRoot, nil},
		{0, "namespace", argRequired, func(a *queryArgs, v string) error { a.namespace = v; return nil }, nil},
		{'m', "merge", argNone, flag(func(a *queryArgs) { a.query.Merge = true }), nil},
		{0, "system", argNone, flag(func(a *queryArgs) { a.system = true }), nil},
		{0, "user", argNone, flag(func(a *queryArgs) { a.user = true }), nil},
	}
}

const timeHint = `want for example "2026-11-30 18:00", 09:30, yesterday, -1h, "2 days ago" or @SECONDS`

func filterOptions() []queryOption {
	return []queryOption{
		{'S', "since", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Since, err = query.ParseTime(v, a.now)
			a.query.SinceSet = true
			return withHint(err, timeHint)
		}, nil},
		{'U', "until", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Until, err = query.ParseTime(v, a.now)
			a.query.UntilSet = true
			return withHint(err, timeHint)
		}, nil},
		{'c', "cursor", argRequired, func(a *queryArgs, v string) error { return setCursor(&a.query.Cursor, v) }, nil},
		{0, "after-cursor", argRequired, func(a *queryArgs, v string) error { return setCursor(&a.query.AfterCursor, v) }, nil},
		{0, "cursor-file", argRequired, func(a *queryArgs, v string) error { a.query.CursorFile = v; return nil }, nil},
		{'b', "boot", argOptional, func(a *queryArgs, v string) (err error) {
			a.query.Boot, err = query.ParseBoot(orElse(v, "0"))
			return withHint(err, "want all, a number such as -1, or a boot id: --list-boots lists them")
		}, func(word string) bool { _, err := query.ParseBoot(word); return err == nil }},
		{0, "this-boot", argNone, flag(func(a *queryArgs) { a.query.Boot = query.Boot{Set: true} }), nil},
		{'k', "dmesg", argNone, flag(func(a *queryArgs) { a.query.Kernel, a.query.Boot.Set = true, true }), nil},
		{'u', "unit", argRequired, func(a *queryArgs, v string) error { a.query.Units = append(a.query.Units, v); return nil }, nil},
		{'I', "", argNone, flag(func(a *queryArgs) { a.query.Invocation = query.Invocation{Set: true} }), nil},
		{0, "invocation", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Invocation, err = query.ParseInvocation(v)
			return withHint(err, "want all, a number such as -1, or an invocation id: --list-invocations lists them")
		}, nil},
		{0, "user-unit", argRequired, func(a *queryArgs, v string) error {
			a.query.UserUnits = append(a.query.UserUnits, v)
			return nil
		}, nil},
		{'t', "identifier", argRequired, func(a *queryArgs, v string) error {
			a.query.Identifiers = append(a.query.Identifiers, v)
			return nil
		}, nil},
		{'T', "exclude-identifier", argRequired, func(a *queryArgs, v string) error {
			a.query.NotIdentifiers = append(a.query.NotIdentifiers, v)
			return nil
		}, nil},
		{'p', "priority", argRequired, func(a *queryArgs, v string) (err error) {
			a.query.Priorities, err = query.ParsePriorities(v)
			return withHint(err, "want a level, "+strings.Join(levelNames(), ", ")+" or 0 to 7, or a range A..B")
		}, nil},
		{0, "facility", argRequired, (*queryArgs).setFacility, nil},
		{'g', "grep", argRequired, func(a *queryArgs, v string) error { a.grep, a.pattern = true, v; return nil }, nil},
		{0, "case-sensitive", argOptional, (*queryArgs).setCase, nil},
	}
}

func outputOptions() []queryOption {
	return []queryOption{
		{0, "no-pager", argNone, flag(func(a *queryArgs) { a.noPager = true }), nil},
		{0, "truncate-newline", argNone, flag(func(a *queryArgs) { a.render.FirstLine = true }), nil},
		{0, "no-full", argNone, flag(func(a *queryArgs) { a.render.NoFull = true }), nil},
		{0, "no-tail", argNone, flag(func(a *queryArgs) { a.noTail = true }), nil},
		{'W', "no-hostname", argNone, flag(func(a *queryArgs) { a.render.NoHostname = true }), nil},
		{'o', "output", argRequired, (*queryArgs).setMode, nil},
		{0, "output-fields", argRequired, func(a *queryArgs, v string) error {
			a.render.OutputFields = append(a.render.OutputFields, strings.FieldsFunc(v, func(r rune) bool { return r == ',' })...)
			return nil
		}, nil},
		{'n', "lines", argOptional, func(a *queryArgs, v string) (err error) {
			a.query.Lines, a.query.Oldest, err = query.ParseLines(orElse(v, "10"))
			return withHint(err, "want a number, all, or +N for the oldest")
		}, func(word string) bool { _, _, err := query.ParseLines(word); return err == nil }},
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
		command(0, "list-invocations", actInvocations),
		command(0, "header", actHeader),
		command(0, "list-catalog", actListCatalog),
		command(0, "dump-catalog", actDumpCatalog),
		command(0, "disk-usage", actDiskUsage),
		command(0, "verify", actVerify),
		command(0, "sync", actSync),
		{0, "rotate", argNone, flag((*queryArgs).setRotate), nil},
		{0, "vacuum-size", argRequired, (*queryArgs).setVacuumSize, nil},
		{0, "vacuum-files", argRequired, (*queryArgs).setVacuumFiles, nil},
		{0, "vacuum-time", argRequired, (*queryArgs).setVacuumTime, nil},
		command(0, "flush", actFlush),
		command(0, "relinquish-var", actRelinquish),
		command(0, "smart-relinquish-var", actRelinquish),
	}
}

// refusedOptions are those of journalctl that tidemark does not have: each with
// the reason and what to do instead.
func refusedOptions() []queryOption {
	refuse := func(short byte, long string, kind argKind, why, instead string) queryOption {
		return queryOption{short, long, kind, func(*queryArgs, string) error {
			name := "--" + long
			return withHint(fmt.Errorf("option %s is not supported: %s", name, why), instead)
		}, nil}
	}
	const (
		containers = "containers are found by asking systemd"
		images     = "disk images are not opened"
		sealing    = "tidemark does not seal files"
	)
	const (
		mount  = "mount it, and name what is mounted with --root DIR"
		theirs = "systemd's journalctl can do that"
	)
	return []queryOption{
		refuse('M', "machine", argRequired, containers, "name the container's files with -D DIR, or its root directory with --root DIR"),
		refuse(0, "image", argRequired, images, mount),
		refuse(0, "image-policy", argRequired, images, mount),
		refuse(0, "list-namespaces", argNone, "namespaces are journald's", "they are the directories /var/log/journal/ID.NAMESPACE: --namespace NAMESPACE reads one, --namespace '*' all"),
		refuse(0, "synchronize-on-exit", argRequired, "it is newer than what tidemark follows", "run tidemark sync before you stop the follower"),
		refuse(0, "setup-keys", argNone, sealing, theirs),
		refuse(0, "interval", argRequired, sealing, theirs),
		refuse(0, "force", argNone, sealing, theirs),
		refuse(0, "verify-key", argRequired, "seals are not checked", "--verify checks all else; "+theirs),
		refuse(0, "update-catalog", argNone, "the catalog is systemd's", theirs),
		refuse(0, "new-id128", argNone, "it has nothing to do with logs", "systemd-id128 new, or uuidgen, makes one"),
	}
}

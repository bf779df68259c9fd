package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

// unsupportedOptions are those of journalctl 252 that tidemark does not have.
func unsupportedOptions() []queryOption {
	return []queryOption{
		{'M', "machine", argRequired, nil, nil},
		{0, "root", argRequired, nil, nil},
		{0, "image", argRequired, nil, nil},
		{0, "namespace", argRequired, nil, nil},
		{0, "interval", argRequired, nil, nil},
		{0, "verify-key", argRequired, nil, nil},
		{0, "force", argNone, nil, nil},
		{0, "vacuum-size", argRequired, nil, nil},
		{0, "vacuum-files", argRequired, nil, nil},
		{0, "vacuum-time", argRequired, nil, nil},
		{0, "list-catalog", argNone, nil, nil},
		{0, "dump-catalog", argNone, nil, nil},
		{0, "update-catalog", argNone, nil, nil},
		{0, "setup-keys", argNone, nil, nil},
		{0, "new-id128", argNone, nil, nil},
	}
}

// daemonMethod is what a command asks of the running daemon; empty for those
// that need none.
func (act queryAction) daemonMethod() string {
	switch act {
	case actSync:
		return control.MethodSynchronize
	case actRotate:
		return control.MethodRotate
	case actFlush:
		return control.MethodFlushToVar
	case actRelinquish:
		return control.MethodRelinquishVar
	default:
		return ""
	}
}

// runCommand does what reads no entries: commands to the daemon, and the check
// of files.
func (a *queryArgs) runCommand(ctx context.Context, stderr io.Writer) (done bool, err error) {
	if method := a.action.daemonMethod(); method != "" {
		_, err := command(ctx, "", method, stderr)
		return true, err
	}
	if a.action != actVerify {
		return false, nil
	}
	dirs, files := a.source(stderr)
	for _, dir := range dirs {
		list, err := journal.FilesIn(dir)
		if err != nil && (a.directory != "" || len(list) > 0) {
			return true, unopened(dir, err)
		}
		files = append(files, list...)
	}
	v := newVerifyRun(stderr, a.query.Quiet, verifyShown)
	found := false
	for _, name := range files {
		if len(a.files) == 0 && !a.wants(name) {
			continue
		}
		found = true
		if err := v.listed(ctx, name, len(a.files) == 0); err != nil {
			return true, err
		}
	}
	if !found && !a.query.Quiet {
		a.sayNoFiles(stderr)
	}
	if v.failed {
		return true, silent()
	}
	return true, nil
}

// source is where a reads from: directories that exist, or files. It keeps in
// a.looked the directories it has looked for. notes gets warnings.
func (a *queryArgs) source(notes io.Writer) (dirs, files []string) {
	switch {
	case a.directory != "":
		a.looked = []string{a.directory}
		return a.looked, nil
	case len(a.files) > 0:
		return nil, a.files
	default:
		a.looked = defaultDirs(findPlaces(environment(), notes).data, calledAsJournalctl(), a.query.Merge)
		return existing(a.looked), nil
	}
}

// existing are those of dirs that are there.
func existing(dirs []string) []string {
	var there []string
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			there = append(there, d)
		}
	}
	return there
}

// wants reports whether a file is of the kind that --system and --user ask for:
// by its name, as journalctl does it.
func (a *queryArgs) wants(path string) bool {
	if !a.system && !a.user {
		return true
	}
	name := filepath.Base(path)
	return a.system && isOf("system", name) || a.user && isOf("user-"+strconv.Itoa(os.Getuid()), name)
}

// isOf reports whether name is the current file of base, or one of its archives.
func isOf(base, name string) bool {
	return name == base+".journal" || name == base+".journal~" || strings.HasPrefix(name, base+"@")
}

// sayNoFiles says where no journal files were found, and what to do about it.
func (a *queryArgs) sayNoFiles(stderr io.Writer) {
	kind, hint := "journal files", "name a directory of journal files with -D, or a file with --file"
	switch {
	case a.system && !a.user:
		kind = "system journal files"
	case a.user && !a.system:
		kind = "journal files of user " + strconv.Itoa(os.Getuid())
	}
	switch {
	case a.user && !a.system:
		hint = "leave --user out to see all that you may read"
	case a.directory == "" && len(a.files) == 0:
		hint = "is the daemon running? Start it with tidemark serve, or " + hint
	}
	where := strings.Join(a.looked, " or ")
	if where == "" {
		where = "any known place"
	}
	_, _ = fmt.Fprintf(stderr, "No %s in %s: %s.\n", kind, where, hint)
}

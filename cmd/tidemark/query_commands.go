package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
)

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
	if a.action == actRotateVacuum {
		if err := rotateOut(ctx, "", stderr); err != nil {
			return true, err
		}
	} else if method := a.action.daemonMethod(); method != "" {
		_, err := command(ctx, "", method, stderr)
		return true, err
	}
	switch a.action {
	case actVacuum, actRotateVacuum:
		// Whoever has rotated, or is named, is whose archives go.
		named := a.action == actRotateVacuum || environment().Getenv("TIDEMARK_RUN") != ""
		if named && len(a.dirs) == 0 && len(a.files) == 0 {
			if a.data, err = daemonData(ctx, "", stderr); err != nil {
				return true, err
			}
		}
		return true, a.runVacuum(stderr)
	case actVerify:
		return true, a.runVerify(ctx, stderr)
	default:
		return false, nil
	}
}

// runVerify checks files.
func (a *queryArgs) runVerify(ctx context.Context, stderr io.Writer) error {
	dirs, files := a.source(stderr)
	for _, dir := range dirs {
		list, err := journal.FilesIn(dir)
		if err != nil && (a.named || len(list) > 0) {
			return unopened(dir, err)
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
			return err
		}
	}
	if !found && !a.query.Quiet {
		a.sayNoFiles(stderr)
	}
	if v.failed {
		return silent()
	}
	return nil
}

// source is where a reads from: directories that exist, or files. It keeps in
// a.looked the directories it has looked for. notes gets warnings.
func (a *queryArgs) source(notes io.Writer) (dirs, files []string) {
	switch {
	case len(a.dirs) > 0:
		a.looked = a.dirs
		if a.root {
			return existing(a.dirs), nil
		}
		return a.dirs, nil
	case len(a.files) > 0:
		return nil, a.files
	default:
		own := a.data
		if own == "" {
			own = findPlaces(environment(), notes).data
		}
		a.looked = defaultDirs(own, calledAsJournalctl(), a.query.Merge, a.namespace)
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

// wants reports whether a file that was found in a directory is of the namespace
// asked for, and of the kind that --system and --user ask for: by its name, as
// journalctl does it.
func (a *queryArgs) wants(path string) bool {
	return a.wantsDir(filepath.Dir(path)) && a.wantsName(filepath.Base(path))
}

// wantsInTurn is wants for one file after another: a directory is looked at once for
// all that follow one another in it.
func (a *queryArgs) wantsInTurn() func(path string) bool {
	var dir string
	var wanted, asked bool
	return func(path string) bool {
		d, name := filepath.Split(path)
		if !asked || d != dir {
			dir, wanted, asked = d, a.wantsDir(filepath.Dir(path)), true
		}
		return wanted && a.wantsName(name)
	}
}

func (a *queryArgs) wantsDir(dir string) bool {
	if slices.ContainsFunc(a.looked, func(d string) bool { return filepath.Clean(d) == dir }) {
		return true
	}
	_, space, _ := strings.Cut(filepath.Base(dir), ".")
	return inNamespace(space, a.namespace)
}

func (a *queryArgs) wantsName(name string) bool {
	return !a.system && !a.user ||
		a.system && isOf("system", name) || a.user && isOf("user-"+strconv.Itoa(os.Getuid()), name)
}

// inNamespace reports whether --namespace=asked, empty when it was not given,
// wants the namespace space, empty for the default one.
func inNamespace(space, asked string) bool {
	more, both := strings.CutPrefix(asked, "+")
	return asked == "*" || space == asked || both && (space == "" || space == more)
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
	case len(a.dirs)+len(a.files) == 0:
		hint = "is the daemon running? Start it with tidemark serve, or " + hint
	}
	where := strings.Join(a.looked, " or ")
	if where == "" {
		where = "any known place"
	}
	_, _ = fmt.Fprintf(stderr, "No %s in %s: %s.\n", kind, where, hint)
}

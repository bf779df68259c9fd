package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/query"
	"github.com/tidemark-log/tidemark/journal"
)

// hintedError is an error in journalctl's words, to which the next step is not
// added: it is a line of its own.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// withHint adds a hint to an error in journalctl's words; nil stays nil.
func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintedError{err, hint}
}

// asTyped marks what a query finds wrong in its arguments as wrong usage, and adds
// the next step where there is one.
func asTyped(err error) error {
	var advice *query.AdviceError
	if errors.As(err, &advice) {
		return withHint(err, advice.Hint)
	}
	var typed *query.ArgumentError
	if !errors.As(err, &typed) {
		return err
	}
	return &usageError{withHint(err, typed.Hint)}
}

// hint is the line to print behind an error, empty for none.
func hint(err error) string {
	var h *hintedError
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// unopened is journalctl's error for what a query cannot open, named by what,
// with a hint that names the file.
func unopened(what string, err error) error {
	h := &hintedError{error: wordsf("Failed to open %s: %w", what, query.Reason(err))}
	if step := readStep(err, "name a directory of journal files with -D, or a file with --file"); step != "" {
		h.hint = pathOf(err) + step
	}
	return h
}

// pathOf is "PATH: " of the file that err is about; empty when it does not say.
func pathOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Path + ": "
	}
	return ""
}

// readStep is what to do about a file or directory that cannot be read, name
// when another one has to be named; empty when only the file can tell.
func readStep(err error, name string) string {
	var bad *journal.FormatError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "run this as root, or as a user or in a group that may read it"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, journal.ErrNotJournal):
		return name
	case errors.Is(err, syscall.EMFILE):
		return "more files than this process may open: raise its limit with ulimit -n, or name fewer with --file"
	case errors.As(err, &bad):
		return "tidemark verify " + bad.Path + " tells more"
	}
	return ""
}

// withStep adds the next step, if there is one, to an error that is one line.
func withStep(err error, step string) error {
	if step == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, step)
}

// serveStep adds to an error of the daemon's start what to do about it, where the
// error does not say so.
func serveStep(err error) error {
	var conf *config.Error
	var errno syscall.Errno
	about := func(part string) bool { return strings.HasPrefix(err.Error(), part) }
	switch {
	case errors.As(err, &conf):
		if conf.Line == 0 {
			return withStep(err, "name a file that can be read with --config")
		}
		return err
	case !errors.As(err, &errno):
		return err
	case about("listen on ") && errno == syscall.EACCES:
		return withStep(err, "ports below 1024 are root's: choose another with --http ADDRESS:PORT, or --http off")
	case about("listen on "):
		return withStep(err, "choose another with --http ADDRESS:PORT, or --http off")
	case about("access log: "):
		return withStep(err, "name a file in a directory that you may write to with --access-log")
	case about("run directory: "):
		return withStep(err, "choose a directory that you may write to with --run")
	case !slices.Contains([]syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOENT, syscall.ENOTDIR}, errno):
		return err // not about the place
	case about("open "), about("data directory: "), about("machine id: "):
		return withStep(err, "choose a directory that you may write to with --data")
	}
	return err
}

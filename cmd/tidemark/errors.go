package main

import (
	"errors"
	"fmt"
)

// Exit codes of every verb, except that query ends like journalctl: 1 for any
// error.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error in how a command was typed. The process ends with
// exitUsage instead of exitFailed.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// usagef makes a usageError as fmt.Errorf makes an error.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exitError ends the process with a code of its own. A nil err prints nothing:
// the verb has said all there is to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// silent ends the process with exitFailed and prints nothing.
func silent() error { return &exitError{code: exitFailed} }

// outcome turns what a verb returned into the exit code and the line to print;
// an empty line prints nothing.
func outcome(err error) (code int, line string) {
	var usage *usageError
	var exit *exitError
	switch {
	case err == nil:
		return exitDone, ""
	case errors.As(err, &exit):
		if exit.err == nil {
			return exit.code, ""
		}
		return exit.code, exit.err.Error()
	case errors.As(err, &usage):
		return exitUsage, err.Error()
	default:
		return exitFailed, err.Error()
	}
}

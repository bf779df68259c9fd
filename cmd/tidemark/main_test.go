package main

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorLine(t *testing.T) {
	joined := errors.Join(errors.New("a: full"), errors.New("b: full"))
	tests := []struct{ name, prefix, verb, line, want string }{
		{"a verb", "tidemark ", "sync", "what: why", "tidemark sync: what: why"},
		{"no verb", "tidemark ", "tidemark", "unknown command", "tidemark: unknown command"},
		{"called as journalctl", "", "query", "what: why", "journalctl: what: why"},
		{"several errors", "tidemark ", "serve", joined.Error(), "tidemark serve: a: full; b: full"},
	}
	for _, tt := range tests {
		if got := errorLine(tt.prefix, tt.verb, tt.line); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code int
		line string
	}{
		{"done", nil, exitDone, ""},
		{"failed", errors.New("x"), exitFailed, "x"},
		{"wrong usage", usagef("bad %s", "flag"), exitUsage, "bad flag"},
		{"wrapped wrong usage", fmt.Errorf("w: %w", usagef("bad")), exitUsage, "w: bad"},
		{"all is said", silent(), 1, ""},
		{"a code of its own", &exitError{3, errors.New("x")}, 3, "x"},
	}
	for _, tt := range tests {
		if code, line := outcome(tt.err); code != tt.code || line != tt.line {
			t.Errorf("%s: %d %q, want %d %q", tt.name, code, line, tt.code, tt.line)
		}
	}
}

package query

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Case says how -g compares letters.
type Case uint8

// The values of Case.
const (
	// CaseAuto ignores case when the pattern has no upper-case letter.
	CaseAuto Case = iota
	CaseSensitive
	CaseInsensitive
)

// Pattern is what -g looks for: a regular expression of package regexp. Most
// messages are ruled out by texts that every match must have, which are found much
// faster than the expression. A Pattern is immutable.
type Pattern struct {
	re   *regexp.Regexp
	need need
}

// CompilePattern compiles the pattern of -g. An error is an *ArgumentError.
func CompilePattern(pattern string, c Case) (*Pattern, error) {
	flags := syntax.Perl
	if c == CaseInsensitive || c == CaseAuto && strings.ToLower(pattern) == pattern {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	tree = dollars(tree)
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	p := &Pattern{re: re}
	p.need = required(tree.Simplify())
	return p, nil
}

// badPattern says in journalctl's words that a pattern is none, which part of it,
// and what that is called where PCRE would take it.
func badPattern(pattern string, err error) error {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return &ArgumentError{"Bad pattern \"" + pattern + "\": " + err.Error(), patternHint}
	}
	what := string(bad.Code)
	for _, p := range perlOnly {
		if bad.Code == p.code && strings.HasPrefix(bad.Expr, p.begins) {
			what = p.name
			break
		}
	}
	if bad.Expr != "" && bad.Expr != pattern {
		what += ": " + bad.Expr
	}
	return &ArgumentError{"Bad pattern \"" + pattern + "\": " + what, patternHint}
}

const patternHint = "-g takes Go's expressions, see pkg.go.dev/regexp/syntax: without look-around, back references, possessive and atomic groups"

// perlOnly are constructs of PCRE that package regexp has not, as its errors show
// them.
var perlOnly = [...]struct {
	code         syntax.ErrorCode
	begins, name string
}{
	{syntax.ErrInvalidPerlOp, "(?=", "look-ahead is not supported"},
	{syntax.ErrInvalidPerlOp, "(?!", "look-ahead is not supported"},
	{syntax.ErrInvalidNamedCapture, "(?<=", "look-behind is not supported"},
	{syntax.ErrInvalidNamedCapture, "(?<!", "look-behind is not supported"},
	{syntax.ErrInvalidPerlOp, "(?>", "atomic groups are not supported"},
	{syntax.ErrInvalidPerlOp, "(?|", "branch resets are not supported"},
	{syntax.ErrInvalidPerlOp, "(?(", "conditional groups are not supported"},
	{syntax.ErrInvalidPerlOp, "(?#", "comments are not supported"},
	{syntax.ErrInvalidRepeatOp, "", "possessive or nested repetition is not supported"},
	{syntax.ErrInvalidEscape, `\1`, "back references are not supported"},
	{syntax.ErrInvalidEscape, `\2`, "back references are not supported"},
	{syntax.ErrInvalidEscape, `\k`, "back references are not supported"},
	{syntax.ErrInvalidEscape, `\g`, "back references are not supported"},
}

// dollars makes $ match before a newline at the very end too, as it does in PCRE.
func dollars(tree *syntax.Regexp) *syntax.Regexp {
	if tree.Op == syntax.OpEndText && tree.Flags&syntax.WasDollar != 0 {
		newline := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\n'}}
		end := &syntax.Regexp{Op: syntax.OpEndText}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{{Op: syntax.OpQuest, Sub: []*syntax.Regexp{newline}}, end}}
	}
	for i, sub := range tree.Sub {
		tree.Sub[i] = dollars(sub)
	}
	return tree
}

// Match reports whether the pattern is found in b.
func (p *Pattern) Match(b []byte) bool {
	if !p.need.none() {
		if a := p.need.look(b); a != maybe {
			return a == yes
		}
	}
	return p.re.Match(b)
}

// Find returns where the first match in b begins and ends.
func (p *Pattern) Find(b []byte) (from, to int, ok bool) {
	loc := p.re.FindIndex(b)
	if loc == nil {
		return 0, 0, false
	}
	return loc[0], loc[1], true
}

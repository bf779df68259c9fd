package query

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
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
		if !p.need.in(b) {
			return false
		}
		if p.need.exact {
			return true
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

// literal returns the text of a literal. When case is ignored, K and S and
// letters outside ASCII have relatives of another length: the longest text
// between such is what is required then.
func literal(tree *syntax.Regexp) (need []byte, fold, exact bool) {
	if tree.Flags&syntax.FoldCase == 0 {
		return []byte(string(tree.Rune)), false, true
	}
	var part []byte
	for _, r := range tree.Rune {
		if r >= utf8.RuneSelf || r|0x20 == 'k' || r|0x20 == 's' {
			part = nil
			continue
		}
		if 'A' <= r && r <= 'Z' {
			r |= 0x20
		}
		if part = append(part, byte(r)); len(part) > len(need) {
			need = part
		}
	}
	return need, true, len(need) == len(tree.Rune)
}

// indexFold finds lower, in lower case, in b, ignoring the case of ASCII
// letters.
func indexFold(b, lower []byte) int {
	first := lower[0]
	upper := first
	if 'a' <= first && first <= 'z' {
		upper = first &^ 0x20
	}
	// next holds where the two forms of the first byte come next; len(b): not.
	next := [2]int{-1, -1}
	if upper == first {
		next[1] = len(b)
	}
	for i := 0; i+len(lower) <= len(b); i++ {
		for k, c := range [2]byte{first, upper} {
			if next[k] < i {
				next[k] = len(b)
				if n := bytes.IndexByte(b[i:], c); n >= 0 {
					next[k] = i + n
				}
			}
		}
		if i = min(next[0], next[1]); i+len(lower) > len(b) {
			return -1
		}
		if equalFold(b[i:i+len(lower)], lower) {
			return i
		}
	}
	return -1
}

func equalFold(b, lower []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

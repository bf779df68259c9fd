package journal

import (
	"bytes"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// matchOp is what a Match does with its parts.
type matchOp uint8

const (
	matchAll matchOp = iota
	matchTerm
	matchAnd
	matchOr
	matchNot
)

// Match says which entries are wanted. It is immutable; the zero Match is all
// of them.
type Match struct {
	op    matchOp
	field entry.Field
	subs  []Match
}

// Term matches entries that have exactly this field, NAME=value. A field
// without a name matches nothing.
func Term(field entry.Field) Match {
	if bytes.IndexByte(field, '=') < 1 {
		return Or()
	}
	return Match{op: matchTerm, field: bytes.Clone(field)}
}

// And matches entries that all of ms match; And() is all entries.
func And(ms ...Match) Match {
	var subs []Match
	for _, m := range ms {
		switch m.op {
		case matchAll:
		case matchAnd:
			subs = append(subs, m.subs...)
		case matchTerm, matchOr, matchNot:
			subs = append(subs, m)
		}
	}
	switch len(subs) {
	case 0:
		return Match{}
	case 1:
		return subs[0]
	default:
		return Match{op: matchAnd, subs: subs}
	}
}

// Or matches entries that one of ms matches; Or() is no entry.
func Or(ms ...Match) Match {
	var subs []Match
	for _, m := range ms {
		switch m.op {
		case matchAll:
			return Match{}
		case matchOr:
			subs = append(subs, m.subs...)
		case matchTerm, matchAnd, matchNot:
			subs = append(subs, m)
		}
	}
	if len(subs) == 1 {
		return subs[0]
	}
	return Match{op: matchOr, subs: subs}
}

// Not matches the entries that m does not match. The files have no index for
// it: among the entries that the terms it is combined with select, or among
// all, each is looked at.
func Not(m Match) Match {
	switch m.op {
	case matchAll:
		return Or()
	case matchNot:
		return m.subs[0]
	case matchOr:
		if len(m.subs) == 0 {
			return Match{}
		}
	case matchTerm, matchAnd:
	}
	return Match{op: matchNot, subs: []Match{m}}
}

// All reports whether m matches every entry.
func (m Match) All() bool { return m.op == matchAll }

// Matches reports whether e matches.
func (m Match) Matches(e *entry.Entry) bool {
	switch m.op {
	case matchTerm:
		for _, f := range e.Fields {
			if bytes.Equal(f, m.field) {
				return true
			}
		}
		return false
	case matchAnd:
		for _, s := range m.subs {
			if !s.Matches(e) {
				return false
			}
		}
		return true
	case matchOr:
		for _, s := range m.subs {
			if s.Matches(e) {
				return true
			}
		}
		return false
	case matchNot:
		return !m.subs[0].Matches(e)
	case matchAll:
	}
	return true
}

// String returns m for people, as in (A=1 AND NOT (B=2 OR B=3)).
func (m Match) String() string {
	switch m.op {
	case matchTerm:
		return string(m.field)
	case matchNot:
		return "NOT " + m.subs[0].String()
	case matchAnd, matchOr:
		if len(m.subs) == 0 {
			return "none"
		}
		word := " AND "
		if m.op == matchOr {
			word = " OR "
		}
		parts := make([]string, 0, len(m.subs))
		for _, s := range m.subs {
			parts = append(parts, s.String())
		}
		return "(" + strings.Join(parts, word) + ")"
	case matchAll:
	}
	return "all"
}

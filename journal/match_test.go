package journal

import (
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// Matches are simplified as they are built, so that what is read through the
// index is as little as can be; the text shows what is left.
func TestMatchesAreSimplified(t *testing.T) {
	a, b, c := Term(entry.Field("A=1")), Term(entry.Field("B=2")), Term(entry.Field("C=3"))
	var all Match
	for _, tt := range []struct {
		m    Match
		want string
	}{
		{all, "all"},
		{a, "A=1"},
		{Term(entry.Field("A")), "none"},
		{Term(entry.Field("=1")), "none"},
		{And(), "all"},
		{And(all, all), "all"},
		{And(a, all), "A=1"},
		{And(And(a, b), c), "(A=1 AND B=2 AND C=3)"},
		{And(a, Or()), "(A=1 AND none)"},
		{Or(), "none"},
		{Or(a), "A=1"},
		{Or(a, all), "all"},
		{Or(Or(a, b), c), "(A=1 OR B=2 OR C=3)"},
		{Or(And(a, b), c), "((A=1 AND B=2) OR C=3)"},
		{Not(all), "none"},
		{Not(Or()), "all"},
		{Not(a), "NOT A=1"},
		{Not(Not(a)), "A=1"},
		{Not(Or(a, b)), "NOT (A=1 OR B=2)"},
	} {
		if got := tt.m.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if got := tt.m.All(); got != (tt.want == "all") {
			t.Errorf("%s: All() = %v", tt.m, got)
		}
	}
}

// Which entries match, asked without a file.
func TestMatches(t *testing.T) {
	a, b := Term(entry.Field("A=1")), Term(entry.Field("B=2"))
	e := wFields("A=1", "A=2", "C=3")
	for _, tt := range []struct {
		m    Match
		want bool
	}{
		{Match{}, true},
		{a, true},
		{b, false},
		{Term(entry.Field("A=")), false},
		{Term(entry.Field("A=2")), true},
		{And(a, b), false},
		{And(a, Term(entry.Field("C=3"))), true},
		{Or(b, a), true},
		{Or(), false},
		{Not(a), false},
		{Not(b), true},
		{And(a, Not(b)), true},
	} {
		if got := tt.m.Matches(&e); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.m, got, tt.want)
		}
	}
	field := entry.Field("A=1")
	m := Term(field)
	field[2] = '9'
	if !m.Matches(&e) {
		t.Error("a match changes with the bytes it was made of")
	}
}

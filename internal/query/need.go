package query

import (
	"bytes"
	"regexp/syntax"
	"slices"
)

// need is what a text must hold for an expression to be found in it: a text, or
// all or one of other needs. The zero need is nothing.
type need struct {
	text  []byte // in lower case when fold is set
	fold  bool
	any   bool // one of subs, else all of them
	subs  []need
	exact bool // what holds it matches
}

func (n *need) none() bool { return len(n.text) == 0 && len(n.subs) == 0 }

// in reports whether b holds what is needed.
func (n *need) in(b []byte) bool {
	switch {
	case len(n.text) > 0 && n.fold:
		return indexFold(b, n.text) >= 0
	case len(n.text) > 0:
		return bytes.Contains(b, n.text)
	}
	for i := range n.subs {
		if n.subs[i].in(b) == n.any {
			return n.any
		}
	}
	return !n.any
}

// required returns what every match of tree holds.
func required(tree *syntax.Regexp) need {
	switch tree.Op {
	case syntax.OpLiteral:
		text, fold, exact := literal(tree)
		return need{text: text, fold: fold, exact: exact}
	case syntax.OpCapture, syntax.OpPlus:
		n := required(tree.Sub[0])
		n.exact = n.exact && tree.Op == syntax.OpCapture
		return n
	case syntax.OpConcat:
		var all need
		for _, sub := range tree.Sub {
			if n := required(sub); !n.none() {
				all.subs = append(all.subs, n)
			}
		}
		// The longest is the rarest, mostly.
		slices.SortStableFunc(all.subs, func(a, b need) int { return len(b.text) - len(a.text) })
		return all
	case syntax.OpAlternate:
		one := need{any: true, exact: true}
		for _, sub := range tree.Sub {
			n := required(sub)
			if n.none() {
				return need{}
			}
			one.subs = append(one.subs, n)
			one.exact = one.exact && n.exact
		}
		return one
	default:
		return need{} // it may match without any text
	}
}

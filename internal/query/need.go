package query

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// need is what a text must hold for an expression to be found in it: a text, or
// all or one of other needs. The zero need is nothing.
type need struct {
	text text
	any  bool // one of subs, else all of them
	subs []need
}

// answer is what a need tells of a text.
type answer uint8

const (
	no    answer = iota // the expression is not found
	maybe               // it may be
	yes                 // it is
)

func (n *need) none() bool { return n.text.none() && len(n.subs) == 0 }

// look tells what b holds of what is needed.
func (n *need) look(b []byte) answer {
	if !n.text.none() {
		return n.text.look(b)
	}
	all := no
	if !n.any {
		all = maybe // the order of several is not looked at
	}
	for i := range n.subs {
		switch got := n.subs[i].look(b); {
		case !n.any && got == no:
			return no
		case n.any && got == yes:
			return yes
		case n.any:
			all = max(all, got)
		}
	}
	return all
}

// maxTexts bounds the texts that an expression is taken apart into.
const maxTexts = 32

// required returns what every match of tree holds.
func required(tree *syntax.Regexp) need {
	if list, fold, ok := texts(tree); ok {
		one := need{any: true}
		for _, runes := range list {
			n := need{text: newText(runes, fold)}
			if n.none() {
				return n
			}
			one.subs = append(one.subs, n)
		}
		return one
	}
	switch tree.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return required(tree.Sub[0])
	case syntax.OpConcat:
		var all need
		for _, sub := range tree.Sub {
			if n := required(sub); !n.none() {
				all.subs = append(all.subs, n)
			}
		}
		// The longest is the rarest, mostly.
		slices.SortStableFunc(all.subs, func(a, b need) int { return b.text.size() - a.text.size() })
		return all
	case syntax.OpAlternate:
		one := need{any: true}
		for _, sub := range tree.Sub {
			n := required(sub)
			if n.none() {
				return need{}
			}
			one.subs = append(one.subs, n)
		}
		return one
	default:
		return need{} // it may match without any text
	}
}

// texts returns the texts that tree matches, if these are few and nothing else
// matters to it; fold: in any case of the letters.
func texts(tree *syntax.Regexp) (list [][]rune, fold, ok bool) {
	switch tree.Op {
	case syntax.OpLiteral:
		if slices.Contains(tree.Rune, utf8.RuneError) {
			return nil, false, false // bytes that are no UTF-8 match it too
		}
		return [][]rune{tree.Rune}, tree.Flags&syntax.FoldCase != 0, true
	case syntax.OpCapture:
		return texts(tree.Sub[0])
	case syntax.OpConcat:
		list = [][]rune{nil}
	case syntax.OpAlternate:
	default:
		return nil, false, false
	}
	for i, sub := range tree.Sub {
		more, f, ok := texts(sub)
		if !ok || i > 0 && f != fold {
			return nil, false, false
		}
		fold = f
		if tree.Op == syntax.OpConcat {
			more = products(list, more)
			list = nil
		}
		if list = append(list, more...); len(list) > maxTexts {
			return nil, false, false
		}
	}
	return list, fold, true
}

// products returns each of a followed by each of b.
func products(a, b [][]rune) [][]rune {
	out := make([][]rune, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, slices.Concat(x, y))
		}
	}
	return out
}

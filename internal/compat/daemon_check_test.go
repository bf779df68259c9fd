package compat

import (
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// checkSequence checks that the entries are neighbours, from the first of all
// on when they go forward from there.
func checkSequence(t *testing.T, what string, all []entry.Entry, step int) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.SeqnumID != b.SeqnumID || b.Seqnum != a.Seqnum+uint64(step) {
			t.Errorf("%s: after entry %d of %v comes %d of %v", what, a.Seqnum, a.SeqnumID, b.Seqnum, b.SeqnumID)
			return
		}
	}
	if len(all) == 0 {
		t.Errorf("%s shows nothing", what)
	}
}

// checkPrefixes checks that what is there of each sender is what it sent
// first, and returns how much that is.
func checkPrefixes(t *testing.T, what string, all []entry.Entry) map[int]int {
	t.Helper()
	next := make(map[int]int)
	for i := range all {
		message, _ := all[i].Get("MESSAGE")
		s, k, ok := floodNumber(string(message))
		if !ok {
			continue
		}
		if k != next[s] {
			t.Errorf("%s: sender %d: entry %d where %d is next", what, s, k, next[s])
			return next
		}
		next[s]++
	}
	if all[0].Seqnum != 1 {
		t.Errorf("%s begins with entry %d", what, all[0].Seqnum)
	}
	return next
}

// checkMatches checks that all match, and come in order. Some may be left out:
// the index may be written between the search for one value and for the next.
func checkMatches(t *testing.T, what string, all []entry.Entry) {
	t.Helper()
	next := make(map[int]int)
	for i := range all {
		message, _ := all[i].Get("MESSAGE")
		s, k, _ := floodNumber(string(message))
		if k < next[s] || !floodMatch(k) {
			t.Errorf("%s with a match: sender %d: entry %d where %d or a later one is next", what, s, k, next[s])
			return
		}
		next[s] = k + 1
	}
}

// checkWhole checks that everything that was sent is there, once and in order,
// and no number is left out.
func checkWhole(t *testing.T, all []entry.Entry, senders []*sender) {
	t.Helper()
	checkSequence(t, "all entries", all, 1)
	checkSent(t, all, senders)
}

// checkSent checks that everything that was sent is there, once and in order.
func checkSent(t *testing.T, all []entry.Entry, senders []*sender) {
	t.Helper()
	next := checkPrefixes(t, "all entries", all)
	for _, s := range senders {
		if next[s.id] != s.next {
			t.Errorf("%d entries of sender %d are there, %d were sent", next[s.id], s.id, s.next)
		}
	}
}

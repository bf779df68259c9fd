package main

import (
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTailCounts lets a follower show a flood of two senders with an entry
// passed over, one doubled and one late, the last of a burst never.
func TestTailCounts(t *testing.T) {
	const bursts = 2
	matches := func(k int) bool { return k%3 == 0 }
	var out strings.Builder
	line := func(s, k int) { fmt.Fprintf(&out, "%s %d %d\n", floodWord, s, k) }
	fmt.Fprintf(&out, "%s 1\nsomething else\n", loneWord)
	for s := range 2 {
		for k := 0; k < bursts*tailBurst; k += 3 {
			switch {
			case s == 0 && k == 300: // passed over
			case s == 0 && k == tailBurst-3: // passed over, the last of a burst
			case s == 1 && k == 600:
				line(s, k)
				line(s, k)
			case s == 1 && k == 900:
				line(s, k+3)
				line(s, k)
			case s == 1 && k == 903:
			default:
				line(s, k)
			}
		}
	}
	f := newTail(exec.Command("true"), matches, 2, bursts)
	began := time.Now()
	f.read(strings.NewReader(out.String()))
	if f.watches() {
		t.Error("watches, though sender 0's lone entry was not shown")
	}
	f.met(0)
	if !f.watches() {
		t.Error("does not watch, though a lone entry of each was shown")
	}
	var sum tally
	f.count(&sum, []time.Time{began, began})
	if sum.expected != 2000 || sum.shown != 1998 || sum.doubled != 1 || sum.disordered != 1 {
		t.Errorf("%+v, want 2000 expected, 1998 shown, 1 doubled, 1 out of order", sum)
	}
	if sum.lags[0] != math.MaxInt64 || sum.lags[1] == math.MaxInt64 {
		t.Errorf("lags %v: the first burst's last entry was passed over, the second's not", sum.lags)
	}
	if f.strange != "" {
		t.Errorf("%q is said not to be asked for", f.strange)
	}
	f.heard("flood 0 1", 0, 1, began)
	if f.strange != "flood 0 1" {
		t.Error("an entry that does not match is taken")
	}
}

// TestQuantile uses the nearest rank, which errs to the worse side.
func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile %g of 1…100 is %d, want %d", q, got, want)
		}
	}
	if got := quantile(all[:3], 0.5); got != 2 {
		t.Errorf("the median of 1, 2, 3 is %d", got)
	}
	if got := quantile(all[:60], 0.99); got != 60 {
		t.Errorf("quantile 0.99 of 60 is %d, want the longest", got)
	}
}

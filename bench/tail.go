package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally is what one kind of follower showed in all runs.
type tally struct {
	expected, shown     int // entries, each counted once
	doubled, disordered int // lines
	lags                []time.Duration
}

// tail is a follower that is read.
type tail struct {
	cmd    *exec.Cmd
	want   func(k int) bool
	stderr bytes.Buffer  // only to be read after ended
	ended  chan struct{} // closed when its output has ended
	moved  chan struct{} // holds one when it has shown something new

	mu         sync.Mutex
	watched    []bool   // by sender: a lone entry was shown
	seen       [][]bool // by sender and number
	highest    []int    // by sender
	closed     []int    // by burst: senders whose last entry in it was shown
	closedAt   []time.Time
	shown      int
	shownAt    time.Time // the last of them
	doubled    int
	disordered int
	strange    string // a line that was not asked for
}

// newTail prepares a follower of floods in bursts.
func newTail(cmd *exec.Cmd, want func(k int) bool, senders, bursts int) *tail {
	f := &tail{
		cmd: cmd, want: want, ended: make(chan struct{}), moved: make(chan struct{}, 1),
		watched: make([]bool, senders), seen: make([][]bool, senders), highest: make([]int, senders),
		closed: make([]int, bursts), closedAt: make([]time.Time, bursts),
	}
	for s := range senders {
		f.seen[s], f.highest[s] = make([]bool, bursts*tailBurst), -1
	}
	return f
}

func (f *tail) start() error {
	f.cmd.Stderr = &f.stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := f.cmd.Start(); err != nil {
		return err
	}
	go f.read(out)
	return nil
}

// wait is to be called once the follower was told to end.
func (f *tail) wait() {
	<-f.ended
	_ = f.cmd.Wait() // killed
}

func (f *tail) read(out io.Reader) {
	defer close(f.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		now := time.Now()
		w := strings.Fields(lines.Text())
		switch {
		case len(w) == 3 && w[0] == floodWord:
			f.heard(lines.Text(), number(w[1]), number(w[2]), now)
		case len(w) == 2 && w[0] == loneWord:
			f.met(number(w[1]))
		}
		select {
		case f.moved <- struct{}{}:
		default:
		}
	}
}

// met marks that a lone entry of sender s was shown.
func (f *tail) met(s int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s < len(f.watched) {
		f.watched[s] = true
	}
}

// number reads a number that a sender of ours wrote; anything else is too large.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return math.MaxInt
	}
	return n
}

// heard counts entry k of sender s.
func (f *tail) heard(text string, s, k int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s >= len(f.seen) || k >= len(f.seen[s]) || !f.want(k):
		f.strange = text
		return
	case f.seen[s][k]:
		f.doubled++
		return
	case k < f.highest[s]:
		f.disordered++
	}
	f.seen[s][k], f.highest[s] = true, max(f.highest[s], k)
	f.shown++
	f.shownAt = now
	next := k + 1
	for !f.want(next) {
		next++
	}
	if b := k / tailBurst; next/tailBurst != b {
		f.closed[b]++
		f.closedAt[b] = now
	}
}

// expected is how many entries the follower is to show.
func (f *tail) expected() (n int) {
	for k := range len(f.seen[0]) {
		if f.want(k) {
			n += len(f.seen)
		}
	}
	return n
}

// watches tells whether a lone entry of each sender was shown.
func (f *tail) watches() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watched {
		if !w {
			return false
		}
	}
	return true
}

// awaitAll returns when everything was shown or, since the flood was over, nothing
// new for tailSilence. A follower that has ended is told of, and what it left out
// counts as passed over.
func (f *tail) awaitAll(ctx context.Context, over time.Time) error {
	expected := f.expected()
	for {
		f.mu.Lock()
		shown, strange, last := f.shown, f.strange, f.shownAt
		f.mu.Unlock()
		if last.Before(over) {
			last = over
		}
		if strange != "" {
			return fmt.Errorf("shows %q, which was not asked for", strange)
		}
		if shown == expected {
			return nil
		}
		select {
		case <-f.moved:
		case <-f.ended:
			fmt.Printf("%s ended by itself after %d of %d entries: %s\n\n", f.cmd, shown, expected, f.stderr.Bytes())
			return nil
		case <-time.After(time.Until(last.Add(tailSilence))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// count adds what was shown to sum. sent says when the last send of each burst
// began.
func (f *tail) count(sum *tally, sent []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum.expected += f.expected()
	sum.shown += f.shown
	sum.doubled += f.doubled
	sum.disordered += f.disordered
	for b, at := range sent {
		lag := time.Duration(math.MaxInt64)
		if f.closed[b] == len(f.seen) {
			lag = max(0, f.closedAt[b].Sub(at)) // what matches may be sent and shown before the last
		}
		sum.lags = append(sum.lags, lag)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/settle"
)

// What waits for a call, at most, while the one before is on its way: then a
// sender waits. One more entry may make it longer.
const (
	ackEntries = 1024
	ackBytes   = 1 << 20
)

// errUnacked ends the reading of input when a call has failed; acker.result says
// why.
var errUnacked = errors.New("not acknowledged")

// acker sends entries in calls that are answered when they have reached a level.
// One call is on its way at a time: what comes meanwhile goes with the next, so
// that a sync answers them all.
type acker struct {
	client *control.Client
	level  settle.Level

	mu      sync.Mutex
	changed sync.Cond // of mu
	pending []control.Entry
	size    int // of the values in pending, in bytes
	taken   int // entries given to add
	acked   int // of these, known to have reached the level
	dropped int // of these, not to be stored
	err     error
	ending  bool
}

// ackLevel reads the value of --ack.
func ackLevel(s string) (settle.Level, error) {
	l, err := settle.ParseLevel(s)
	if err != nil {
		return 0, usagef("--ack: %w", err)
	}
	if l >= settle.Replicated {
		return 0, usagef("--ack %s: the daemon has no target to replicate to: want appended or synced", l)
	}
	return l, nil
}

// dialAcker connects to the command socket of the daemon.
func dialAcker(ctx context.Context, socket string, level settle.Level) (*acker, error) {
	client, err := control.Dial(ctx, socket)
	if err != nil {
		return nil, unreachable(socket, err)
	}
	a := &acker{client: client, level: level}
	a.changed.L = &a.mu
	return a, nil
}

// add takes an entry for the next call, and copies what it keeps.
func (a *acker) add(fields []entry.Field) error {
	var e control.Entry
	size := 0
	for _, f := range fields {
		size += len(f)
		if utf8.Valid(f) {
			e.Fields = append(e.Fields, string(f))
		} else {
			e.Binary = append(e.Binary, append([]byte(nil), f...))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken++
	for a.err == nil && (len(a.pending) >= ackEntries || a.size >= ackBytes) {
		a.changed.Wait()
	}
	if a.err != nil {
		return errUnacked
	}
	a.pending, a.size = append(a.pending, e), a.size+size
	a.changed.Broadcast()
	return nil
}

// run makes the calls until end, or an error.
func (a *acker) run(ctx context.Context) {
	for batch := a.next(); len(batch) > 0; batch = a.next() {
		done, err := a.client.Append(ctx, batch, a.level.String())
		if !a.answered(len(batch), done, err) {
			return
		}
	}
}

// answered counts what a call of n entries has come to, and reports whether there
// may be another. Only what the daemon says is believed: an answer without an
// error has to name all entries, and the level.
func (a *acker) answered(n int, done control.Appended, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	level, lerr := settle.ParseLevel(done.Ack)
	reached := lerr == nil && level >= a.level
	if reached {
		a.acked += done.Accepted - done.Dropped
		a.dropped += done.Dropped
	}
	if err == nil && (!reached || done.Accepted != n) {
		err = fmt.Errorf("the daemon answers that %d of %d entries are %s", done.Accepted, n, done.Ack)
	}
	a.err = err
	a.changed.Broadcast()
	return err == nil
}

// next waits for entries; none are left when it returns none.
func (a *acker) next() []control.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.pending) == 0 && !a.ending {
		a.changed.Wait()
	}
	batch := a.pending
	a.pending, a.size = nil, 0
	a.changed.Broadcast()
	return batch
}

// end lets run return when what was added is answered.
func (a *acker) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ending = true
	a.changed.Broadcast()
}

// result is nil when every entry has reached the level. It is called after run
// has returned.
func (a *acker) result() error {
	err := a.err
	if err == nil && a.dropped > 0 {
		err = errors.New("the daemon does not store the others: they are above its MaxLevelStore=")
	}
	if errors.Is(err, context.Canceled) {
		return a.interrupted()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.known(), err)
	}
	return nil
}

// interrupted says how far the entries have come that were read before a signal.
// It is called after run has returned.
func (a *acker) interrupted() error {
	if a.err != nil && !errors.Is(a.err, context.Canceled) {
		return fmt.Errorf("interrupted: %s: %w", a.known(), a.err)
	}
	return errors.New("interrupted: " + a.known())
}

// known is how many entries have reached the level.
func (a *acker) known() string {
	return fmt.Sprintf("%d of %d entries are known to be %s", a.acked, a.taken, a.level)
}

// withAcks joins what sending met with what became of the entries. A command's
// exit code stays.
func withAcks(err, unacked error) error {
	if unacked == nil {
		return err
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil && !errors.Is(exit.err, errUnacked) {
			unacked = errors.Join(exit.err, unacked)
		}
		return &exitError{exit.code, unacked}
	}
	if err != nil && !errors.Is(err, errUnacked) {
		unacked = errors.Join(err, unacked)
	}
	return unacked
}

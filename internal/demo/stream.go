package demo

import (
	"context"
	"fmt"
	"time"
)

// outcome of one stretch of streaming.
type outcome struct {
	sent, acked int
	syncs       uint64
	latencies   []time.Duration
}

// stream lets all feeders send for d, while Synchronize is called again and
// again. Then either the daemon is killed under them, or they are told to stop
// and a last Synchronize follows.
func (s *stage) stream(ctx context.Context, d time.Duration, kill bool) (outcome, error) {
	before := make([]int, len(s.feeders))
	ended := make([]<-chan struct{}, len(s.feeders))
	for i, f := range s.feeders {
		var err error
		f.mu.Lock()
		before[i] = len(f.acks)
		f.mu.Unlock()
		if ended[i], err = f.start(s.daemon.http); err != nil {
			return outcome{}, err
		}
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for streaming := true; streaming; {
		if err := s.synchronize(ctx); err != nil {
			return outcome{}, err
		}
		select {
		case <-over.C:
			streaming = false
		case <-ctx.Done():
			return outcome{}, ctx.Err()
		default:
		}
	}
	var o outcome
	syncs, err := s.o.Syncs(ctx, s.socketPath())
	if err != nil {
		return outcome{}, fmt.Errorf("ask for the number of syncs: %w", err)
	}
	o.syncs = syncs
	if kill {
		if err := s.daemon.kill(); err != nil {
			return outcome{}, err
		}
	} else {
		for _, f := range s.feeders {
			if err := f.tell("stop"); err != nil {
				return outcome{}, err
			}
		}
	}
	for _, e := range ended {
		select {
		case <-e:
		case <-ctx.Done():
			return outcome{}, ctx.Err()
		}
	}
	if !kill {
		if err := s.synchronize(ctx); err != nil {
			return outcome{}, err
		}
	}
	for i, f := range s.feeders {
		f.mu.Lock()
		if kill {
			f.killed, f.promised = f.sent, f.synced
		}
		o.sent += f.sent
		o.acked += f.ackedLocked()
		o.latencies = append(o.latencies, f.acks[before[i]:]...)
		f.mu.Unlock()
	}
	return o, nil
}

// synchronize settles everything sent so far, and remembers how much that is.
// What counts is read before the call: a record sent while it runs is promised
// nothing.
func (s *stage) synchronize(ctx context.Context) error {
	snapshot := make([]int, len(s.feeders))
	for i, f := range s.feeders {
		f.mu.Lock()
		snapshot[i] = f.sent
		f.mu.Unlock()
	}
	if err := s.o.Synchronize(ctx, s.socketPath()); err != nil {
		return fmt.Errorf("synchronize: %w", err)
	}
	for i, f := range s.feeders {
		if f.kind == "http" {
			continue // a request under way is not received yet
		}
		f.mu.Lock()
		f.synced = snapshot[i]
		f.mu.Unlock()
	}
	return nil
}

// ackedLocked counts the records that were promised to be there.
func (c *child) ackedLocked() int {
	n := 0
	for seq := range c.sent {
		if c.isAcked(seq) {
			n++
		}
	}
	return n
}

func (c *child) isAcked(seq int) bool {
	if c.answered[seq] {
		return true
	}
	if seq < c.killed {
		return seq < c.promised // the rest was in flight, and stays so
	}
	return seq < c.synced
}

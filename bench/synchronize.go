package main

import (
	"context"
	"fmt"
	"time"
)

// floodFor bounds the flood under which Synchronize is called.
const (
	floodFor       = 8 * time.Second
	floodSenders   = 8
	syncCalls      = 5
	floodPerSender = 1 << 30
)

// benchSynchronize measures how long Synchronize takes while native datagrams
// flood in.
func benchSynchronize(ctx context.Context, s settings) error {
	fmt.Printf("\n## synchronize: up to %d calls, one after the other, in a flood of native datagrams from %d senders that lasts %s\n\n| daemon | qlen | longest ms | calls | answered before the flood's end |\n|---|---|---|---|---|\n", syncCalls, floodSenders, floodFor)
	for _, q := range s.qlens {
		if err := setQlen(q); err != nil {
			return err
		}
		for _, side := range sides {
			d, err := side.start(ctx, s)
			if err != nil {
				return err
			}
			err = synchronizeSide(d, q)
			if stopErr := d.stop(); err == nil {
				err = stopErr
			}
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	return nil
}

func synchronizeSide(d *daemon, q int) error {
	l, err := startLoad(d, "native", floodSenders, floodPerSender, 0)
	if err != nil {
		return err
	}
	if err := l.begin(); err != nil {
		return err
	}
	over := time.AfterFunc(floodFor, l.end)
	defer over.Stop()
	end := time.Now().Add(floodFor)
	time.Sleep(time.Second) // the flood is on
	var longest time.Duration
	calls, before := 0, 0
	for calls < syncCalls && time.Now().Before(end) {
		took, err := d.synchronize()
		if err != nil {
			return err
		}
		calls++
		longest = max(longest, took)
		if time.Now().Before(end) {
			before++
		}
	}
	fmt.Printf("| %s | %d | %.0f | %d | %d |\n", d.name, q, us(longest)/1000, calls, before)
	if over.Stop() {
		l.end()
	}
	return nil
}

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

// synchronized is what the calls to one side showed.
type synchronized struct {
	longest       time.Duration
	calls, before int // made; answered before the flood's end
}

// benchSynchronize measures how long Synchronize takes while native datagrams
// flood in.
func benchSynchronize(ctx context.Context, s settings) error {
	fmt.Printf("\n## synchronize: up to %d calls, one after the other, in a flood of native datagrams from %d senders that lasts %s; %d interleaved runs\n\n", syncCalls, floodSenders, floodFor, s.rounds)
	fmt.Println("| daemon | qlen | longest ms | calls | answered before the flood's end |\n|---|---|---|---|---|")
	for _, q := range s.qlens {
		if err := setQlen(q); err != nil {
			return err
		}
		var sums [len(sides)]synchronized
		for range s.rounds {
			for i, side := range sides {
				if err := synchronizeOnce(ctx, s, side, &sums[i]); err != nil {
					return fmt.Errorf("%s: %w", side.name, err)
				}
			}
		}
		for i, side := range sides {
			fmt.Printf("| %s | %d | %.0f | %d | %d |\n", side.name, q, us(sums[i].longest)/1000, sums[i].calls, sums[i].before)
		}
	}
	return nil
}

func synchronizeOnce(ctx context.Context, s settings, side side, sum *synchronized) error {
	d, err := side.start(ctx, s)
	if err != nil {
		return err
	}
	err = synchronizeSide(d, sum)
	if stopErr := d.stop(); err == nil {
		err = stopErr
	}
	return err
}

// synchronizeSide adds the calls of one flood to sum.
func synchronizeSide(d *daemon, sum *synchronized) error {
	l, err := startLoad(d, "native", floodSenders, floodPerSender, 0)
	if err != nil {
		return err
	}
	over := time.AfterFunc(floodFor, l.end)
	defer func() {
		if over.Stop() {
			l.end()
		}
	}()
	if err := l.begin(); err != nil {
		return err
	}
	end := time.Now().Add(floodFor)
	time.Sleep(time.Second) // the flood is on
	for calls := 0; calls < syncCalls && time.Now().Before(end); calls++ {
		took, err := d.synchronize()
		if err != nil {
			return err
		}
		sum.longest = max(sum.longest, took)
		sum.calls++
		if time.Now().Before(end) {
			sum.before++
		}
	}
	return nil
}

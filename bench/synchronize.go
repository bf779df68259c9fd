package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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
	calls, before int           // made; answered before the flood's end
	sync          time.Duration // no sync of a file took longer; 0: not known
}

// benchSynchronize measures how long Synchronize takes while native datagrams
// flood in.
func benchSynchronize(ctx context.Context, s settings) error {
	fmt.Printf("\n## synchronize: up to %d calls, one after the other, in a flood of native datagrams from %d senders that lasts %s; %d interleaved runs\n\n", syncCalls, floodSenders, floodFor, s.rounds)
	fmt.Println("| daemon | qlen | longest ms | calls | answered before the flood's end | longest sync of a file, less than ms |\n|---|---|---|---|---|---|")
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
			sync := "?"
			if sums[i].sync > 0 {
				sync = fmt.Sprintf("%.0f", us(sums[i].sync)/1000)
			}
			fmt.Printf("| %s | %d | %.0f | %d | %d | %s |\n", side.name, q, us(sums[i].longest)/1000, sums[i].calls, sums[i].before, sync)
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
	sync, err := d.longestSync()
	sum.sync = max(sum.sync, sync)
	return err
}

// longestSync is what the longest sync of a file has taken at most, as the status tells
// it: twice as long as it took, perhaps. journald does not tell.
func (d *daemon) longestSync() (time.Duration, error) {
	if d.name == "journald" {
		return 0, nil
	}
	answer, err := varlink(filepath.Join(d.run, "io.systemd.journal"), `{"method":"dev.tidemark.Log.Status"}`)
	if err != nil {
		return 0, err
	}
	var a struct {
		Parameters struct {
			Histograms []struct {
				Name   string
				Counts []uint64
			}
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(answer, "\x00")), &a); err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	for _, h := range a.Parameters.Histograms {
		if h.Name == "sync" {
			return time.Duration(1<<len(h.Counts)) * time.Microsecond, nil
		}
	}
	return 0, errors.New("the status has no syncs")
}

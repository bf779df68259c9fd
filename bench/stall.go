package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/selfbench"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

const (
	stallSlow  = 100 * time.Millisecond
	stallTick  = time.Millisecond
	stallBatch = 20 // entries a tick: 20,000 a second
)

// benchStall measures appends in this process, one after the other at a fixed rate,
// while syncs take longer, and while they do not.
func benchStall(ctx context.Context, s settings) error {
	fmt.Printf("\n## stall: one append after the other, %d a second, of 300 bytes; every sync %s slower, and not; %d interleaved rounds of %s, all of them count\n\n",
		stallBatch*int(time.Second/stallTick), stallSlow, s.rounds, s.each)
	policies := []settle.Policy{settle.Auto(), settle.Every(50 * time.Millisecond), settle.All()}
	runs := make([][2]selfbench.Latencies, len(policies))
	for range s.rounds {
		for i, policy := range policies {
			for slow, delay := range []time.Duration{0, stallSlow} {
				if err := stallOnce(ctx, s, policy, delay, &runs[i][slow]); err != nil {
					return err
				}
			}
		}
	}
	fmt.Println("| policy | p50 µs, with slow syncs | p99 µs, with | p99 ratio | p99.9 µs, with | longest µs, with |\n|---|---|---|---|---|---|")
	for i, policy := range policies {
		pair := func(q float64) string {
			return fmt.Sprintf("%.1f, %.1f", us(runs[i][0].Quantile(q)), us(runs[i][1].Quantile(q)))
		}
		fmt.Printf("| %s | %s | %s | %.2f | %s | %s |\n", policy, pair(0.5), pair(0.99), us(runs[i][1].Quantile(0.99))/us(runs[i][0].Quantile(0.99)), pair(0.999), pair(1))
	}
	return nil
}

// stallOnce appends for s.each, and adds how long each append took to l.
func stallOnce(ctx context.Context, s settings, policy settle.Policy, delay time.Duration, l *selfbench.Latencies) (err error) {
	path := filepath.Join(s.dir, "stall.journal")
	w, err := journal.Create(path, journal.Options{FS: &selfbench.SlowFS{FS: vfs.OS{}, Sync: delay}, Sync: policy})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(), os.Remove(path)) }()
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	body := make([]byte, 230)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	n := 0
	for end := time.Now().Add(s.each); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for range stallBatch {
			n++
			e := [1]entry.Entry{{Fields: []entry.Field{
				fmt.Appendf(nil, "MESSAGE=%d %s", n, body), entry.Field("PRIORITY=6"), entry.Field("SYSLOG_IDENTIFIER=bench"),
			}}}
			began := time.Now()
			if _, _, err := w.Append(ctx, e[:]); err != nil {
				return err
			}
			l.Add(time.Since(began))
		}
	}
	return nil
}

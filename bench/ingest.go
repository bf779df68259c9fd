package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

type side struct {
	name  string
	start func(context.Context, settings) (*daemon, error)
}

var sides = [...]side{{"tidemark", startTidemark}, {"journald", startJournald}}

// ingested is what one run of one side showed.
type ingested struct {
	cpu, senders, worst time.Duration // processor time of daemon and senders; longest send
	took                time.Duration // first send to the end of Synchronize
	stored, sent        int
}

// benchIngest floods each side through each path and compares processor time
// per message and messages stored per second.
func benchIngest(ctx context.Context, s settings) error {
	fmt.Printf("\n## ingest: %d messages a run, blocking senders, median of %d interleaved runs; of two numbers the first is tidemark's; stored: of all runs\n\n", s.messages, s.rounds)
	fmt.Println("| path | senders | qlen | tidemark µs/msg | journald µs/msg | CPU ratio | tidemark msg/s | journald msg/s | rate ratio | worst send ms | senders µs/msg | stored |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, path := range s.paths {
		for _, q := range s.qlens {
			if path == "stdout" && q != s.qlens[0] {
				continue // a stream has no datagram queue
			}
			if err := setQlen(q); err != nil {
				return err
			}
			for _, n := range s.senders {
				if err := compareIngest(ctx, s, path, n, q); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func compareIngest(ctx context.Context, s settings, path string, n, q int) error {
	var runs [len(sides)][]ingested
	for range s.rounds {
		for i, side := range sides {
			r, err := ingestOnce(ctx, s, side, path, n)
			if err != nil {
				return fmt.Errorf("%s, %s, %d senders: %w", side.name, path, n, err)
			}
			runs[i] = append(runs[i], r)
		}
	}
	cpu := func(i int) float64 {
		return median(runs[i], func(r ingested) float64 { return us(r.cpu) / float64(r.stored) })
	}
	rate := func(i int) float64 {
		return median(runs[i], func(r ingested) float64 { return float64(r.stored) / r.took.Seconds() })
	}
	worst := func(i int) float64 {
		return median(runs[i], func(r ingested) float64 { return us(r.worst) / 1000 })
	}
	send := func(i int) float64 {
		return median(runs[i], func(r ingested) float64 { return us(r.senders) / float64(r.sent) })
	}
	whole := func(i int) string {
		stored, sent := 0, 0
		for _, r := range runs[i] {
			stored, sent = stored+r.stored, sent+r.sent
		}
		return fmt.Sprintf("%d/%d", stored, sent)
	}
	fmt.Printf("| %s | %d | %d | %.1f | %.1f | %.2f | %.0f | %.0f | %.2f | %.0f / %.0f | %.1f / %.1f | %s, %s |\n", path, n, q,
		cpu(0), cpu(1), cpu(0)/cpu(1), rate(0), rate(1), rate(0)/rate(1), worst(0), worst(1), send(0), send(1), whole(0), whole(1))
	return nil
}

func ingestOnce(ctx context.Context, s settings, side side, path string, n int) (ingested, error) {
	d, err := side.start(ctx, s)
	if err != nil {
		return ingested{}, err
	}
	r, err := flood(ctx, s, d, path, n)
	if stopErr := d.stop(); err == nil {
		err = stopErr
	}
	return r, err
}

func flood(ctx context.Context, s settings, d *daemon, path string, n int) (ingested, error) {
	each := s.messages / n
	l, err := startLoad(d, path, n, each, 0)
	if err != nil {
		return ingested{}, err
	}
	before := d.cpu()
	began := time.Now()
	if err := l.begin(); err != nil {
		return ingested{}, err
	}
	r := ingested{sent: each * n}
	if r.senders, r.worst, err = l.wait(); err != nil {
		return ingested{}, err
	}
	if _, err := d.synchronize(); err != nil {
		return ingested{}, err
	}
	r.took = time.Since(began)
	r.cpu = d.cpu() - before
	r.stored, err = d.stored(ctx, mark)
	return r, err
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median[T any](runs []T, of func(T) float64) float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

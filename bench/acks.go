package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const ackClients = "64"

// ackWay is one way of having an entry stored by many clients: the ways are in
// pairs, synced and not.
type ackWay struct {
	name string
	run  func(ctx context.Context, s settings) (asked, error)
}

// benchAcks compares what an acknowledgement of synced costs over one of appended,
// and Redis streams with and without a sync.
func benchAcks(ctx context.Context, s settings) error {
	if err := need("ab"); err != nil {
		return err
	}
	ways := []ackWay{
		{"tidemark, /ingest?ack=appended", ingestAcked("appended")}, {"tidemark, /ingest?ack=synced", ingestAcked("synced")},
	}
	why := missing("redis-server", "redis-benchmark")
	if why == "" {
		ways = append(ways, ackWay{"Redis, XADD, appendfsync no", streamAdded("no")}, ackWay{"Redis, XADD, appendfsync always", streamAdded("always")})
	}
	fmt.Printf("\n## acks: %d entries a run, %s clients that wait for each; medians of %d interleaved runs, the longest of all\n\n", s.requests, ackClients, s.rounds)
	if why != "" {
		fmt.Printf("without Redis: %s\n\n", why)
	}
	runs := make([][]asked, len(ways))
	for range s.rounds {
		for i, way := range ways {
			a, err := way.run(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			runs[i] = append(runs[i], a)
		}
	}
	fmt.Println("| server | entries/s | synced to not | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|")
	for i, way := range ways {
		fmt.Printf("| %s | %.0f | %.2f | %s |\n", way.name, rateOf(runs[i]), rateOf(runs[i])/rateOf(runs[i&^1]), latencyOf(runs[i]))
	}
	return nil
}

// ingestAcked posts entries, and counts those that are stored.
func ingestAcked(level string) func(context.Context, settings) (asked, error) {
	return func(ctx context.Context, s settings) (a asked, err error) {
		body := filepath.Join(s.dir, "entry.json")
		if err := os.WriteFile(body, []byte(`{"message":"`+mark+` of some length, as requests have","level":"info","app":"bench"}`+"\n"), 0o644); err != nil {
			return a, err
		}
		d, err := startServe(ctx, s, "--http", httpAddr)
		if err != nil {
			return a, err
		}
		a, err = ab(ctx, "-k", "-c", ackClients, "-n", strconv.Itoa(s.requests), "-T", "application/x-ndjson", "-p", body, "http://"+httpAddr+"/ingest?ack="+level)
		stored := 0
		if err == nil {
			_, err = d.synchronize()
		}
		if err == nil {
			stored, err = d.stored(ctx, mark)
		}
		if err == nil && stored != a.complete {
			err = fmt.Errorf("%d entries were acknowledged, %d are stored", a.complete, stored)
		}
		return a, errors.Join(err, d.stop())
	}
}

// streamAdded adds entries to a stream of a Redis whose file is synced so.
func streamAdded(fsync string) func(context.Context, settings) (asked, error) {
	return func(ctx context.Context, s settings) (a asked, err error) {
		p, err := startRedis(ctx, s, fsync)
		if err != nil {
			return a, err
		}
		out, err := exec.CommandContext(ctx, "redis-benchmark", "-p", redisPort, "-c", ackClients, "-n", strconv.Itoa(s.requests), "--csv",
			"XADD", "stream", "*", "message", mark+" of some length, as requests have", "level", "info", "app", "bench").Output()
		if err == nil {
			a, err = parseRedis(string(out))
			a.complete = s.requests
		}
		return a, errors.Join(err, p.stop())
	}
}

// parseRedis reads what redis-benchmark --csv prints: a line of names, one of
// quoted numbers, the latencies in ms.
func parseRedis(text string) (a asked, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	cells := strings.Split(lines[len(lines)-1], ",")
	if len(lines) < 2 || len(cells) < 8 {
		return a, fmt.Errorf("not what redis-benchmark prints: %q", text)
	}
	numbers := make([]float64, 7) // rps, average, least, p50, p95, p99, longest
	for i, cell := range cells[len(cells)-7:] {
		if numbers[i], err = strconv.ParseFloat(strings.Trim(cell, "\"\r"), 64); err != nil {
			return a, fmt.Errorf("not what redis-benchmark prints: %q", text)
		}
	}
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return asked{rate: numbers[0], p50: ms(numbers[3]), p99: ms(numbers[5]), longest: ms(numbers[6])}, nil
}

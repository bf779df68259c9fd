package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	pingClients = "200"
	pingWarm    = "2000"                 // requests before those that count
	pingSlow    = 100 * time.Millisecond // what each sync takes longer
)

// pinged is a server that is asked for pings: how it is started, and where.
type pinged struct {
	name string
	url  string
	// start returns what stops it, and tells how many lines it has written, -1 if
	// it writes none.
	start func(ctx context.Context, s settings) (stop func() (lines int, err error), err error)
}

// pingedTidemark has an access log with a policy.
func pingedTidemark(policy string) pinged {
	return pinged{"tidemark " + policy, "http://" + httpAddr + "/ping", func(ctx context.Context, s settings) (func() (int, error), error) {
		log := filepath.Join(cmp.Or(s.logs, s.dir), "access.log")
		_ = os.Remove(log) // of the run before
		d, err := startServe(ctx, s, "--http", httpAddr, "--access-log", log, "--access-log-sync", policy)
		if err != nil {
			return nil, err
		}
		return func() (int, error) {
			if err := d.stop(); err != nil {
				return 0, err
			}
			text, err := os.ReadFile(log)
			return bytes.Count(text, []byte("GET /ping ")), err
		}, nil
	}}
}

// pingedWebdis syncs each line that it writes for a request, or writes none.
func pingedWebdis(name string, lines bool) pinged {
	return pinged{name, "http://127.0.0.1:" + webdisPort + "/PING", func(ctx context.Context, s settings) (func() (int, error), error) {
		redis, err := startRedis(ctx, s, "")
		if err != nil {
			return nil, err
		}
		w, err := startWebdis(ctx, s, lines)
		if err != nil {
			return nil, errors.Join(err, redis.stop())
		}
		return func() (int, error) { return -1, errors.Join(w.stop(), redis.stop()) }, nil
	}}
}

// benchPing compares servers that write a line for each request, as to when they
// sync it.
func benchPing(ctx context.Context, s settings) error {
	if err := need("ab"); err != nil {
		return err
	}
	var servers []pinged
	for _, policy := range s.policies {
		servers = append(servers, pingedTidemark(policy))
	}
	why := missing("webdis", "redis-server")
	if why == "" {
		servers = append(servers, pingedWebdis("webdis, no log", false), pingedWebdis("webdis all", true))
	}
	fmt.Printf("\n## ping: GET /ping, ab -c %s for %d s, a line in the access log each; medians of %d interleaved runs, the longest of all\n\n", pingClients, s.seconds, s.rounds)
	if why != "" {
		fmt.Printf("without webdis: %s\n\n", why)
	}
	if err := pingPlain(ctx, s, servers); err != nil {
		return err
	}
	return pingDelayed(ctx, s, servers)
}

// pingPlain prints the ratio of each policy to the first server of its kind.
func pingPlain(ctx context.Context, s settings, servers []pinged) error {
	runs := make([][]asked, len(servers))
	for range s.rounds {
		for i, server := range servers {
			a, err := pingOnce(ctx, s, server, true, true)
			if err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			runs[i] = append(runs[i], a[0])
		}
	}
	fmt.Println("| server, policy | req/s | to the first policy (webdis: to no log) | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|")
	first := 0
	for i, server := range servers {
		if server.url != servers[first].url {
			first = i
		}
		fmt.Printf("| %s | %.0f | %.2f | %s |\n", server.name, rateOf(runs[i]), rateOf(runs[i])/rateOf(runs[first]), latencyOf(runs[i]))
	}
	return nil
}

// pingDelayed prints the ratio of each policy with slow syncs to the same without, its
// log on a file system of slowfs, with connections that last and with one a request. (A
// tracer that holds the calls up, strace, also has to wake for each signal in the
// process: on two busy processors that alone cost a fifth.)
func pingDelayed(ctx context.Context, s settings, servers []pinged) error {
	var runs [2][2][][]asked // by kept, delayed, server
	for kept := range 2 {
		for delayed := range 2 {
			runs[kept][delayed] = make([][]asked, len(servers))
		}
	}
	for range s.rounds {
		for i, server := range servers {
			for delayed, d := range []time.Duration{0, pingSlow} {
				a, err := pingSlowOnce(ctx, s, server, d)
				if err != nil {
					return fmt.Errorf("%s, every sync %s slower: %w", server.name, d, err)
				}
				for j, kept := range []int{0, 1} {
					runs[kept][delayed][i] = append(runs[kept][delayed][i], a[j])
				}
			}
		}
	}
	fmt.Printf("\nevery sync %s slower (slowfs), to the same server on slowfs without delay:\n\n", pingSlow)
	fmt.Println("| server, policy | connections | req/s without | req/s | ratio | p50 ms | p99 ms | longest ms | longest, ratio |\n|---|---|---|---|---|---|---|---|---|")
	for i, server := range servers {
		for kept, name := range []string{"kept", "one a request"} {
			without, with := runs[kept][0][i], runs[kept][1][i]
			fmt.Printf("| %s | %s | %.0f | %.0f | %.4f | %s | %.2f |\n", server.name, name, rateOf(without), rateOf(with), rateOf(with)/rateOf(without),
				latencyOf(with), us(longestOf(with))/us(longestOf(without)))
		}
	}
	return nil
}

// pingSlowOnce is pingOnce with the log on a file system whose syncs take d longer.
func pingSlowOnce(ctx context.Context, s settings, server pinged, d time.Duration) ([]asked, error) {
	logs, unmount, err := mountSlow(s, "fsync delay="+d.String())
	if err != nil {
		return nil, err
	}
	s.logs = logs
	all, err := pingOnce(ctx, s, server, false, true, false)
	return all, errors.Join(err, unmount())
}

// pingOnce runs ab against one start of a server, with connections that are kept
// or not, and counts the lines that the server has written.
func pingOnce(ctx context.Context, s settings, server pinged, warmUp bool, kept ...bool) (all []asked, err error) {
	stop, err := server.start(ctx, s)
	if err != nil {
		return nil, err
	}
	sent := 0
	for _, keep := range kept {
		args := []string{"-c", pingClients}
		if keep {
			args = append(args, "-k")
		}
		// -t would end a run after 50,000 requests: -n behind it says more.
		runArgs := slices.Concat(args, []string{"-t", strconv.Itoa(s.seconds), "-n", "2000000", server.url})
		if warmUp { // with slow syncs a warm-up could take minutes
			var warm asked
			warm, err = ab(ctx, slices.Concat(args, []string{"-n", pingWarm, server.url})...)
			sent += warm.complete
		}
		var a asked
		if err == nil {
			a, err = ab(ctx, runArgs...)
		}
		if err != nil {
			break
		}
		sent += a.complete
		all = append(all, a)
	}
	lines, stopErr := stop()
	if err = errors.Join(err, stopErr); err == nil && lines >= 0 && lines < sent {
		err = fmt.Errorf("%d requests were answered, the access log has %d lines", sent, lines)
	}
	return all, err
}

func rateOf(runs []asked) float64 { return median(runs, func(a asked) float64 { return a.rate }) }

func longestOf(runs []asked) (d time.Duration) {
	for _, a := range runs {
		d = max(d, a.longest)
	}
	return d
}

// latencyOf is three cells: p50, p99, the longest.
func latencyOf(runs []asked) string {
	p50 := median(runs, func(a asked) float64 { return us(a.p50) / 1000 })
	p99 := median(runs, func(a asked) float64 { return us(a.p99) / 1000 })
	return fmt.Sprintf("%.0f | %.0f | %.0f", p50, p99, us(longestOf(runs))/1000)
}

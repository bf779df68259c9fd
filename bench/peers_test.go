package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/selfbench"
)

const abPrints = `This is ApacheBench, Version 2.3 <$Revision: 1923142 $>
Benchmarking 127.0.0.1 (be patient).....done

Document Path:          /PING
Complete requests:      500
Failed requests:        7
   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)
Keep-Alive requests:    500
Requests per second:    894.07 [#/sec] (mean)
Time per request:       22.370 [ms] (mean)

Percentage of the requests served within a certain time (ms)
  50%     10
  66%     12
  98%    109
  99%    110
 100%    138 (longest request)
`

func TestParseAB(t *testing.T) {
	want := asked{complete: 500, rate: 894.07, p50: 10 * time.Millisecond, p99: 110 * time.Millisecond, longest: 138 * time.Millisecond}
	if got, err := parseAB(abPrints); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for old, now := range map[string]string{
		"Keep-Alive requests:    500": "Non-2xx responses:      3", "Receive: 0": "Receive: 3", "Exceptions: 0": "Exceptions: 3", "(Connect: 0": "(Connect: 3",
	} {
		if _, err := parseAB(strings.Replace(abPrints, old, now, 1)); err == nil || err.Error() != "3 of 500 requests failed" {
			t.Errorf("%s: %v", now, err)
		}
	}
	none := "Time taken for tests:   2.964 seconds\nComplete requests:      0\nFailed requests:        0\n"
	if got, err := parseAB(none); err != nil || got != (asked{p50: 2964 * time.Millisecond, p99: 2964 * time.Millisecond, longest: 2964 * time.Millisecond}) {
		t.Errorf("a run in which nobody was answered: %+v, %v", got, err)
	}
	if _, err := parseAB("apr_socket_recv: Connection refused (111)\n"); err == nil {
		t.Error("a run of no requests is taken")
	}
}

func TestParseRedis(t *testing.T) {
	text := "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n" +
		"\"XADD stream * message a, b\",\"45454.55\",\"0.925\",\"0.208\",\"0.887\",\"1.5\",\"1.951\",\"2.423\"\n"
	want := asked{rate: 45454.55, p50: 887 * time.Microsecond, p99: 1951 * time.Microsecond, longest: 2423 * time.Microsecond}
	if got, err := parseRedis(text); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "Could not connect to Redis\n", strings.Replace(text, "0.887", "x", 1), text[:strings.IndexByte(text, '\n')]} {
		if a, err := parseRedis(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, a)
		}
	}
}

func TestParseCalls(t *testing.T) {
	c := parseCalls(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 46.43    0.076191         152       500           fsync
  7.26    0.011917          38         6           epoll_wait
  2.14    0.003507          44        78        15 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.164112          29       584        15 total
`)
	if c.total() != 584 || c.syncs() != 500 || c.String() != "fsync 500, futex 78, epoll_wait 6" {
		t.Errorf("%d calls, %d syncs: %s", c.total(), c.syncs(), c)
	}
	if none := parseCalls(""); none.total() != 0 || none.String() != "" {
		t.Errorf("nothing is read as %s", none)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", "")
	if why := missing("webdis", "ab"); why != "no webdis here: apt install webdis" {
		t.Error(why)
	}
	if missing() != "" || need("strace") == nil {
		t.Error("what is not there is not missed")
	}
}

func TestAskedMedians(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	runs := []asked{{1, 30, ms(3), ms(9), ms(20)}, {1, 10, ms(1), ms(8), ms(90)}, {1, 20, ms(2), ms(7), ms(30)}}
	if rateOf(runs) != 20 || longestOf(runs) != ms(90) || latencyOf(runs) != "2 | 8 | 90" {
		t.Errorf("rate %g, longest %s, %s", rateOf(runs), longestOf(runs), latencyOf(runs))
	}
}

// TestSyncsRatios finds each row in what selfbench measures, and prints no nonsense.
func TestSyncsRatios(t *testing.T) {
	var table, text strings.Builder
	rows, err := selfbench.Sync(context.Background(), selfbench.SyncOptions{
		Options: selfbench.Options{Dir: t.TempDir(), Duration: 2 * time.Millisecond, Rounds: 1, Out: &table},
		Callers: []int{1, syncsCrowd},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := printSyncs(&text, rows, rows); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "NaN") || strings.Contains(text.String(), "Inf") || strings.Count(text.String(), "\n") != 6 {
		t.Error(text.String())
	}
	text.Reset()
	fixed := func(way string, callers int, rate, toEach, ofNone float64, p50 time.Duration) selfbench.SyncRow {
		return selfbench.SyncRow{Way: way, Callers: callers, Rate: rate, ToEach: toEach, OfNone: ofNone, P50: p50}
	}
	rows = []selfbench.SyncRow{
		fixed("file: write", 200, 8000, 80, 1, 0), fixed("file: lock, write, sync each", 200, 100, 1, 0.0125, 0), fixed("file: one sync for all who wait", 200, 4000, 40, 0.5, 15e6),
		fixed("journal: one sync for all who wait", 200, 2000, 30, 0.25, 12e6),
		fixed("file: lock, write, sync each", 1, 200, 1, 0, 10e6), fixed("file: one sync for all who wait", 1, 190, 0.95, 0, 0), fixed("journal: one sync for all who wait", 1, 180, 0.98, 0, 0),
	}
	if err := printSyncs(&text, rows, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| file | 40.0 | 0.500 | 0.95 | 1.50 |\n", "| journal | 30.0 | 0.250 | 0.98 | 1.20 |\n", "| journal, to the plain file's | 20.0 | 0.250 | 0.90 | |\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in\n%s", want, text.String())
		}
	}
}

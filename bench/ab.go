package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// asked is what ab tells about a run.
type asked struct {
	complete int
	rate     float64 // requests a second
	p50, p99 time.Duration
	longest  time.Duration
}

// ab runs ab and wants every answer to be a good one.
func ab(ctx context.Context, args ...string) (asked, error) {
	cmd := exec.CommandContext(ctx, "ab", append([]string{"-q", "-r"}, args...)...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return asked{}, fmt.Errorf("%s: %w: %s", cmd, err, text)
	}
	a, err := parseAB(string(text))
	if err != nil {
		return a, fmt.Errorf("%s: %w:\n%s", cmd, err, text)
	}
	return a, nil
}

// parseAB reads what ab prints. Of a run without an answer the latencies are its
// length. Lengths that differ are no failures: a number in
// an answer may have another digit.
func parseAB(text string) (a asked, err error) {
	number := func(line string) float64 {
		v, e := strconv.ParseFloat(strings.Fields(line)[0], 64)
		err = errors.Join(err, e)
		return v
	}
	failed, told := 0, false
	var took time.Duration
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		ms := func(rest string) time.Duration { return time.Duration(number(rest) * float64(time.Millisecond)) }
		if rest, ok := strings.CutPrefix(line, "Complete requests:"); ok {
			a.complete, told = int(number(rest)), true
		} else if rest, ok := strings.CutPrefix(line, "Time taken for tests:"); ok {
			took = time.Duration(number(rest) * float64(time.Second))
		} else if rest, ok := strings.CutPrefix(line, "Requests per second:"); ok {
			a.rate = number(rest)
		} else if rest, ok := strings.CutPrefix(line, "Non-2xx responses:"); ok {
			failed += int(number(rest))
		} else if rest, ok := strings.CutPrefix(line, "(Connect:"); ok {
			failed += failures(rest)
		} else if rest, ok := strings.CutPrefix(line, "50%"); ok {
			a.p50 = ms(rest)
		} else if rest, ok := strings.CutPrefix(line, "99%"); ok {
			a.p99 = ms(rest)
		} else if rest, ok := strings.CutPrefix(line, "100%"); ok {
			a.longest = ms(rest)
		}
	}
	switch {
	case err != nil:
		return a, err
	case !told || a.complete > 0 && a.rate == 0:
		return a, errors.New("it tells of no request")
	case a.complete == 0: // nobody was answered in that time: it is less than the truth
		a.p50, a.p99, a.longest = took, took, took
	case failed > 0:
		return a, fmt.Errorf("%d of %d requests failed", failed, a.complete)
	}
	return a, nil
}

// failures adds the numbers of "0, Receive: 0, Length: 5, Exceptions: 0)", but for
// the lengths.
func failures(text string) (n int) {
	name := "Connect"
	for word := range strings.FieldsSeq(strings.TrimSuffix(text, ")")) {
		if k, err := strconv.Atoi(strings.TrimSuffix(word, ",")); err != nil {
			name = strings.TrimSuffix(word, ":")
		} else if name != "Length" {
			n += k
		}
	}
	return n
}

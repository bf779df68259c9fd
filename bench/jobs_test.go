package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-log/tidemark/internal/selfbench"
	"github.com/tidemark-log/tidemark/settle"
)

// TestPingLines has an ab that answers what it is told to, and a server whose log
// has all lines, or lacks one.
func TestPingLines(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >>" + bin + "/asked\ncat <<'END'\n" + abPrints + "END\n"
	if err := os.WriteFile(filepath.Join(bin, "ab"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	server := func(lines int) pinged {
		return pinged{"fake", "http://fake/ping", func(_ context.Context, _ settings) (func() (int, error), error) {
			return func() (int, error) { return lines, nil }, nil
		}}
	}
	s := settings{seconds: 7}
	all, err := pingOnce(context.Background(), s, server(1000), true, true)
	if err != nil || len(all) != 1 || all[0].complete != 500 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err = pingOnce(context.Background(), s, server(-1), false, true, false); err != nil {
		t.Errorf("a server without lines: %v", err)
	}
	_, err = pingOnce(context.Background(), s, server(999), true, false)
	if err == nil || err.Error() != "1000 requests were answered, the access log has 999 lines" {
		t.Errorf("a line is missing: %v", err)
	}
	asked, err := os.ReadFile(filepath.Join(bin, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	const warm, run = "-q -r -c 200 -n 2000 http://fake/ping\n", "-q -r -c 200 -t 7 -n 2000000 http://fake/ping\n"
	kept := func(line string) string { return strings.Replace(line, "200", "200 -k", 1) }
	if want := kept(warm) + kept(run) + kept(run) + run + warm + run; string(asked) != want {
		t.Errorf("ab was called with\n%swant\n%s", asked, want)
	}
}

// TestStall appends at least a tick's entries, however slow syncs are, and leaves
// nothing.
func TestStall(t *testing.T) {
	s := settings{dir: t.TempDir(), each: 5 * time.Millisecond}
	var l selfbench.Latencies
	for _, delay := range []time.Duration{0, 10 * time.Millisecond} {
		before := l.N()
		if err := stallOnce(context.Background(), s, settle.All(), delay, &l); err != nil {
			t.Fatal(err)
		}
		if n := l.N() - before; n < stallBatch || n%stallBatch != 0 {
			t.Errorf("%d entries, want batches of %d", n, stallBatch)
		}
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := stallOnce(ctx, settings{dir: s.dir, each: time.Hour}, settle.Auto(), 0, &l); err == nil {
		t.Error("goes on though it was told to end")
	}
}

// TestNumberedLines finds each line that a sender writes, and what is missing, torn or
// there twice.
func TestNumberedLines(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lines ...int) {
		var b []byte
		for _, i := range lines {
			b = appendNumbered(b, i)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("log", 2, 1234567)
	write("log.1", 0, 1)
	if b := appendNumbered(nil, 1234567); len(b) != pipeLine || !strings.HasPrefix(string(b), "0001234567 ") {
		t.Errorf("line 1234567 is %q", b)
	}
	if err := checkNumbered(dir, 3); err == nil || !strings.Contains(err.Error(), "torn, or there twice") {
		t.Errorf("a line too many: %v", err)
	}
	write("log", 2)
	if err := checkNumbered(dir, 3); err != nil {
		t.Error(err)
	}
	write("log", 2, 1)
	if err := checkNumbered(dir, 3); err == nil {
		t.Error("a line that is there twice is not seen")
	}
	write("log")
	if err := checkNumbered(dir, 3); err == nil || err.Error() != "2 of 3 lines are there" {
		t.Errorf("a line is missing: %v", err)
	}
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// calls are system calls by name.
type calls map[string]int

func (c calls) total() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// String names the calls, the most frequent first.
func (c calls) String() string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, c[name])
	}
	return strings.Join(names, ", ")
}

func (c calls) syncs() int {
	return c["fsync"] + c["fdatasync"] + c["sync_file_range"] + c["msync"] + c["syncfs"]
}

// countCalls counts the system calls of a process and its threads for d.
func countCalls(ctx context.Context, s settings, pid int, d time.Duration) (calls, error) {
	out := filepath.Join(s.dir, "strace.out")
	cmd := exec.CommandContext(ctx, "strace", "-f", "-c", "-o", out, "-p", strconv.Itoa(pid))
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil || !strings.Contains(said, "attached") {
		return nil, errors.Join(fmt.Errorf("strace: %q: %w", said, err), cmd.Wait())
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGINT) // ours; it prints what it has counted
	_ = cmd.Wait()                         // ended by the signal
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return parseCalls(string(text)), ctx.Err()
}

// parseCalls reads the summary of strace -c. A process that makes no calls has none.
func parseCalls(text string) calls {
	c := calls{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 || f[len(f)-1] == "total" {
			continue
		}
		if _, err := strconv.ParseFloat(f[0], 64); err != nil {
			continue // heading, rule
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			c[f[len(f)-1]] += n
		}
	}
	return c
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tidemark-log/tidemark/journal"
)

// found is what the journal files hold of the demo's records.
type found struct {
	times []map[int]int // by feeder: how often each sequence number is there, whole
	torn  int           // records whose checksum does not fit
}

// readBack reads all journal files below data.
func readBack(data string, feeders int) (found, error) {
	f := found{times: make([]map[int]int, feeders)}
	for i := range f.times {
		f.times[i] = map[int]int{}
	}
	dirs, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		return f, fmt.Errorf("list %s: %w", data, err)
	}
	j, err := journal.OpenDir(append(dirs, data)...)
	if err != nil {
		return f, fmt.Errorf("read back: %w", err)
	}
	defer func() { _ = j.Close() }() // only read
	for e, err := range j.All() {
		if err != nil {
			return f, fmt.Errorf("read back: %w", err)
		}
		msg, _ := e.Get("MESSAGE")
		r, ours, whole := decodeRecord(string(msg))
		switch {
		case !ours:
		case !whole || r.feeder < 0 || r.feeder >= feeders:
			f.torn++
		default:
			f.times[r.feeder][r.seq]++
		}
	}
	return f, nil
}

// proof compares what was promised with what is there.
type proof struct {
	sent, acked, byAnswer    int
	inFlight, inFlightStored int
	stored, lost, torn       int
}

func compare(feeders []*child, got found) proof {
	p := proof{torn: got.torn}
	for i, c := range feeders {
		c.mu.Lock()
		p.sent += c.sent
		p.byAnswer += len(c.answered)
		for seq := range c.sent {
			n := got.times[i][seq]
			acked := c.isAcked(seq)
			if n > 1 {
				p.torn++
			}
			if n > 0 {
				p.stored++
			}
			switch {
			case acked:
				p.acked++
				if n == 0 {
					p.lost++
				}
			default:
				p.inFlight++
				if n > 0 {
					p.inFlightStored++
				}
			}
		}
		c.mu.Unlock()
	}
	return p
}

// verifyAll has every file checked: by the system's journalctl when there is
// one, else by ours. It returns a line per file.
func verifyAll(ctx context.Context, data string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"*.journal", "*/*.journal", "*/*.journal~"} {
		got, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", data, err)
		}
		files = append(files, got...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no journal file in %s", data)
	}
	who, tool := "journalctl --verify", ""
	if tool, _ = exec.LookPath("journalctl"); tool == "" {
		who = "tidemark verify (no journalctl here)"
	}
	var lines []string
	var errs []error
	for _, f := range files {
		err := VerifyFile(ctx, tool, f)
		verdict := "PASS"
		if err != nil {
			verdict = "FAIL"
			errs = append(errs, fmt.Errorf("%s: %s: %w", who, f, err))
		}
		what := ""
		if strings.HasPrefix(filepath.Base(f), "upcoming@") {
			what = " (the next file, empty)"
		}
		lines = append(lines, fmt.Sprintf("%s  %s: %s%s", verdict, who, f, what))
	}
	return lines, errors.Join(errs...)
}

// VerifyFile has a journal file checked by journalctl, the program tool, or by
// tidemark when that is empty. It may be called concurrently.
func VerifyFile(ctx context.Context, tool, file string) error {
	if tool == "" {
		return verifyOurs(ctx, file)
	}
	out, err := exec.CommandContext(ctx, tool, "--verify", "--file", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// verifyOurs checks one file as `tidemark verify` does.
func verifyOurs(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	report, err := journal.Verify(ctx, f, fi.Size(), path, journal.VerifyOptions{})
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		if !p.Harmless {
			return fmt.Errorf("%d problems, the first at %x: %s", report.Failed, p.Offset, p.Text)
		}
	}
	return nil
}

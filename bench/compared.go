package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// sidesOf is one row of a comparison: two command lines that do the same.
type sidesOf struct {
	name         string
	ours, theirs []string
	bound        float64      // how many times as fast ours is meant to be at least
	rounds       int          // 0: those of the settings
	before       func() error // each run; nil: nothing
}

// took is what a run of a command took.
type took struct{ wall, cpu time.Duration }

func wallOf(t took) float64 { return 1000 * t.wall.Seconds() }
func cpuOf(t took) float64  { return 1000 * t.cpu.Seconds() }

// quickRounds is how many rounds a command of some milliseconds takes for each
// round of the others.
const quickRounds = 15

// compare runs the rows and prints them: ours with all processors, ours with
// GOMAXPROCS=1 and theirs take turns.
func compare(ctx context.Context, s settings, rows []sidesOf) error {
	fmt.Println("| job | ms: tidemark, on one processor, the other | times as fast | on one | times less CPU | wanted |\n|---|---|---|---|---|---|")
	for _, row := range rows {
		var runs [3][]took
		for range max(row.rounds, s.rounds) {
			for i, c := range [...]struct {
				args []string
				env  string
			}{{row.ours, ""}, {row.ours, "GOMAXPROCS=1"}, {row.theirs, ""}} {
				if row.before != nil {
					if err := row.before(); err != nil {
						return fmt.Errorf("%s: %w", row.name, err)
					}
				}
				t, err := timed(ctx, c.args, c.env)
				if err != nil {
					return fmt.Errorf("%s: %w", row.name, err)
				}
				runs[i] = append(runs[i], t)
			}
		}
		two, one, peer := median(runs[0], wallOf), median(runs[1], wallOf), median(runs[2], wallOf)
		fmt.Printf("| %s | %.1f, %.1f, %.1f | %.2f | %.2f | %.2f | %g |\n", row.name, two, one, peer, peer/two, peer/one,
			median(runs[2], cpuOf)/median(runs[1], cpuOf), row.bound)
	}
	return nil
}

// timed runs a command whose output nobody reads.
func timed(ctx context.Context, args []string, env string) (took, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8", env)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return took{}, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return took{time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

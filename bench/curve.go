package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// benchCurve imports and reads ever more entries: the cost of one must not grow.
func benchCurve(ctx context.Context, s settings) error {
	fmt.Print("\n## curve: µs an entry of the whole process, one run each\n\n| entries | import: wall, CPU | peak MiB | files, MiB | library, every field | -o export | -n 10, ms |\n|---|---|---|---|---|---|---|\n")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, n := range s.curve {
		if err := curvePoint(ctx, s, self, n); err != nil {
			return fmt.Errorf("%d entries: %w", n, err)
		}
	}
	return nil
}

func curvePoint(ctx context.Context, s settings, self string, n int) (err error) {
	dir, err := os.MkdirTemp(s.dir, "curve-")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil {
			err = removeErr
		}
	}()
	in, out := filepath.Join(dir, "in.export"), filepath.Join(dir, "out.journal")
	if err := generate(in, n); err != nil {
		return err
	}
	r, files, err := importTo(exec.CommandContext(ctx, s.tidemark, "import", "-o", out, in), dir)
	if err != nil {
		return err
	}
	if err := os.Remove(in); err != nil {
		return err
	}
	all, err := timed(ctx, append([]string{self, "scan"}, files...), "")
	if err != nil {
		return err
	}
	export, err := timed(ctx, []string{s.tidemark, "query", "-D", dir, "-o", "export"}, "")
	if err != nil {
		return err
	}
	tail, err := timed(ctx, []string{s.tidemark, "query", "-D", dir, "-n", "10"}, "")
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return us(d) / float64(n) }
	fmt.Printf("| %d | %.2f, %.2f | %.0f | %d, %.0f | %.2f | %.2f | %.1f |\n", n, each(r.wall), each(r.cpu), float64(r.peak)/1024,
		len(files), float64(r.size)/(1<<20), each(all.wall), each(export.wall), wallOf(tail))
	return nil
}

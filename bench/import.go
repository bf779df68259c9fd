package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tidemark-log/tidemark/bench/genexport"
)

// imported is what one import showed.
type imported struct {
	wall, cpu time.Duration
	peak      int64 // KiB
	size      int64 // bytes of journal files
}

// benchImport compares `tidemark import` with systemd-journal-remote.
func benchImport(ctx context.Context, s settings) error {
	in := filepath.Join(s.dir, "in.export")
	if err := generate(in, s.entries); err != nil {
		return err
	}
	ways := [...]struct {
		name string
		cmd  func(out string) *exec.Cmd
	}{
		{"tidemark import", func(out string) *exec.Cmd {
			return exec.CommandContext(ctx, s.tidemark, "import", "-o", out, in)
		}},
		{"systemd-journal-remote", func(out string) *exec.Cmd {
			return exec.CommandContext(ctx, remotePath, "-o", out, in)
		}},
	}
	var runs [len(ways)][]imported
	for range s.rounds {
		for i, w := range ways {
			r, err := importOnce(s, w.cmd)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			runs[i] = append(runs[i], r)
		}
	}
	fmt.Printf("\n## import: %d entries, median of %d interleaved runs\n\n| program | entries/s | wall s | CPU s | peak MiB | MiB written |\n|---|---|---|---|---|---|\n", s.entries, s.rounds)
	wall := func(r imported) float64 { return r.wall.Seconds() }
	for i, w := range ways {
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.0f | %.0f |\n", w.name, float64(s.entries)/median(runs[i], wall), median(runs[i], wall),
			median(runs[i], func(r imported) float64 { return r.cpu.Seconds() }),
			median(runs[i], func(r imported) float64 { return float64(r.peak) / 1024 }),
			median(runs[i], func(r imported) float64 { return float64(r.size) / (1 << 20) }))
	}
	fmt.Printf("\ntidemark is %.2f times as fast\n", median(runs[1], wall)/median(runs[0], wall))
	return os.Remove(in)
}

// generated is a stream of varied entries.
func generated() *entries.Gen { return generatedOf(1 << 20) }

// generatedOf is one whose boots change at each fifth of n.
func generatedOf(n int) *entries.Gen {
	const boots, seed, gap = 5, 1, 500000
	return entries.New(seed, (n+boots-1)/boots, gap)
}

// generate writes n of them to a file.
func generate(path string, n int) error { return generateFrom(generatedOf(n), path, n) }

// generateFrom writes the next n of g to a file.
func generateFrom(g *entries.Gen, path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := entries.WriteExport(w, g, n); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func importOnce(s settings, command func(out string) *exec.Cmd) (imported, error) {
	dir, err := os.MkdirTemp(s.dir, "import-")
	if err != nil {
		return imported{}, err
	}
	r, _, err := importTo(command(filepath.Join(dir, "out.journal")), dir)
	if err != nil {
		return imported{}, err
	}
	return r, os.RemoveAll(dir)
}

// importTo runs cmd, which writes the journal files of dir.
func importTo(cmd *exec.Cmd, dir string) (r imported, files []string, err error) {
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return imported{}, nil, fmt.Errorf("%w: %s", err, out)
	}
	r = imported{wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peak: maxRSS(cmd.ProcessState)}
	if files, err = filepath.Glob(filepath.Join(dir, "*.journal")); err != nil {
		return imported{}, nil, err
	}
	for _, f := range files {
		fi, err := os.Stat(f)
		if err != nil {
			return imported{}, nil, err
		}
		r.size += fi.Size()
	}
	return r, files, nil
}

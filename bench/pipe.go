package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// pipeLine is the length of a line in bytes, its newline included; it begins with its
// number, of pipeDigits digits.
const (
	pipeLine   = 100
	pipeDigits = 10
)

// lineWriter is the life of a process that writes numbered lines to its standard
// output, a write(2) each, or as many at once as fit into a block.
func lineWriter(args []string) error {
	flags := flag.NewFlagSet("lines", flag.ContinueOnError)
	n := flags.Int("n", 1000, "lines")
	block := flags.Int("block", 0, "bytes of a write; 0: one line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	out := make([]byte, 0, *block+pipeLine)
	for i := range *n {
		out = appendNumbered(out, i)
		if len(out)+pipeLine <= *block && i < *n-1 {
			continue
		}
		if _, err := os.Stdout.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
	return nil
}

// appendNumbered appends line i.
func appendNumbered(b []byte, i int) []byte {
	const rest = " GET /api/v1/orders 200 in 12 ms from 10.0.3.17 with words to make it as long as it is...\n"
	b = append(b, "0000000000"...)
	for at := len(b) - 1; i > 0; at-- {
		b[at] += byte(i % 10)
		i /= 10
	}
	return append(b, rest...)
}

// pipeLogger is a program that lines are piped to, and what it is called with.
type pipeLogger struct {
	name string
	argv func(s settings, dir string) []string
}

// pipeLoggers write to files of 10 MB (tidemark, rotatelogs: 10 MiB); the first is what
// the others are compared with.
var pipeLoggers = [...]pipeLogger{
	{"cat >FILE", func(_ settings, dir string) []string {
		return []string{"sh", "-c", "exec cat >" + filepath.Join(dir, "log")}
	}},
	{"cat >FILE, then fdatasync", func(_ settings, dir string) []string {
		return []string{"sh", "-c", "cat >" + filepath.Join(dir, "log") + " && exec sync -d " + filepath.Join(dir, "log")}
	}},
	{"rotatelogs", func(_ settings, dir string) []string {
		return []string{"rotatelogs", "-n", "1000", filepath.Join(dir, "log"), "10M"}
	}},
	{"s6-log", func(_ settings, dir string) []string {
		return []string{"s6-log", "-b", "n1000", "s10000000", filepath.Join(dir, "d")}
	}},
	{"multilog", func(_ settings, dir string) []string {
		return []string{"multilog", "n1000", "s10000000", filepath.Join(dir, "d")}
	}},
	{"append, sync 1s", func(s settings, dir string) []string {
		return []string{s.tidemark, "append", "--sync", "1s", "--rotate-size", "10M", filepath.Join(dir, "log")}
	}},
	{"append, sync auto, no rotation", func(s settings, dir string) []string {
		return []string{s.tidemark, "append", filepath.Join(dir, "log")}
	}},
}

// piped is what a run showed, in lines a second: until the sender had written its last
// line, and until the logger had ended.
type piped struct{ taken, ended float64 }

// benchPipe pipes lines to loggers.
func benchPipe(ctx context.Context, s settings) error {
	if err := need("rotatelogs", "s6-log", "multilog"); err != nil {
		return err
	}
	fmt.Printf("\n## pipe: %d lines of %d bytes through a pipe to files, rotated at 10 MB; medians of %d interleaved runs, every line looked for\n", s.pipeLines, pipeLine, s.rounds)
	for _, block := range []int{0, 4096} {
		runs := make([][]piped, len(pipeLoggers))
		for range s.rounds {
			for i, l := range pipeLoggers {
				p, err := pipeOnce(ctx, s, l, block)
				if err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				runs[i] = append(runs[i], p)
			}
		}
		how := "one line a write(2)"
		if block > 0 {
			how = fmt.Sprintf("blocks of %d bytes, as stdio writes", block)
		}
		fmt.Printf("\n| %s | M lines/s until the logger has ended | to cat | until the sender has written all | to cat |\n|---|---|---|---|---|\n", how)
		taken, ended := func(p piped) float64 { return p.taken }, func(p piped) float64 { return p.ended }
		for i, l := range pipeLoggers {
			a, b := median(runs[i], ended), median(runs[i], taken)
			fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", l.name, a/1e6, a/median(runs[0], ended), b/1e6, b/median(runs[0], taken))
		}
	}
	return nil
}

// pipeOnce runs one logger, and looks for its lines.
func pipeOnce(ctx context.Context, s settings, l pipeLogger, block int) (p piped, err error) {
	dir, err := os.MkdirTemp(s.dir, "pipe-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return p, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return p, err
	}
	argv := l.argv(s, dir)
	logger := exec.CommandContext(ctx, argv[0], argv[1:]...)
	logger.Stdin, logger.Stderr = in, os.Stderr
	sender := exec.CommandContext(ctx, self, "lines", "-n", strconv.Itoa(s.pipeLines), "-block", strconv.Itoa(block))
	sender.Stdout, sender.Stderr = out, os.Stderr
	began := time.Now()
	err = logger.Start()
	if err == nil {
		if err = sender.Start(); err != nil {
			_ = logger.Process.Kill() // ours
		}
	}
	err = errors.Join(err, in.Close(), out.Close())
	if err != nil {
		return p, err
	}
	n := float64(s.pipeLines)
	err = sender.Wait()
	p.taken = n / time.Since(began).Seconds()
	err = errors.Join(err, logger.Wait())
	p.ended = n / time.Since(began).Seconds()
	return p, errors.Join(err, checkNumbered(dir, s.pipeLines))
}

// checkNumbered looks for lines 0 to n-1 in the files below dir: each whole, and once.
func checkNumbered(dir string, n int) error {
	seen := make([]bool, n)
	found := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "lock" || e.Name() == "state" || filepath.Ext(e.Name()) == ".lock" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewReaderSize(f, 1<<20)
		var line, want [pipeLine]byte
		for {
			if _, err := io.ReadFull(lines, line[:]); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			i, err := strconv.Atoi(string(line[:pipeDigits]))
			if err != nil || i >= n || seen[i] || !bytes.Equal(line[:], appendNumbered(want[:0], i)) {
				return fmt.Errorf("%s: %q is torn, or there twice", path, line[:])
			}
			seen[i] = true
			found++
		}
	})
	if err == nil && found != n {
		err = fmt.Errorf("%d of %d lines are there", found, n)
	}
	return err
}

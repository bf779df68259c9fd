// bench compares tidemark with systemd's own tools, side by side in one run on
// one machine, and prints ratios. It is a module of its own so that what it
// needs burdens nobody else.
//
//	go build -o bin/tidemark ../cmd/tidemark && go run . -tidemark bin/tidemark [import] [ingest] [follow] [synchronize]
//
// It needs root (private namespaces) and, for the other side, systemd's
// journald, journalctl and systemd-journal-remote.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// settings are the flags of a run.
type settings struct {
	tidemark string
	dir      string
	entries  int
	messages int
	rounds   int
	senders  []int
	qlens    []int
	paths    []string
	nice     string
	fileSize string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sender" {
		exitOn(sender(os.Args[2:]))
		return
	}
	var s settings
	var senders, qlens, paths string
	flag.StringVar(&s.tidemark, "tidemark", "tidemark", "the `program` to measure")
	flag.StringVar(&s.dir, "dir", "", "work in this `directory` (default: a new one in the temporary directory)")
	flag.IntVar(&s.entries, "n", 500000, "import: entries")
	flag.IntVar(&s.messages, "messages", 200000, "ingest: messages a run")
	flag.IntVar(&s.rounds, "rounds", 3, "interleaved runs of each side; the median counts")
	flag.StringVar(&senders, "senders", "1,8,64", "ingest: numbers of sending processes")
	flag.StringVar(&qlens, "qlen", "512,10", "ingest: values of net.unix.max_dgram_qlen")
	flag.StringVar(&paths, "paths", "native,syslog,stdout", "ingest: ways in")
	flag.StringVar(&s.fileSize, "filesize", "", "SystemMaxFileSize= for both sides, such as 1G (default: what both take by themselves)")
	flag.StringVar(&s.nice, "nice", "", "tidemark's scheduling priority (default: its own choice; journald has 0)")
	flag.Parse()
	s.senders, s.qlens, s.paths = ints(senders), ints(qlens), strings.Split(paths, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(run(ctx, s, flag.Args()))
}

func run(ctx context.Context, s settings, jobs []string) error {
	if len(jobs) == 0 {
		jobs = []string{"import", "ingest", "follow", "synchronize"}
	}
	if os.Getenv("BENCH_NAMESPACE") == "" {
		return enterNamespace(ctx)
	}
	var err error
	if s.tidemark, err = exec.LookPath(s.tidemark); err != nil {
		return err
	}
	if s.tidemark, err = filepath.Abs(s.tidemark); err != nil {
		return err
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "tidemark-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(s.dir) }() // leftovers only cost disk
	}
	if err := privateRun(); err != nil {
		return err
	}
	for _, job := range jobs {
		f, ok := map[string]func(context.Context, settings) error{
			"import": benchImport, "ingest": benchIngest, "follow": benchFollow, "synchronize": benchSynchronize,
		}[job]
		if !ok {
			return fmt.Errorf("no such measurement: %s", job)
		}
		if err := f(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", job, err)
		}
	}
	return nil
}

// enterNamespace runs this program again in mount and network namespaces of its
// own, where journald's paths and net.unix.max_dgram_qlen can be ours.
func enterNamespace(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "BENCH_NAMESPACE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}

// privateRun gives this namespace a /run and a /proc/sys/net of its own.
func privateRun() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a private /run: %w", err)
	}
	return nil
}

func setQlen(n int) error {
	return os.WriteFile("/proc/sys/net/unix/max_dgram_qlen", []byte(strconv.Itoa(n)), 0o644)
}

func ints(s string) []int {
	var out []int
	for _, w := range strings.Split(s, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			exitOn(fmt.Errorf("%q is not a list of numbers", s))
		}
		out = append(out, n)
	}
	return out
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

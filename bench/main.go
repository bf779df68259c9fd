// bench compares tidemark with systemd's own tools, webdis and Redis, side by side
// in one run on one machine, and prints ratios. It is a module of its own so that
// what it needs burdens nobody else.
//
//	go build -o bin/tidemark ../cmd/tidemark && go run . -tidemark bin/tidemark [JOB...]
//
// It needs root (private namespaces) and, for the other side, systemd's
// journald, journalctl and systemd-journal-remote. What the last jobs need beside
// (ab, strace, redis-server, webdis) they name if it is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags of a run.
type settings struct {
	tidemark string
	dir      string
	entries  int
	messages int
	rounds   int
	bursts   int
	senders  []int
	qlens    []int
	paths    []string
	nice     string
	fileSize string
	seconds  int
	requests int
	each     time.Duration
	callNice int
	policies []string

	pipeLines int
	slowfs    string
	logs      string // where logs of ping go, if not to dir
	read      int
	curve     []int
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sender":
			exitOn(sender(os.Args[2:]))
			return
		case "scan":
			exitOn(scan(os.Args[2:]))
			return
		case "installer":
			exitOn(installer(os.Args[2:]))
			return
		case "lines":
			exitOn(lineWriter(os.Args[2:]))
			return
		case "crowd-sender":
			exitOn(crowdSender(os.Args[2:]))
			return
		}
	}
	var s settings
	var senders, qlens, paths, policies, sizes string
	flag.StringVar(&s.tidemark, "tidemark", "tidemark", "the `program` to measure")
	flag.StringVar(&s.dir, "dir", "", "work in this `directory` (default: a new one in the temporary directory)")
	flag.IntVar(&s.entries, "n", 500000, "import: entries")
	flag.IntVar(&s.messages, "messages", 200000, "ingest: messages a run")
	flag.IntVar(&s.rounds, "rounds", 3, "all but follow and idle: interleaved runs of each side; of import, ingest, syncs, ping and acks the median counts, of tails the sum, of synchronize the longest, of stall and commands all")
	flag.IntVar(&s.bursts, "bursts", 20, fmt.Sprintf("tails: bursts a run, of %d entries from each of %d processes", tailBurst, len(tailUsers[0].uids)))
	flag.StringVar(&senders, "senders", "1,8,64", "ingest: numbers of sending processes")
	flag.StringVar(&qlens, "qlen", "512,10", "ingest, synchronize: values of net.unix.max_dgram_qlen (follow, tails: 512)")
	flag.StringVar(&paths, "paths", "native,syslog,stdout", "ingest: ways in")
	flag.IntVar(&s.seconds, "seconds", 5, "ping: length of a run")
	flag.StringVar(&policies, "policies", "auto,50ms,all", "ping: sync policies of tidemark's access log")
	flag.IntVar(&s.requests, "requests", 50000, "acks: entries a run")
	flag.DurationVar(&s.each, "each", 500*time.Millisecond, "syncs, stall: length of a round; append: a quarter of one")
	flag.IntVar(&s.callNice, "callnice", 0, "commands: the caller's scheduling priority; -19 takes its own wait for a processor out of the measurement")
	flag.IntVar(&s.read, "read", 110000, "read: entries")
	flag.StringVar(&sizes, "sizes", "100000,1000000,10000000", "curve: numbers of entries; ten million take some minutes, and 20 GB in the directory")
	flag.StringVar(&s.fileSize, "filesize", "", "all but import: SystemMaxFileSize= for both sides, such as 1G (default: what both take by themselves)")
	flag.StringVar(&s.slowfs, "slowfs", "slowfs", "ping, manifest: internal/slowfs's `program`")
	flag.IntVar(&s.pipeLines, "pipelines", 2000000, "pipe: lines a run")
	flag.StringVar(&s.nice, "nice", "", "all but import: tidemark's scheduling priority (default: its own choice, -19 as root; journald has 0)")
	flag.Usage = usage
	flag.Parse()
	if s.entries < 1 || s.messages < 1 || s.rounds < 1 || s.bursts < 1 || s.seconds < 1 || s.requests < 64 || s.each <= 0 || s.read < 1 {
		exitOn(errors.New("-n, -messages, -rounds, -bursts, -seconds and -read are at least 1, -requests 64, -each is more than 0"))
	}
	s.senders, s.qlens, s.paths = ints(senders), ints(qlens), strings.Split(paths, ",")
	s.policies, s.curve = strings.Split(policies, ","), ints(sizes)
	if s.messages < slices.Max(s.senders) {
		exitOn(errors.New("-messages is at least one for each of -senders"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(run(ctx, s, flag.Args()))
}

// job is something that can be measured.
type job struct {
	name, doc string
	run       func(context.Context, settings) error
}

// jobs are in the order of a run of all.
var jobs = [...]job{
	{"import", "varied entries from one export file: tidemark import and systemd-journal-remote;\ntime, CPU and memory of the whole process; both sync the file in the end", benchImport},
	{"read", "whole processes over one file of systemd-journal-remote's: query and verify beside journalctl, a scan of\nevery field beside one through libsystemd; with all processors and with GOMAXPROCS=1", benchRead},
	{"dir", "queries of 300 files in one directory, beside journalctl", benchDir},
	{"append", "appends in this process, on one processor, without waiting", benchAppend},
	{"curve", "import and reading of ever more entries (-sizes): what one costs", benchCurve},
	{"ingest", "messages of 300 bytes in native datagrams (syslog and stdout: shorter lines) as fast as blocking senders can;\ntime and the daemon's CPU from the first send until Synchronize has answered, stored as journalctl counts", benchIngest},
	{"follow", "a lone line, from send(2) until the follower has written it; one run of each side", benchFollow},
	{"tails", "what followers show of a flood in bursts, plain, with a match and with an OR match:\nentries passed over, doubled and out of order, and how late the last of a burst is shown", benchTails},
	{"synchronize", "Synchronize while native datagrams flood in; the longest of all calls counts", benchSynchronize},
	{"syncs", "appends that wait until they are synced, of 200 callers and of one: a sync each, one for all who wait, none;\nand again with syncs of 10 ms; in this process", benchSyncs},
	{"stall", "appends in this process while every sync takes 100 ms, and while it does not", benchStall},
	{"ping", "GET /ping of 200 clients, a line in the access log each, by sync policy; again with every sync 100 ms slower;\nbeside webdis", benchPing},
	{"acks", "entries of 64 clients that wait for each: /ingest?ack=synced and appended; beside Redis streams", benchAcks},
	{"commands", "commands on one connection while native datagrams flood in", benchCommands},
	{"loggers", "160,000 lines from 1 and 8 callers in this process: slog by linelog's handler, zap's BufferedWriteSyncer;\nevery line is looked for afterwards", benchLoggers},
	{"pipe", "lines through a pipe to files that are rotated: tidemark append beside cat, rotatelogs, s6-log and multilog;\nevery line is looked for afterwards", benchPipe},
	{"manifest", "one log of many short processes on a model of NFS, and of 64 processes on this disk: with locks, without,\nand through the daemon", benchManifest},
	{"idle", "system calls of daemons that nobody asks for anything; beside webdis", benchIdle},
}

func usage() {
	text := "usage: bench [FLAG...] [JOB...]\nCompares tidemark with systemd's own tools, webdis and Redis, side by side; as root. All jobs by default:\n"
	for _, j := range jobs {
		text += "  " + j.name + "\n    \t" + strings.ReplaceAll(j.doc, "\n", "\n    \t") + "\n"
	}
	_, _ = io.WriteString(flag.CommandLine.Output(), text+"Flags:\n") // nobody else could be told
	flag.PrintDefaults()
}

func run(ctx context.Context, s settings, names []string) error {
	chosen := jobs[:]
	if len(names) > 0 {
		chosen = nil
	}
	for _, name := range names {
		i := slices.IndexFunc(jobs[:], func(j job) bool { return j.name == name })
		if i < 0 {
			return fmt.Errorf("no such job: %s", name)
		}
		chosen = append(chosen, jobs[i])
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
	if err := errors.Join(privateRun(), loopbackUp()); err != nil {
		return err
	}
	for _, j := range chosen {
		if err := j.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
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
		if err != nil || n < 1 {
			exitOn(fmt.Errorf("%q is not a list of numbers from 1 on", s))
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

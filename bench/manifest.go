package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/linelog"
)

// logModes are the ways in which processes share a log, the first for reference.
var logModes = [...]struct{ name, doc string }{
	{"none", "no log"},
	{"lock", "a lock for each line"},
	{"write", "no lock, a write for each line"},
	{"append", "linelog (what `tidemark append` does)"},
	{"via", "linelog by way of the daemon"},
}

// installer is the life of a process that installs files and appends a line for each
// to a log. With -wait it says that it is ready, and waits for a line, before.
func installer(args []string) (err error) {
	flags := flag.NewFlagSet("installer", flag.ContinueOnError)
	mode := flags.String("mode", "none", "way of logging")
	path := flags.String("log", "", "log")
	socket := flags.String("socket", "", "of the daemon, for -mode via")
	dir := flags.String("dir", "", "where files are installed; empty: none are")
	from := flags.Int("from", 0, "number of the first line")
	n := flags.Int("n", 2, "lines")
	wait := flags.Bool("wait", false, "wait for a line first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *wait {
		fmt.Println("ready")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
	}
	put, end, err := openMode(*mode, *path, *socket, *n <= manifestLines)
	if err != nil {
		return err
	}
	var line []byte
	for i := *from; i < *from+*n && err == nil; i++ {
		if *dir != "" {
			err = installFile(filepath.Join(*dir, strconv.Itoa(i)))
		}
		line = appendNumbered(line[:0], i)
		err = errors.Join(err, put(line))
	}
	return errors.Join(err, end())
}

// installFile makes a file as install(1) does.
func installFile(path string) error {
	part := path + ".part"
	err := os.WriteFile(part, make([]byte, 16<<10), 0o600)
	now := time.Now()
	for _, step := range []func() error{
		func() error { return os.Chmod(part, 0o755) },
		func() error { return os.Chtimes(part, now, now) },
		func() error { return os.Rename(part, path) },
	} {
		if err == nil {
			err = step()
		}
	}
	return err
}

// openMode opens a log in one of the ways; brief: for a process of a few lines.
func openMode(mode, path, socket string, brief bool) (put func([]byte) error, end func() error, err error) {
	o := linelog.Options{Shared: true, CloseUnsynced: true}
	if brief {
		o.Trailing, o.Window = true, time.Second
	}
	var w *linelog.Writer
	switch mode {
	case "none":
		return func([]byte) error { return nil }, func() error { return nil }, nil
	case "append":
		w, err = linelog.Open(path, o)
	case "via":
		w, err = linelog.Dial(context.Background(), socket, path, o)
	default:
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		put = func(b []byte) error {
			_, err := f.Write(b)
			return err
		}
		if mode == "lock" {
			put = func(b []byte) error { return underLock(f, b) }
		}
		return put, f.Close, err
	}
	if err != nil {
		return nil, nil, err
	}
	return func(b []byte) error {
		_, err := w.Write(b)
		return err
	}, w.Close, nil
}

// underLock writes a line under the lock that cat -l takes.
func underLock(f *os.File, b []byte) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &lock); err != nil {
		return err
	}
	_, err := f.Write(b)
	lock.Type = unix.F_UNLCK
	return errors.Join(err, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock))
}

// The NFS case, and that of a local disk.
const (
	manifestProcesses = 600
	manifestAtOnce    = 4
	manifestLines     = 2 // and files, of a process
	crowdProcesses    = 64
	crowdLines        = 1000
)

// benchManifest has many processes share one log.
func benchManifest(ctx context.Context, s settings) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mount, unmount, err := mountSlow(s, nfsRules[:]...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmount()) }()
	d, err := startServe(ctx, s, "--http", "off")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	socket := filepath.Join(d.run, "io.systemd.journal")
	fmt.Printf("\n## manifest: one log of many processes; medians of %d interleaved runs, every line looked for\n", s.rounds)
	var slow, local [len(logModes)][]time.Duration
	for round := range s.rounds {
		for i, m := range logModes {
			dir := filepath.Join(mount, fmt.Sprintf("%s%d", m.name, round))
			t, err := manifestOnce(ctx, self, m.name, dir, socket)
			if err != nil {
				return fmt.Errorf("%s: %w", m.doc, err)
			}
			slow[i] = append(slow[i], t)
		}
		for i, m := range logModes[1:] {
			t, err := crowdOnce(ctx, self, m.name, filepath.Join(s.dir, fmt.Sprintf("crowd-%s%d", m.name, round)), socket)
			if err != nil {
				return fmt.Errorf("%s: %w", m.doc, err)
			}
			local[i+1] = append(local[i+1], t)
		}
	}
	fmt.Printf("\n%s\n", nfsModel)
	fmt.Printf("\n| FUSE, as NFS: %d processes, %d at a time, %d files and lines each | s | time to no log |\n|---|---|---|\n", manifestProcesses, manifestAtOnce, manifestLines)
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	for i, m := range logModes {
		fmt.Printf("| %s | %.2f | %.2f |\n", m.doc, median(slow[i], seconds), median(slow[i], seconds)/median(slow[0], seconds))
	}
	fmt.Printf("\n| this disk: %d processes, %d lines each | lines/s | to a write for each line |\n|---|---|---|\n", crowdProcesses, crowdLines)
	for i, m := range logModes[1:] {
		fmt.Printf("| %s | %.0f | %.2f |\n", m.doc, crowdProcesses*crowdLines/median(local[i+1], seconds), median(local[2], seconds)/median(local[i+1], seconds))
	}
	return nil
}

// nfsRules take the time of NFS for a log. As there, only what is written is written
// back, by whoever closes or unlocks first, whichever process has written it.
var nfsRules = [...]string{"lock delay=500us", "unlock delay=500us", "unlock dirty delay=19ms", "flush dirty delay=1ms"}

// nfsModel is nfsRules in words.
const nfsModel = "The model: a lock and its release 0.5 ms each; 19 ms more (write-back 1 ms, COMMIT 18 ms) for a release when the file has something to write back; close(2) 1 ms then, and else nothing."

// mountSlow mounts a file system with rules, over a directory of its own.
func mountSlow(s settings, rules ...string) (dir string, unmount func() error, err error) {
	base, err := os.MkdirTemp(s.dir, "slow-")
	if err != nil {
		return "", nil, err
	}
	back, dir := filepath.Join(base, "back"), filepath.Join(base, "mnt")
	if err := errors.Join(os.Mkdir(back, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		return "", nil, err
	}
	args := []string{"-nocut"}
	for _, rule := range rules {
		args = append(args, "-rule", rule)
	}
	cmd := exec.Command(s.slowfs, append(args, back, dir)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("%w: name it with -slowfs, made by go build ./internal/slowfs/cmd/slowfs", err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return "", nil, errors.Join(fmt.Errorf("slowfs: %w", err), cmd.Wait())
	}
	return dir, func() error {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, lines)
		return cmd.Wait()
	}, nil
}

// manifestOnce runs all processes, so many at a time.
func manifestOnce(ctx context.Context, self, mode, dir, socket string) (time.Duration, error) {
	tree := filepath.Join(dir, "tree")
	log := filepath.Join(dir, "log")
	if err := errors.Join(os.MkdirAll(tree, 0o755), os.MkdirAll(log, 0o755)); err != nil {
		return 0, err
	}
	next := make(chan int)
	var wg sync.WaitGroup
	failed := make([]error, manifestAtOnce)
	began := time.Now()
	for worker := range manifestAtOnce {
		wg.Go(func() {
			for i := range next {
				cmd := exec.CommandContext(ctx, self, "installer", "-mode", mode, "-log", filepath.Join(log, "METALOG"), "-socket", socket,
					"-dir", tree, "-from", strconv.Itoa(i*manifestLines), "-n", strconv.Itoa(manifestLines))
				if text, err := cmd.CombinedOutput(); err != nil {
					failed[worker] = fmt.Errorf("%w: %s", err, text)
				}
			}
		})
	}
	for i := range manifestProcesses {
		next <- i
	}
	close(next)
	wg.Wait()
	took := time.Since(began)
	err := errors.Join(failed...)
	if err == nil && mode != "none" {
		err = checkNumbered(log, manifestProcesses*manifestLines)
	}
	return took, err // what is there goes with s.dir: the daemon may have it open
}

// crowdOnce has all processes append at the same time.
func crowdOnce(ctx context.Context, self, mode, dir, socket string) (took time.Duration, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	var all []*exec.Cmd
	var starts []io.Writer
	for i := range crowdProcesses {
		cmd := exec.CommandContext(ctx, self, "installer", "-mode", mode, "-log", filepath.Join(dir, "log"), "-socket", socket,
			"-from", strconv.Itoa(i*crowdLines), "-n", strconv.Itoa(crowdLines), "-wait")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return 0, err
		}
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return 0, err
		}
		all, starts = append(all, cmd), append(starts, in)
	}
	began := time.Now()
	for _, in := range starts {
		_, werr := io.WriteString(in, "go\n")
		err = errors.Join(err, werr)
	}
	for _, cmd := range all {
		err = errors.Join(err, cmd.Wait())
	}
	took = time.Since(began)
	return took, errors.Join(err, checkNumbered(dir, crowdProcesses*crowdLines))
}

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mark is in every message, so that stored ones can be counted.
const mark = "bench-message"

// sender is the life of one sending process: it connects, says so, waits for a
// line, sends n messages as fast as they are taken and prints the longest send.
func sender(args []string) error {
	fs := flag.NewFlagSet("sender", flag.ContinueOnError)
	run := fs.String("run", "", "socket directory")
	path := fs.String("path", "native", "way in")
	n := fs.Int("n", 1000, "messages")
	rate := fs.Int("rate", 0, "messages a second; 0 = as fast as they are taken")
	if err := fs.Parse(args); err != nil {
		return err
	}
	fd, err := connect(*run, *path)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	var b []byte
	var worst time.Duration
	began := time.Now()
	for i := range *n {
		b = message(b[:0], *path, i, r)
		at := time.Now()
		if err := send(fd, b); err != nil {
			return err
		}
		worst = max(worst, time.Since(at))
		if *rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second / time.Duration(*rate))))
		}
	}
	fmt.Println(worst.Microseconds())
	return syscall.Close(fd)
}

// send waits until b is taken.
func send(fd int, b []byte) error {
	for {
		_, err := syscall.Write(fd, b)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("send: %w", err)
		}
	}
}

// connect returns a blocking descriptor.
func connect(run, path string) (int, error) {
	kind, name := syscall.SOCK_DGRAM, map[string]string{"native": "socket", "syslog": "dev-log", "stdout": "stdout"}[path]
	if path == "stdout" {
		kind = syscall.SOCK_STREAM
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, kind|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: filepath.Join(run, name)}); err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	if path == "stdout" {
		if _, err := syscall.Write(fd, []byte("bench\n\n6\n0\n0\n0\n0\n")); err != nil {
			return 0, err
		}
	}
	return fd, nil
}

// message appends the ith message: 300 bytes as a native datagram.
func message(b []byte, path string, i int, r *rand.Rand) []byte {
	text := func(b []byte) []byte {
		b = append(b, mark...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, " GET /api/v1/orders/"...)
		b = strconv.AppendUint(b, r.Uint64(), 16)
		return append(b, " 200 in 12 ms from 10.0.3.17 with some more words to make it as long as lines are"...)
	}
	switch path {
	case "native":
		b = append(b, "PRIORITY=6\nSYSLOG_IDENTIFIER=bench\nCODE_FILE=src/server/request.c\nCODE_LINE=412\nCODE_FUNC=request_done\nREQUEST_ID="...)
		b = strconv.AppendUint(b, r.Uint64()|1<<63, 16)
		b = append(b, "\nMESSAGE="...)
		b = text(b)
		for len(b) < 299 {
			b = append(b, '.')
		}
		return append(b, '\n')
	case "syslog":
		return text(append(b, "<14>Nov 30 09:49:00 bench[77]: "...))
	default:
		return append(text(b), '\n')
	}
}

// load is a set of sending processes.
type load struct {
	cmds []*exec.Cmd
	in   []io.WriteCloser
	out  []*bufio.Reader
}

// startLoad starts n senders of each messages and waits until all are connected.
func startLoad(d *daemon, path string, n, each, rate int) (*load, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &load{}
	for range n {
		cmd := exec.Command(self, "sender", "-run", d.run, "-path", path, "-n", strconv.Itoa(each), "-rate", strconv.Itoa(rate))
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		l.cmds, l.in, l.out = append(l.cmds, cmd), append(l.in, in), append(l.out, bufio.NewReader(out))
	}
	for _, out := range l.out {
		if _, err := out.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a sender did not connect: %w", err)
		}
	}
	return l, nil
}

func (l *load) begin() error {
	for _, in := range l.in {
		if _, err := io.WriteString(in, "go\n"); err != nil {
			return err
		}
	}
	return nil
}

// wait returns the senders' processor time and the longest single send.
func (l *load) wait() (cpu, worst time.Duration, err error) {
	for i, cmd := range l.cmds {
		line, readErr := l.out[i].ReadString('\n')
		if us, convErr := strconv.Atoi(strings.TrimSpace(line)); readErr == nil && convErr == nil {
			worst = max(worst, time.Duration(us)*time.Microsecond)
		}
		err = errors.Join(err, cmd.Wait())
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return cpu, worst, err
}

// end kills senders that would go on for ever.
func (l *load) end() {
	for _, cmd := range l.cmds {
		_ = cmd.Process.Kill() // ours, and may have ended
		_ = cmd.Wait()
	}
}

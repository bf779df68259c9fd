package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/tidemark-log/tidemark/internal/selfbench"
)

// commandsLimit is how long an answer may take.
const commandsLimit = time.Minute

// commanded is a command of one side.
type commanded struct {
	side   side
	method string
	// refused: it is answered with an error, which takes as long.
	refused bool
}

// journald 252 has no Status, and answers a method that it has not with an error.
var commandedSides = [...]commanded{
	{sides[0], "org.varlink.service.GetInfo", false},
	{sides[0], "dev.tidemark.Log.Status", false},
	{sides[1], "org.varlink.service.GetInfo", true},
}

// benchCommands measures commands on one connection, one after the other, while
// native datagrams flood in.
func benchCommands(ctx context.Context, s settings) error {
	fmt.Printf("\n## commands: one after the other on one connection, in a flood of native datagrams from %d senders that lasts %s; the caller's priority is %d; %d interleaved runs, all calls count\n\n", floodSenders, floodFor, s.callNice, s.rounds)
	if err := setQlen(s.qlens[0]); err != nil {
		return err
	}
	var all [len(commandedSides)]selfbench.Latencies
	for range s.rounds {
		for i, c := range commandedSides {
			if err := commandsOnce(ctx, s, c, &all[i]); err != nil {
				return fmt.Errorf("%s, %s: %w", c.side.name, c.method, err)
			}
		}
	}
	fmt.Println("| daemon | command | calls | p50 µs | p99 µs | p99.9 µs | longest µs |\n|---|---|---|---|---|---|---|")
	for i, c := range commandedSides {
		l := &all[i]
		fmt.Printf("| %s | %s | %d | %.0f | %.0f | %.0f | %.0f |\n", c.side.name, c.method, l.N(), us(l.Quantile(0.5)), us(l.Quantile(0.99)), us(l.Quantile(0.999)), us(l.Max()))
	}
	return nil
}

func commandsOnce(ctx context.Context, s settings, c commanded, all *selfbench.Latencies) error {
	d, err := c.side.start(ctx, s)
	if err != nil {
		return err
	}
	err = commandsSide(ctx, s, d, c, all)
	if stopErr := d.stop(); err == nil {
		err = stopErr
	}
	return err
}

func commandsSide(ctx context.Context, s settings, d *daemon, c commanded, all *selfbench.Latencies) error {
	fd, err := connectCommands(d)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }() // answered or failed
	l, err := startLoad(d, "native", floodSenders, floodPerSender, 0)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.begin(); err != nil {
		return err
	}
	time.Sleep(time.Second / 2) // the flood is on
	done := make(chan error, 1)
	go func() {
		// A thread of its own, which ends with this goroutine: only that one gets the
		// priority, and nothing of the Go runtime stands between it and the socket.
		runtime.LockOSThread()
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, s.callNice); err != nil {
			done <- fmt.Errorf("set the caller's priority: %w", err)
			return
		}
		done <- callOn(ctx, fd, c, floodFor, all)
	}()
	return <-done
}

// connectCommands returns a blocking descriptor, on which nothing waits longer than
// commandsLimit.
func connectCommands(d *daemon) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: filepath.Join(d.run, "io.systemd.journal")})
	if err == nil {
		err = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: int64(commandsLimit / time.Second)})
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("connect to %s: %w", d.name, err), syscall.Close(fd))
	}
	return fd, nil
}

// callOn makes calls on a blocking descriptor for d.
func callOn(ctx context.Context, fd int, c commanded, d time.Duration, all *selfbench.Latencies) error {
	call := []byte(`{"method":"` + c.method + `"}` + "\x00")
	answer := make([]byte, 1<<20)
	for began := time.Now(); time.Since(began) < d && ctx.Err() == nil; {
		at := time.Now()
		if err := send(fd, call); err != nil {
			return err
		}
		n := 0
		for n == 0 || answer[n-1] != 0 {
			k, err := syscall.Read(fd, answer[n:])
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || k == 0 {
				return fmt.Errorf("no answer after %s: %w", time.Since(at), cmp.Or(err, io.ErrUnexpectedEOF))
			}
			n += k
		}
		all.Add(time.Since(at))
		if bytes.Contains(answer[:n], []byte(`"error"`)) != c.refused {
			return fmt.Errorf("unexpected answer %q", answer[:n])
		}
	}
	return ctx.Err()
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	followLines = 100 // so that p99 is not the longest
	followLimit = 20 * time.Second
	readyLine   = "ready?"
)

// benchFollow measures how long a lone line takes from its send to a follower's
// output.
func benchFollow(ctx context.Context, s settings) error {
	if err := setQlen(512); err != nil {
		return err
	}
	fmt.Printf("\n## follow: a lone line every 300–700 ms, %d lines, from send(2) to the follower's output\n\n| daemon | follower | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|\n", followLines)
	for _, side := range sides {
		d, err := side.start(ctx, s)
		if err != nil {
			return err
		}
		err = followSide(ctx, s, d)
		if stopErr := d.stop(); err == nil {
			err = stopErr
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

func followSide(ctx context.Context, s settings, d *daemon) error {
	commands := map[string]*exec.Cmd{"journalctl -f": d.journalctl(ctx, "-f", "-n", "0", "-o", "cat")}
	if d.name == "tidemark" {
		commands["tidemark query -f"] = exec.CommandContext(ctx, s.tidemark, "query", "-q", "-D", d.data, "-f", "-n", "0", "-o", "cat")
	}
	conn, err := net.Dial("unixgram", filepath.Join(d.run, "socket"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // datagrams are not buffered here
	if _, err := io.WriteString(conn, "MESSAGE=first\n"); err != nil {
		return err
	}
	if _, err := d.synchronize(); err != nil {
		return err
	}
	w := &watch{sent: map[string]time.Time{}, seen: map[string][]time.Duration{}, ready: map[string]bool{}}
	for name, cmd := range commands {
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		w.readers.Go(func() { w.read(name, out) })
	}
	if err := w.await(conn, len(commands)); err != nil {
		return err
	}
	for i := range followLines {
		text := fmt.Sprintf("line %d", i)
		w.mu.Lock()
		w.sent[text] = time.Now()
		w.mu.Unlock()
		if _, err := io.WriteString(conn, "MESSAGE="+text+"\n"); err != nil {
			return err
		}
		time.Sleep(300*time.Millisecond + time.Duration(rand.Int64N(int64(400*time.Millisecond))))
	}
	time.Sleep(time.Second) // the slowest follower's last line
	for _, cmd := range commands {
		_ = cmd.Process.Signal(syscall.SIGTERM) // ours
	}
	w.readers.Wait()
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		_ = commands[name].Wait() // ended by our signal
		lat := w.seen[name]
		if len(lat) != followLines {
			return fmt.Errorf("%s saw %d of %d lines", name, len(lat), followLines)
		}
		slices.Sort(lat)
		at := func(q float64) float64 { return us(quantile(lat, q)) / 1000 }
		fmt.Printf("| %s | %s | %.2f | %.2f | %.2f |\n", d.name, name, at(0.5), at(0.99), at(1))
	}
	return nil
}

type watch struct {
	readers sync.WaitGroup
	mu      sync.Mutex
	sent    map[string]time.Time
	seen    map[string][]time.Duration
	ready   map[string]bool
}

// await sends lines until n followers have shown one.
func (w *watch) await(conn io.Writer, n int) error {
	for limit := time.Now().Add(followLimit); ; time.Sleep(time.Second) {
		w.mu.Lock()
		ready := len(w.ready)
		w.mu.Unlock()
		if ready == n {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d of %d followers show something after %s", ready, n, followLimit)
		}
		if _, err := io.WriteString(conn, "MESSAGE="+readyLine+"\n"); err != nil {
			return err
		}
	}
}

func (w *watch) read(name string, r io.Reader) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		now := time.Now()
		line := strings.TrimSpace(sc.Text())
		w.mu.Lock()
		if at, ok := w.sent[line]; ok {
			w.seen[name] = append(w.seen[name], now.Sub(at))
		} else if line == readyLine {
			w.ready[name] = true
		}
		w.mu.Unlock()
	}
}

// quantile is the smallest of sorted that at least q of them do not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

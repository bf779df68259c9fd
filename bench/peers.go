package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// missing says what to install if one of the tools is not there, else nothing.
func missing(tools ...string) string {
	packages := map[string]string{
		"ab": "apache2-utils", "redis-server": "redis-server", "redis-benchmark": "redis-tools", "webdis": "webdis", "strace": "strace",
		"rotatelogs": "apache2-utils", "s6-log": "s6", "multilog": "daemontools",
		"gcc": "gcc", "journalctl": "systemd",
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Sprintf("no %s here: apt install %s", tool, packages[tool])
		}
	}
	return ""
}

// need is missing as an error, for what a job cannot do without.
func need(tools ...string) error {
	if why := missing(tools...); why != "" {
		return errors.New(why)
	}
	return nil
}

// Ports of this run's own network.
const (
	httpAddr   = "127.0.0.1:19531"
	redisPort  = "6379"
	webdisPort = "7379"
)

// loopbackUp switches the loopback device of a new network namespace on, and gives
// clients as many ports as there are.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written to it
	if err := interfaceUp(fd, "lo"); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("1024 65535"), 0o644)
}

// peer is a server that we compare with.
type peer struct {
	cmd    *exec.Cmd
	printf bytes.Buffer
}

const peerLimit = 15 * time.Second

// startPeer starts a server and waits until it accepts connections.
func startPeer(ctx context.Context, port string, command ...string) (*peer, error) {
	p := &peer{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.printf, &p.printf
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for limit := time.Now().Add(peerLimit); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			return p, c.Close()
		}
		if ctx.Err() != nil || time.Now().After(limit) {
			return nil, errors.Join(fmt.Errorf("%s did not come up: %w: %s", command[0], err, p.printf.String()), p.stop())
		}
	}
}

func (p *peer) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	kill := time.AfterFunc(peerLimit, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return ignoreExit(p.cmd.Wait())
}

// startRedis starts a Redis that appends to a file, synced as fsync says, or with
// "" keeps nothing.
func startRedis(ctx context.Context, s settings, fsync string) (*peer, error) {
	dir, err := os.MkdirTemp(s.dir, "redis-")
	if err != nil {
		return nil, err
	}
	args := []string{"redis-server", "--bind", "127.0.0.1", "--port", redisPort, "--dir", dir, "--save", "", "--appendonly", "no"}
	if fsync != "" {
		args = append(args[:len(args)-1], "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0")
	}
	return startPeer(ctx, redisPort, args...)
}

// startWebdis starts webdis in front of a Redis that is there. It
// writes a line for each request, and syncs each, or none.
func startWebdis(ctx context.Context, s settings, lines bool) (*peer, error) {
	verbosity := 0
	if lines {
		verbosity = 4
	}
	conf := filepath.Join(s.dir, "webdis.json")
	text := fmt.Sprintf(`{"redis_host": "127.0.0.1", "redis_port": %s, "redis_auth": null, "http_host": "127.0.0.1", "http_port": %s,
"threads": 2, "daemonize": false, "database": 0, "acl": [], "verbosity": %d, "logfile": %q}`, redisPort, webdisPort, verbosity, filepath.Join(cmp.Or(s.logs, s.dir), "webdis.log"))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return startPeer(ctx, webdisPort, "webdis", conf)
}

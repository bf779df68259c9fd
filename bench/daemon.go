package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A daemon under measurement: tidemark or journald.
type daemon struct {
	name   string
	cmd    *exec.Cmd
	data   string // journal files
	conf   string // extra configuration, to be removed
	run    string // sockets
	printf bytes.Buffer
}

// sizes is what both sides are told about the size of files; nothing by default,
// when both make them as large as each other: an eighth of a tenth of the file
// system, 128 MiB at most.
func (s settings) sizes() string {
	if s.fileSize == "" {
		return ""
	}
	return "SystemMaxUse=20G\nSystemKeepFree=1M\nSystemMaxFileSize=" + s.fileSize + "\n"
}

const journaldConf = `[Journal]
Storage=persistent
RateLimitIntervalSec=0
RateLimitBurst=0
ReadKMsg=no
Audit=no
ForwardToSyslog=no
ForwardToWall=no
`

// startJournald starts a private journald that writes to a fresh directory.
func startJournald(ctx context.Context, s settings) (*daemon, error) {
	data, err := os.MkdirTemp(s.dir, "journald-")
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"/run/systemd/journal", "/run/log/journal", "/run/systemd/journald.conf.d", "/var/log/journal"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := syscall.Mount(data, "/var/log/journal", "", syscall.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("bind %s: %w", data, err)
	}
	if err := os.WriteFile("/run/systemd/journald.conf.d/00-bench.conf", []byte(journaldConf+s.sizes()), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/run/systemd/journal/flushed", nil, 0o644); err != nil {
		return nil, err
	}
	d := &daemon{name: "journald", data: data, run: "/run/systemd/journal"}
	d.cmd = exec.Command("/lib/systemd/systemd-journald")
	return d, d.start(ctx, s)
}

// startTidemark starts tidemark without HTTP: see startServe.
func startTidemark(ctx context.Context, s settings) (*daemon, error) {
	return startServe(ctx, s, "--http", "off")
}

// start waits until the daemon says that it is ready, as daemons tell systemd.
func (d *daemon) start(ctx context.Context, s settings) error {
	path := filepath.Join(s.dir, "notify")
	_ = os.Remove(path) // of the daemon before
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = notify.Close() }() // has served its purpose
	d.cmd.Stdout, d.cmd.Stderr = &d.printf, &d.printf
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	if err := d.cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = notify.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = notify.SetReadDeadline(time.Now().Add(15 * time.Second)) // cannot fail on an open socket
	b := make([]byte, 4<<10)
	for {
		n, err := notify.Read(b)
		if err != nil {
			return errors.Join(fmt.Errorf("%s did not come up: %w", d.name, err), d.stop())
		}
		if strings.Contains("\n"+string(b[:n])+"\n", "\nREADY=1\n") {
			return nil
		}
	}
}

func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may be gone, and Wait says so
	err := d.cmd.Wait()
	if d.name == "journald" {
		err = errors.Join(syscall.Unmount("/var/log/journal", syscall.MNT_DETACH), ignoreExit(err))
		_ = os.RemoveAll("/run/systemd/journal") // the next one makes its own
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", d.name, err, d.printf.String())
	}
	if d.conf != "" {
		_ = os.Remove(d.conf)
	}
	return os.RemoveAll(d.data)
}

func ignoreExit(err error) error {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return nil
	}
	return err
}

// cpu is the processor time that the daemon has used, ended threads included.
func (d *daemon) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(f[11]) // the kernel writes numbers
	system, _ := strconv.Atoi(f[12])
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	return time.Duration(user+system) * tick
}

// journalctl runs the real journalctl over the daemon's files.
func (d *daemon) journalctl(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "journalctl", append([]string{"-q", "--no-pager", "-D", d.data}, args...)...)
}

// stored counts the entries whose MESSAGE holds mark.
func (d *daemon) stored(ctx context.Context, mark string) (int, error) {
	out, err := d.journalctl(ctx, "-o", "cat", "--output-fields=MESSAGE").Output()
	if err != nil {
		return 0, fmt.Errorf("journalctl: %w", err)
	}
	return strings.Count(string(out), mark), nil
}

// synchronize asks the daemon over varlink and waits for the answer.
func (d *daemon) synchronize() (time.Duration, error) { return d.command("Synchronize") }

// rotate has the daemon begin new files.
func (d *daemon) rotate() error {
	_, err := d.command("Rotate")
	return err
}

func (d *daemon) command(name string) (time.Duration, error) {
	began := time.Now()
	answer, err := varlink(filepath.Join(d.run, "io.systemd.journal"), `{"method":"io.systemd.Journal.`+name+`"}`)
	if err == nil && strings.Contains(answer, `"error"`) {
		err = errors.New(answer)
	}
	return time.Since(began), err
}

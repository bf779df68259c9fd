package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	idleFor  = 6 * time.Second
	idleRest = 3 * time.Second // what a start leaves to be done is done by then
)

// benchIdle counts the system calls of servers that nobody asks for anything.
func benchIdle(ctx context.Context, s settings) error {
	if err := need("strace"); err != nil {
		return err
	}
	fmt.Printf("\n## idle: system calls in %s, under strace -f -c, from %s after the start on\n\n| server | calls | syncs | which |\n|---|---|---|---|\n", idleFor, idleRest)
	d, err := startServe(ctx, s, "--http", httpAddr, "--access-log", filepath.Join(s.dir, "idle.log"), "--access-log-sync", "50ms")
	if err != nil {
		return err
	}
	err = idleOnce(ctx, s, "tidemark, access log 50ms", d.cmd.Process.Pid)
	if err := errors.Join(err, d.stop()); err != nil {
		return err
	}
	if d, err = startJournald(ctx, s); err != nil {
		return err
	}
	err = idleOnce(ctx, s, "journald", d.cmd.Process.Pid)
	if err := errors.Join(err, d.stop()); err != nil {
		return err
	}
	if why := missing("webdis", "redis-server"); why != "" {
		fmt.Printf("\nwithout webdis: %s\n", why)
		return nil
	}
	redis, err := startRedis(ctx, s, "")
	if err != nil {
		return err
	}
	w, err := startWebdis(ctx, s, true)
	if err == nil {
		err = errors.Join(idleOnce(ctx, s, "webdis", w.cmd.Process.Pid), w.stop())
	}
	return errors.Join(err, redis.stop())
}

func idleOnce(ctx context.Context, s settings, name string, pid int) error {
	select {
	case <-time.After(idleRest):
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := countCalls(ctx, s, pid, idleFor)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %d | %s |\n", name, c.total(), c.syncs(), c)
	return nil
}

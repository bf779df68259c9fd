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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The first words of messages: of the flood, and of entries sent alone.
const (
	floodWord = "flood"
	loneWord  = "lone"
)

// crowdSender is the life of one sender of a crowd: for each line with a number it
// sends as many entries, for "lone" one that is no part of the flood, and
// prints when its last send began, in ns since 1970.
func crowdSender(args []string) error {
	fs := flag.NewFlagSet("crowd-sender", flag.ContinueOnError)
	run := fs.String("run", "", "socket directory")
	id := fs.Int("id", 0, "number of this sender")
	uid := fs.Int("uid", 0, "user and group to become")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(*uid), syscall.Setuid(*uid)); err != nil {
			return fmt.Errorf("become user %d: %w", *uid, err)
		}
	}
	fd, err := connect(*run, "native")
	if err != nil {
		return err
	}
	next := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		began := time.Now()
		n, err := strconv.Atoi(in.Text())
		if err != nil { // lone
			err = send(fd, crowdEntry(loneWord+" "+strconv.Itoa(*id), *id, 0))
		}
		for ; n > 0 && err == nil; n-- {
			b := crowdEntry(fmt.Sprintf("%s %d %d", floodWord, *id, next), *id, next)
			began = time.Now()
			err = send(fd, b)
			next++
		}
		if err != nil {
			return err
		}
		fmt.Println(began.UnixNano())
	}
	return syscall.Close(fd)
}

// crowdEntry is entry k of a sender as a native datagram.
func crowdEntry(message string, id, k int) []byte {
	b := fmt.Appendf(nil, "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=crowd%d\nTAG=%c\n", message, 3+k%5, id, "abc"[k%3])
	if k%7 == 0 {
		b = append(b, "OTHER=x\n"...)
	}
	return b
}

// crowd is a set of processes that send on command.
type crowd struct {
	senders []*exec.Cmd
	in      []io.WriteCloser
	out     []*bufio.Reader
}

// start starts a sender for each user; they end with ctx.
func (c *crowd) start(ctx context.Context, d *daemon, uids []int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for id, uid := range uids {
		cmd := exec.CommandContext(ctx, self, "crowd-sender", "-run", d.run, "-id", strconv.Itoa(id), "-uid", strconv.Itoa(uid))
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		c.senders, c.in, c.out = append(c.senders, cmd), append(c.in, in), append(c.out, bufio.NewReader(out))
	}
	return nil
}

// wait is to be called once the context of start has ended.
func (c *crowd) wait() {
	for _, cmd := range c.senders {
		_ = cmd.Wait() // killed
	}
}

// all gives every sender an order at once, and says when the last send began.
func (c *crowd) all(order string) (last time.Time, err error) {
	for _, in := range c.in {
		if _, err := io.WriteString(in, order+"\n"); err != nil {
			return last, err
		}
	}
	hung := time.AfterFunc(tailSendLimit, func() {
		for _, cmd := range c.senders {
			_ = cmd.Process.Kill() // ours; those that read from it are told
		}
	})
	defer hung.Stop()
	for id, out := range c.out {
		line, err := out.ReadString('\n')
		if err != nil {
			return last, fmt.Errorf("sender %d did not send (limit %s): %w", id, tailSendLimit, err)
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return last, err
		}
		if at := time.Unix(0, ns); at.After(last) {
			last = at
		}
	}
	return last, nil
}

// lone lets each sender send an entry that matches everything.
func (c *crowd) lone() error {
	_, err := c.all(loneWord)
	return err
}

// awaitWatched returns when every follower has shown a lone entry of every
// sender: then it watches all the files.
func (c *crowd) awaitWatched(ctx context.Context, tails []*tail) error {
	limit := time.After(tailSilence)
	again := time.NewTicker(tailLoneEvery)
	defer again.Stop()
	for _, f := range tails {
		for !f.watches() {
			select {
			case <-f.moved:
			case <-again.C: // what was sent before it watched, it does not show
				if err := c.lone(); err != nil {
					return err
				}
			case <-f.ended:
				return fmt.Errorf("%s ended by itself: %s", f.cmd, f.stderr.Bytes())
			case <-limit:
				return fmt.Errorf("%s shows nothing", f.cmd)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// flood lets all send in bursts, with a quiet spell after each, and says when the
// last send of each burst began.
func (c *crowd) flood(ctx context.Context, bursts int) ([]time.Time, error) {
	var sent []time.Time
	for range bursts {
		last, err := c.all(strconv.Itoa(tailBurst))
		if err != nil {
			return nil, err
		}
		sent = append(sent, last)
		select {
		case <-time.After(tailQuiet):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return sent, nil
}

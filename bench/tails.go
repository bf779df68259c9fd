package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"time"
)

// The flood of the job tails.
const (
	tailBurst     = 1500                   // entries that each sender sends without a pause
	tailQuiet     = 400 * time.Millisecond // between two bursts: as long as journald may keep a follower waiting
	tailSilence   = 20 * time.Second       // a follower that shows nothing new for so long is not waited for
	tailSendLimit = 2 * time.Minute        // for one burst: then the daemon hangs
	tailLoneEvery = 500 * time.Millisecond // until every follower has shown one
	tailRotate    = 500 * time.Millisecond // between two rotations
)

// tailUsers are the scenarios: the user of each sending process. Entries of users
// from 1000 on go to files of their own. All files are rotated every half second
// where it says so.
var tailUsers = [...]struct {
	name   string
	uids   []int
	rotate bool
}{
	{"one user", []int{0, 0, 0, 0}, false},
	{"three users", []int{0, 1000, 1001, 0}, false},
	{"three, rotating", []int{0, 1000, 1001, 0}, true},
}

// tailMatches are what the three followers of a run ask for; every number of
// which 21 is a divisor matches all.
var tailMatches = [...]struct {
	args []string
	want func(k int) bool
}{
	{nil, func(int) bool { return true }},
	{[]string{"TAG=a"}, func(k int) bool { return k%3 == 0 }},
	{[]string{"TAG=a", "TAG=b", "+", "OTHER=x"}, func(k int) bool { return k%3 != 2 || k%7 == 0 }},
}

// tailRuns are what is compared. tidemark's own followers have runs of their own,
// so that as many programs read along in every run.
var tailRuns = [...]struct {
	side    side
	program string
	command func(context.Context, settings, *daemon, []string) *exec.Cmd
}{
	{sides[0], "journalctl -f", journalctlTail},
	{sides[1], "journalctl -f", journalctlTail},
	{sides[0], "tidemark query -f", queryTail},
}

func journalctlTail(ctx context.Context, _ settings, d *daemon, match []string) *exec.Cmd {
	return d.journalctl(ctx, append([]string{"-f", "-n", "0", "-o", "cat"}, match...)...)
}

func queryTail(ctx context.Context, s settings, d *daemon, match []string) *exec.Cmd {
	return exec.CommandContext(ctx, s.tidemark, append([]string{"query", "-q", "--no-pager", "-D", d.data, "-f", "-n", "0", "-o", "cat"}, match...)...)
}

// benchTails counts what followers show of a flood in bursts.
func benchTails(ctx context.Context, s settings) error {
	if err := setQlen(512); err != nil {
		return err
	}
	fmt.Printf("\n## tails: followers in a flood; %d processes send %d bursts of %d entries each, %s quiet after each; sum of %d interleaved runs\n\n",
		len(tailUsers[0].uids), s.bursts, tailBurst, tailQuiet, s.rounds)
	fmt.Println("Expected entries are shown or passed over; doubled and out of order are shown ones. Lag: from the last send(2) of a burst until its last entry was seen, over all bursts;")
	fmt.Printf("never: not before the follower had shown nothing new for %s.\n\n", tailSilence)
	var sums [len(tailUsers)][len(tailRuns)][len(tailMatches)]tally
	for range s.rounds {
		for u := range tailUsers {
			for r := range tailRuns {
				if err := tailsOnce(ctx, s, u, r, &sums[u][r]); err != nil {
					return fmt.Errorf("%s, %s, %s: %w", tailRuns[r].side.name, tailUsers[u].name, tailRuns[r].program, err)
				}
			}
		}
	}
	fmt.Println("| senders | daemon | follower | expected | shown | passed over | doubled | out of order | median lag ms | longest lag ms |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for u, users := range tailUsers {
		for r, run := range tailRuns {
			for m, match := range tailMatches {
				t := &sums[u][r][m]
				slices.Sort(t.lags)
				fmt.Printf("| %s | %s | %s | %d | %d | %d | %d | %d | %s | %s |\n", users.name, run.side.name, tailName(run.program, match.args),
					t.expected, t.shown, t.expected-t.shown, t.doubled, t.disordered, ms(quantile(t.lags, 0.5)), ms(quantile(t.lags, 1)))
			}
		}
	}
	return nil
}

func tailName(program string, match []string) string {
	for _, m := range match {
		program += " " + m
	}
	return program
}

// ms writes milliseconds; what never came is infinite.
func ms(d time.Duration) string {
	if d == math.MaxInt64 {
		return "never"
	}
	return fmt.Sprintf("%.1f", us(d)/1000)
}

// rotating rotates all files every tailRotate until the func it returns is called.
func rotating(ctx context.Context, d *daemon) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(tailRotate)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			if err := d.rotate(); err != nil {
				ended <- fmt.Errorf("rotate: %w", err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// tailsOnce floods one fresh daemon and adds what its followers showed to sums.
func tailsOnce(ctx context.Context, s settings, users, run int, sums *[len(tailMatches)]tally) error {
	d, err := tailRuns[run].side.start(ctx, s)
	if err != nil {
		return err
	}
	err = tailsFlood(ctx, s, d, users, run, sums)
	return errors.Join(err, d.stop())
}

func tailsFlood(ctx context.Context, s settings, d *daemon, users, run int, sums *[len(tailMatches)]tally) error {
	ctx, cancel := context.WithCancel(ctx)
	c := &crowd{}
	var tails []*tail
	defer func() {
		cancel() // ends senders and followers
		c.wait()
		for _, f := range tails {
			f.wait()
		}
	}()
	if err := c.start(ctx, d, tailUsers[users].uids); err != nil {
		return err
	}
	// A follower of a boot without an entry ends at once, and one that begins
	// before a file is there has to find it first.
	if err := c.lone(); err != nil {
		return err
	}
	if _, err := d.synchronize(); err != nil {
		return err
	}
	for _, m := range tailMatches {
		f := newTail(tailRuns[run].command(ctx, s, d, m.args), m.want, len(c.senders), s.bursts)
		if err := f.start(); err != nil {
			return err
		}
		tails = append(tails, f)
	}
	if err := c.awaitWatched(ctx, tails); err != nil {
		return err
	}
	stopRotating := func() error { return nil }
	if tailUsers[users].rotate {
		stopRotating = rotating(ctx, d)
	}
	sent, err := c.flood(ctx, s.bursts)
	if err = errors.Join(err, stopRotating()); err != nil {
		return err
	}
	over := time.Now()
	for i, f := range tails {
		if err := f.awaitAll(ctx, over); err != nil {
			return fmt.Errorf("%s: %w", tailName(tailRuns[run].program, tailMatches[i].args), err)
		}
	}
	for i, f := range tails {
		f.count(&sums[i], sent)
	}
	want := len(c.senders) * s.bursts * tailBurst
	stored, err := d.stored(ctx, floodWord+" ")
	if err == nil && stored != want {
		err = fmt.Errorf("%d of %d entries were stored: what is missing cannot be laid on a follower", stored, want)
	}
	return err
}

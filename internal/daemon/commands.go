package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Synchronize implements control.Daemon: what the kernel has received for the
// sockets is taken and stored, then everything is synced. Like journald it
// leaves the time in the file `synced`.
func (d *daemon) Synchronize(ctx context.Context) error {
	err := d.store.WhileRoom(ctx, func(ctx context.Context) error {
		if err := d.ingest.Barrier(ctx); err != nil {
			return err
		}
		return errors.Join(d.store.Synchronize(ctx), d.remote.Synchronize(ctx))
	})
	if err = errors.Join(err, d.syncAccessLog(ctx)); err != nil {
		return err
	}
	return d.stamp("synced")
}

// Rotate implements control.Daemon.
func (d *daemon) Rotate(ctx context.Context) error {
	err := d.store.WhileRoom(ctx, func(ctx context.Context) error {
		return errors.Join(d.store.Rotate(ctx), d.remote.Rotate(ctx))
	})
	if err != nil {
		return err
	}
	return d.stamp("rotated")
}

// Archived implements control.Daemon.
func (d *daemon) Archived(ctx context.Context) error {
	return d.store.WhileRoom(ctx, func(ctx context.Context) error {
		return errors.Join(d.store.Archived(ctx), d.remote.Archived(ctx))
	})
}

// stamp writes CLOCK_MONOTONIC in µs to a file of the run directory.
func (d *daemon) stamp(name string) error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return err
	}
	path, text := filepath.Join(d.run, name), strconv.FormatInt(ts.Nano()/1000, 10)+"\n"
	d.stampMu.Lock()
	defer d.stampMu.Unlock()
	err := replaceFile(path, text, 0o644)
	for (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && d.reserve.Spend() {
		err = replaceFile(path, text, 0o644)
	}
	d.reserve.Fill()
	return err
}

// Append implements control.Daemon. Entries are appended one by one: that is how
// one that no file can hold shows, which must not be acknowledged with the others.
func (d *daemon) Append(ctx context.Context, from control.Peer, entries []entry.Entry, level settle.Level) (done control.Appended, err error) {
	trusted := d.sender(from)
	var all journal.Ticket
	reached := settle.Accepted
	err = d.store.WhileRoom(ctx, func(ctx context.Context) error {
		for i := range entries {
			e := &entries[i]
			if levelOf(e) > d.config().MaxLevelStore {
				done.Dropped++
				done.Accepted++
				d.called.level.Add(1)
				continue
			}
			e.Owner = from.UID
			e.Fields = append(e.Fields, trusted...)
			t, err := d.store.Append(ctx, entries[i:i+1])
			if err != nil {
				return err
			}
			if reflect.ValueOf(t).IsZero() {
				return &journal.EntryError{Index: i, Field: -1, Err: errUnstorable}
			}
			all.Join(t)
			done.Accepted++
			d.called.entries.Add(1)
		}
		return nil
	})
	if err != nil && done.Accepted == done.Dropped {
		done.Ack = reached.String()
		return done, err
	}
	// What was taken is waited for, too, when the rest was not: the answer says how
	// far it has come.
	waitErr := d.store.WhileRoom(ctx, func(ctx context.Context) error {
		for l := settle.Appended; l <= max(level, d.least()); l++ {
			if err := d.store.Wait(ctx, all, l); err != nil {
				return fmt.Errorf("wait until %s: %w", l, err)
			}
			reached = l
		}
		return nil
	})
	done.Ack = reached.String()
	if err == nil {
		err = waitErr
	}
	return done, err
}

// errUnstorable is told about an entry that the store has left out.
var errUnstorable = errors.New("no journal file can hold it: split it, or raise SystemMaxFileSize=")

// levelOf is the level that an entry counts as for MaxLevelStore.
func levelOf(e *entry.Entry) int {
	if p, _ := e.Get("PRIORITY"); len(p) == 1 && p[0] >= '0' && p[0] <= '7' {
		return int(p[0] - '0')
	}
	return levelInfo
}

// sender are the trusted fields of what a client of the varlink socket sends.
func (d *daemon) sender(from control.Peer) []entry.Field {
	known := d.ingest.Sender(from.PID, from.UID, from.GID, from.Since)
	return append([]entry.Field{entry.Field("_TRANSPORT=varlink")}, known...)
}

// signalSync is SIGRTMIN+1 as glibc, and with it kill(1), counts: the kernel's
// first real-time signal is 32, and the C library keeps two for itself.
const signalSync = syscall.Signal(35)

// watchSignals obeys signals until ctx is done; the returned function waits for
// a command in progress. What comes later is not obeyed any more.
func (d *daemon) watchSignals(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case s := <-d.signals:
				d.obey(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	})
	return wg.Wait
}

// obey runs the command of a signal.
func (d *daemon) obey(ctx context.Context, s os.Signal) {
	var what string
	var err error
	switch s {
	case syscall.SIGHUP:
		d.rereadConfig(ctx)
		d.reopenAccessLog()
	case syscall.SIGUSR1:
		d.say("flush: there is one place for logs, nothing to move")
	case syscall.SIGUSR2:
		what, err = "rotate", d.Rotate(ctx)
	case signalSync:
		what, err = "sync", d.Synchronize(ctx)
	}
	if err != nil {
		d.store.Event(levelErr, "", what+": "+err.Error())
	}
}

// rereadConfig is reload, with what came of it as an entry.
func (d *daemon) rereadConfig(ctx context.Context) {
	if err := d.reload(ctx); err != nil {
		d.store.Event(levelErr, messageConfig, err.Error()+"; the settings in force are kept")
		return
	}
	d.store.Event(levelInfo, messageConfig, "configuration read again")
}

// reload reads the configuration again. What concerns the store holds at once,
// in new files; other changes are named and wait for a restart.
func (d *daemon) reload(ctx context.Context) error {
	cfg, warnings, err := d.o.Config()
	for _, w := range warnings {
		d.warn(w.String())
	}
	if err != nil {
		return err
	}
	old := d.config()
	for _, fixed := range []struct {
		name string
		same bool
	}{
		{"Data", cfg.Data == old.Data},
		{"Run", cfg.Run == old.Run},
		{"HTTP", slices.Equal(cfg.HTTP, old.HTTP)},
		{"AccessLog", cfg.AccessLog == old.AccessLog},
		{"AccessLogSync", cfg.AccessLogSync == old.AccessLogSync},
		{"LineMax", cfg.LineMax == old.LineMax},
		{"ReadKMsg", cfg.ReadKMsg == old.ReadKMsg},
		{"RateLimitIntervalSec", cfg.RateLimitInterval == old.RateLimitInterval},
		{"RateLimitBurst", cfg.RateLimitBurst == old.RateLimitBurst},
	} {
		if !fixed.same {
			d.warn("the change of " + fixed.name + "= needs a restart")
		}
	}
	total, err := d.space()
	if err != nil {
		return err
	}
	if after := settings(cfg, total); after != settings(old, total) {
		if err := d.store.Configure(ctx, after); err != nil {
			return err
		}
	}
	d.ingest.SetMaxLevel(cfg.MaxLevelStore)
	if cfg.Nice != nil {
		d.applyNice(cfg)
	}
	d.cfg.Store(&cfg)
	d.changed()
	return nil
}

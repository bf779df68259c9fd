package selfbench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/funnel"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// openLog opens the log as a shell's >> does.
func openLog(fs vfs.FS, path string) (vfs.File, error) {
	return fs.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

// put appends r with one write.
func put(f vfs.File, r *record) error {
	_, _, err := f.Append(r[:])
	return err
}

// locked is a log that is written under a lock, taken for each line or for all.
type locked struct {
	vfs.File
	each bool
}

func openLocked(each bool) func(context.Context, *place, vfs.FS, string) (life, error) {
	return func(_ context.Context, _ *place, fs vfs.FS, path string) (life, error) {
		f, err := openLog(fs, path)
		if err != nil {
			return nil, err
		}
		if !each {
			if err := f.Lock(vfs.Fcntl, true); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
		return &locked{f, each}, nil
	}
}

func (l *locked) line(_ context.Context, r *record) error {
	if !l.each {
		return put(l.File, r)
	}
	if err := l.Lock(vfs.Fcntl, true); err != nil {
		return err
	}
	return errors.Join(put(l.File, r), l.Unlock(vfs.Fcntl))
}

func (l *locked) close() error {
	var err error
	if !l.each {
		err = l.Unlock(vfs.Fcntl)
	}
	return errors.Join(err, l.Close())
}

// lockFree is a log that is written with O_APPEND alone.
type lockFree struct{ vfs.File }

func openLockFree(_ context.Context, _ *place, fs vfs.FS, path string) (life, error) {
	f, err := openLog(fs, path)
	if err != nil {
		return nil, err
	}
	return lockFree{f}, nil
}

func (l lockFree) line(_ context.Context, r *record) error { return put(l.File, r) }

func (l lockFree) close() error { return l.Close() }

// ownWriter is a linelog.Writer of each process.
type ownWriter struct{ *linelog.Writer }

func openBatched(_ context.Context, _ *place, fs vfs.FS, path string) (life, error) {
	w, err := linelog.Open(path, linelog.Options{FS: fs, Shared: true, Lock: linelog.LockNone, CloseUnsynced: true})
	if err != nil {
		return nil, err
	}
	return ownWriter{w}, nil
}

// openFunnel has the lines written by the process that serveFunnel stands for.
func openFunnel(ctx context.Context, p *place, fs vfs.FS, path string) (life, error) {
	w, err := linelog.Dial(ctx, p.file("socket"), path, linelog.Options{FS: fs, CloseUnsynced: true})
	if err != nil {
		return nil, err
	}
	return ownWriter{w}, nil
}

func (l ownWriter) line(ctx context.Context, r *record) error {
	_, err := l.Append(ctx, r[:])
	return err
}

func (l ownWriter) close() error { return l.Close() }

// serveFunnel is tidemark's daemon, as far as lines go.
func serveFunnel(ctx context.Context, p *place, fs vfs.FS, path string) (end func() error, err error) {
	socket := p.file("socket")
	if len(socket) > config.MaxSocketPath {
		return nil, fmt.Errorf("%s is too long a path for a socket", socket)
	}
	var d linesDoor
	if p.Delay == 0 {
		d.funnel = funnel.New(funnel.Config{})
	} else if d.w, err = linelog.Open(path, linelog.Options{FS: fs, Lock: linelog.LockNone, CloseUnsynced: true}); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	s := control.New(d, control.Info{Product: "tidemark bench"}, control.Limits{})
	ctx, cancel := context.WithCancel(ctx)
	var run sync.WaitGroup
	var served error
	run.Go(func() { served = s.Serve(ctx, l) })
	return func() error {
		cancel()
		run.Wait()
		return errors.Join(served, d.close(context.WithoutCancel(ctx)))
	}, nil
}

// linesDoor takes lines: for the files of this host by tidemark's own funnel, for the
// model of another host's by a writer of that.
type linesDoor struct {
	control.Daemon
	funnel *funnel.Funnel // nil: w
	w      *linelog.Writer
}

// OpenLines implements control.Daemon.
func (d linesDoor) OpenLines(ctx context.Context, from control.Peer, appending, repairing int) (control.Lines, error) {
	if d.funnel != nil {
		c, err := d.funnel.Open(ctx, from.UID, appending, repairing)
		if err != nil {
			return nil, err // not a nil client in an interface
		}
		return c, nil
	}
	for _, fd := range []int{appending, repairing} {
		if fd >= 0 {
			_ = unix.Close(fd) // the model has files of its own
		}
	}
	return &modelLines{w: d.w}, nil
}

func (d linesDoor) close(ctx context.Context) error {
	if d.funnel != nil {
		return d.funnel.Close(ctx)
	}
	return d.w.Close()
}

// modelLines are the lines of one client.
type modelLines struct {
	w   *linelog.Writer
	pos linelog.Pos
}

// Append implements control.Lines.
func (m *modelLines) Append(ctx context.Context, lines []byte) (err error) {
	m.pos, err = m.w.Append(ctx, lines)
	return err
}

// Wait implements control.Lines.
func (m *modelLines) Wait(ctx context.Context, level settle.Level) error {
	return m.w.Wait(ctx, m.pos, level)
}

// Close implements control.Lines.
func (m *modelLines) Close() {}

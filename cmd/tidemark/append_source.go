package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tidemark-log/tidemark/linelog"
)

// input appends standard input. When ctx is done it takes what is in the pipe, unless
// nothing can be written.
func (a *appending) input(ctx context.Context, stdin io.Reader) error {
	in, ok := stdin.(*os.File)
	if !ok {
		return a.copyFrom(ctx, stdin, "")
	}
	copying, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if a.w.Stats().Err != nil {
			cancel()
		}
	})()
	r, err := newPipeReader(ctx, in)
	if err != nil {
		return err
	}
	defer r.close()
	err = a.copyFrom(copying, r, "")
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // what was not written Close tells
	}
	return err
}

// stream appends what a command writes: 0 is its standard output, 1 its standard error.
func (a *appending) stream(i int, out *os.File) error {
	prefix := ""
	if i == 1 {
		prefix = a.stderrPrefix
	}
	r, err := newPipeReader(context.Background(), out)
	if err != nil {
		return err
	}
	defer r.close()
	return a.copyFrom(context.Background(), r, prefix)
}

// heedSignals has w open its file again at HUP, and rotate it at ALRM, until end is
// called.
func heedSignals(w *linelog.Writer, say func(string)) (end func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGALRM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range c {
			call := w.Reopen
			if s == syscall.SIGALRM {
				call = w.Rotate
			}
			if err := call(); err != nil {
				say(err.Error() + "; lines go on to the file before")
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
		<-done
	}
}

// openStep is what to do about a log that cannot be opened.
func openStep(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, linelog.ErrNoSync):
		return "leave out --sync, or name a file"
	case errors.Is(err, linelog.ErrNoRotation):
		return "leave out the options of rotation, or name a file"
	case errors.Is(err, linelog.ErrHosts), errors.Is(err, linelog.ErrInUse), !errors.As(err, &errno):
		return "" // it says so
	case errors.Is(err, fs.ErrPermission), errno == syscall.EROFS:
		return "name a file that you may write to"
	case errors.Is(err, fs.ErrNotExist), errno == syscall.ENOTDIR, errno == syscall.EISDIR:
		return "name a file in a directory that is there"
	}
	return ""
}

// dialStep is what to do about a daemon that does not take a log.
func dialStep(err error) string {
	var refused *linelog.DaemonError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		return "append to it without --via"
	case !errors.As(err, &errno):
		return "name a file, or leave out --via"
	case strings.Contains(err.Error(), "dial unix") && (errno == syscall.ENOENT || errno == syscall.ECONNREFUSED):
		return "start a daemon with tidemark serve, name its socket RUN/io.systemd.journal, or leave out --via"
	}
	return openStep(err)
}

// writeStep is what to do about lines that were not written.
func writeStep(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room there, and append them again"
	case errors.Is(err, linelog.ErrLock):
		return "end who holds the lock, or wait longer with --lock-timeout, and append them again"
	}
	return ""
}

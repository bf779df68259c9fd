package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// runChild runs a command, and read on each of its streams at the same time: 0 is its
// standard output, 1 its standard error. When ctx is done it is told so with TERM. The
// error holds the command's exit code.
func runChild(ctx context.Context, argv []string, stdin io.Reader, read func(stream int, out *os.File) error) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = stdin
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var streams, ends [2]*os.File
	defer func() {
		for i := range streams {
			streams[i].Close() //nolint:errcheck // nil, or read to its end
			ends[i].Close()    //nolint:errcheck // nil, or closed already
		}
	}()
	for i := range streams {
		var err error
		if streams[i], ends[i], err = blockingPipe(); err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr = ends[0], ends[1]
	if err := cmd.Start(); err != nil {
		code := 126 // as shells say it
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return &exitError{code, unstarted(argv[0], err)}
	}
	for _, end := range ends {
		end.Close() //nolint:errcheck // the command has it
	}
	var failed [2]error
	ended := make(chan struct{})
	readAll := func(i int) {
		failed[i] = read(i, streams[i])
		_, _ = io.Copy(io.Discard, streams[i]) // the command need not know
	}
	go func() {
		defer close(ended)
		readAll(1)
	}()
	readAll(0)
	<-ended
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code := exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		return &exitError{code, errors.Join(failed[:]...)}
	}
	return errors.Join(append(failed[:], err)...)
}

// blockingPipe is os.Pipe without Go's poller, which has each write of the command wake a
// thread of ours.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// unstarted says why a command does not start, and what to do. The errors of
// package exec name it too, some of them twice: only the reason is taken.
func unstarted(name string, err error) error {
	var unfound *exec.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &unfound):
		err = unfound.Err
	case errors.As(err, &path):
		err = path.Err
	}
	step := "name a program that can be run"
	switch {
	case errors.Is(err, exec.ErrNotFound):
		step = "install it, or name it with its path"
	case errors.Is(err, fs.ErrNotExist):
		step = "name a program that is there, or check the interpreter in its first line"
	case errors.Is(err, fs.ErrPermission):
		step = "name a program that you may execute: see chmod +x"
	}
	return withStep(fmt.Errorf("run %s: %w", name, err), step)
}

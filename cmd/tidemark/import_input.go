package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// inputName is how people call an input.
func inputName(in *os.File) string {
	if in == os.Stdin || in.Name() == stdinPath {
		return "standard input"
	}
	return in.Name()
}

// exportWanted is what to do when an input is none.
const exportWanted = "name a file in the Journal Export Format, as journalctl -o export prints it"

// stdinPath opens what standard input is once more.
const stdinPath = "/dev/stdin"

// openInputs opens all inputs, or none.
func openInputs(names []string) (inputs []*os.File, err error) {
	for _, name := range names {
		in, err := openInput(name)
		if err != nil {
			for _, in := range inputs {
				_ = in.Close() // only opened
			}
			return nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// openInput opens a file, or standard input for "-".
func openInput(name string) (*os.File, error) {
	if name != "-" {
		return openPath(name)
	}
	// A pipe or terminal opened by its name can be told to stop a read.
	info, err := os.Stdin.Stat()
	if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 {
		if in, err := openPath(stdinPath); err == nil {
			return in, nil
		}
	}
	return os.Stdin, nil
}

// openPath opens a file. It does not wait for who writes to a FIFO, as open(2)
// does: no signal ends that. The first read waits instead.
func openPath(name string) (*os.File, error) {
	mode := os.O_RDONLY
	if info, err := os.Stat(name); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		mode |= syscall.O_NONBLOCK
	}
	in, err := os.OpenFile(name, mode, 0)
	if err != nil {
		return nil, withStep(err, readStep(err, exportWanted))
	}
	return in, nil
}

// inputReader reads an input. Once stopped returns an error it reads no more.
type inputReader struct {
	in      *os.File
	seen    *bool // becomes true when there was something to read
	stopped func() error
	begun   bool
}

func (r *inputReader) Read(p []byte) (n int, err error) {
	if !r.begun {
		r.begun = true
		err = awaitWriter(r.in)
	}
	if stop := r.stopped(); stop != nil {
		return 0, stop
	}
	if err != nil {
		return 0, err
	}
	n, err = r.in.Read(p)
	if n > 0 {
		*r.seen = true
	}
	return n, err
}

// awaitWriter returns when somebody has written to the FIFO in, or has opened and
// closed it. Before that a read ends at once, as at the end of the input. Who
// gave us standard input has waited already.
func awaitWriter(in *os.File) error {
	info, err := in.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 || in == os.Stdin || in.Name() == stdinPath {
		return err
	}
	raw, err := in.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

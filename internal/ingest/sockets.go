package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/config"
)

// Names of the sockets in Config.Dir, as journald's.
const (
	nativeSocket = config.NativeSocket
	syslogSocket = config.SyslogSocket
	stdoutSocket = config.StdoutSocket
)

const (
	// receiveBuffer is what systemd's socket units ask for, in bytes.
	receiveBuffer = 8 << 20
	// maxBacklog is how many connections may wait to be accepted; the kernel
	// bounds it by net.core.somaxconn.
	maxBacklog = 4096
)

// Errors of Open and ClearSocket about a socket's path.
var (
	// ErrInUse: somebody answers on the socket.
	ErrInUse = errors.New("another process answers on it: stop it or choose another run directory")
	// ErrPathTooLong: a Unix socket's path may have 107 bytes.
	ErrPathTooLong = errors.New("socket path longer than 107 bytes: choose a shorter run directory")
	// ErrNotSocket: something that is no socket is in the way.
	ErrNotSocket = errors.New("it exists and is no socket: remove it")
)

// bind makes the socket dir/name of the given kind, SOCK_DGRAM or SOCK_STREAM,
// for everyone to write to. A stale socket of that name is removed.
//
// A datagram socket is left blocking, and so out of Go's poller: see watch.
//
//	socket(AF_UNIX, kind|CLOEXEC[|NONBLOCK])  setsockopt…  bind  chmod 0666  [listen]
func bind(dir, name string, kind int) (f *os.File, err error) {
	path := filepath.Join(dir, name)
	if err := ClearSocket(path, kind); err != nil {
		return nil, err
	}
	flags := unix.SOCK_CLOEXEC
	if kind != unix.SOCK_DGRAM {
		flags |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(unix.AF_UNIX, kind|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("bind %s: socket: %w", path, err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd) //nolint:errcheck // the error at hand says more
		}
	}()
	if err := setOptions(fd, kind); err != nil {
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if name != nativeSocket {
		passRights(fd, false) //nolint:errcheck // else they are closed
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, maxBacklog); err != nil {
			return nil, fmt.Errorf("listen %s: %w", path, err)
		}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// setOptions asks for what identifies the sender.
func setOptions(fd, kind int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return fmt.Errorf("set SO_PASSCRED: %w", err)
	}
	if selinuxEnabled() {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSSEC, 1); err != nil {
			return fmt.Errorf("set SO_PASSSEC: %w", err)
		}
	}
	if kind != unix.SOCK_DGRAM {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1); err != nil {
		return fmt.Errorf("set SO_TIMESTAMP: %w", err)
	}
	// As much as we get: the kernel cuts it, or allows more to root.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) //nolint:errcheck // works with less too
	}
	return nil
}

// passRights says whether senders may pass descriptors to the socket; if not they
// get EPERM. Kernels before 6.16 cannot refuse them.
func passRights(fd int, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value)
}

// selinuxEnabled says whether the kernel labels processes for SELinux. Labels
// of other security modules are none of journald's fields.
func selinuxEnabled() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// Check reports what would keep Open from binding its sockets in dir, as Open
// does, and removes stale ones. It is for who wants to know before anything else
// begins.
func Check(dir string) error {
	for _, s := range []struct {
		name string
		kind int
	}{{nativeSocket, unix.SOCK_DGRAM}, {syslogSocket, unix.SOCK_DGRAM}, {stdoutSocket, unix.SOCK_STREAM}} {
		if err := ClearSocket(filepath.Join(dir, s.name), s.kind); err != nil {
			return err
		}
	}
	return nil
}

// ClearSocket makes sure that a socket of the given kind, SOCK_DGRAM or
// SOCK_STREAM, can be bound at path: it removes one that nobody is behind. Else
// it returns ErrInUse, ErrNotSocket or ErrPathTooLong, wrapped. It waits for
// nobody, and does not keep others from binding there afterwards.
func ClearSocket(path string, kind int) error {
	if len(path) > config.MaxSocketPath {
		return fmt.Errorf("bind %s: %w", path, ErrPathTooLong)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("bind %s: %w", path, ErrNotSocket)
	}
	used, err := answers(path, kind)
	if err != nil {
		return fmt.Errorf("probe %s: %w", path, err)
	}
	if used {
		return fmt.Errorf("bind %s: %w", path, ErrInUse)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// answers probes whether a socket is bound at path. A connection that cannot be
// made for another reason than that nobody is there counts as an answer.
func answers(path string, kind int) (bool, error) {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT), nil
}

// unlink removes the socket that f is bound to, unless somebody else has put
// another one there.
func unlink(f *os.File, bound fs.FileInfo) {
	if now, err := os.Lstat(f.Name()); err == nil && bound != nil && os.SameFile(now, bound) {
		os.Remove(f.Name()) //nolint:errcheck // a stale socket is removed at the next start
	}
}

// queueLength is the most datagrams that a socket may hold.
func queueLength() uint64 {
	const kernelDefault = 10
	b, err := os.ReadFile("/proc/sys/net/unix/max_dgram_qlen")
	if err != nil {
		return kernelDefault
	}
	n, err := strconv.ParseUint(string(trimSpace(b)), 10, 32)
	if err != nil {
		return kernelDefault
	}
	return n
}

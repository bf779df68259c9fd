package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/internal/control"
	"github.com/tidemark-log/tidemark/internal/ingest"
)

// listen makes the sockets of the doors. Who connects waits until they are
// served.
func (d *daemon) listen() (err error) {
	d.varlink, err = listenUnix(filepath.Join(d.run, config.ControlSocket), 0o666)
	if err != nil {
		return err
	}
	unix, err := listenUnix(filepath.Join(d.run, config.HTTPSocket), 0o660)
	if err != nil {
		return err
	}
	d.http = append(d.http, unix)
	for _, addr := range d.config().HTTP {
		l, err := listenTCP(addr)
		if err != nil {
			return err
		}
		d.http = append(d.http, l)
	}
	d.endpoints = []control.Endpoint{
		{Protocol: "native", Address: filepath.Join(d.run, config.NativeSocket)},
		{Protocol: "syslog", Address: filepath.Join(d.run, config.SyslogSocket)},
		{Protocol: "stdout", Address: filepath.Join(d.run, config.StdoutSocket)},
		{Protocol: "varlink", Address: filepath.Join(d.run, config.ControlSocket)},
		{Protocol: "http", Address: filepath.Join(d.run, config.HTTPSocket)},
	}
	for _, l := range d.http[1:] {
		d.endpoints = append(d.endpoints, control.Endpoint{Protocol: "http", Address: "http://" + l.Addr().String() + "/"})
	}
	return nil
}

// listenUnix listens on a socket file. One that nobody answers on any more is
// removed first; it is removed again when the listener is closed.
func listenUnix(path string, mode os.FileMode) (*net.UnixListener, error) {
	if err := ingest.ClearSocket(path, syscall.SOCK_STREAM); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, listenError(path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close() //nolint:errcheck // the error at hand says more
		return nil, err
	}
	return l, nil
}

// CheckHTTP reports what is wrong with an address of HTTP=: it must be one of
// loopback. Others would need a token or client certificates, without which
// everyone on the network could write.
func CheckHTTP(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen on %s: want ADDRESS:PORT such as 127.0.0.1:19531, or off", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("listen on %s: %q is no port: want a number from 0 to 65535, 0 for any that is free", addr, port)
	}
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen on %s: only loopback addresses are served yet: use 127.0.0.1 or the Unix socket, or put a proxy that checks its clients in front", addr)
	}
	return nil
}

func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError(addr, err)
	}
	return l, nil
}

// listenError says what to do about an address that is taken.
func listenError(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: the address is in use: choose another with --http ADDRESS:PORT, or --http off", addr)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("listen on %s: %w", addr, err)
}

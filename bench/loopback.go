package main

import "golang.org/x/sys/unix"

// interfaceUp switches a network device on. fd is any socket.
func interfaceUp(fd int, name string) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

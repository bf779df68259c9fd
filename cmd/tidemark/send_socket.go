package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// sender sends entries to a native socket.
type sender struct {
	socket      string
	fields      []entry.Field // of every entry
	level       int           // PRIORITY, -1: among the fields
	levelPrefix bool
	acks        *acker // nil: nothing is promised

	mu       sync.Mutex // the streams of a command are read at once
	conn     *net.UnixConn
	datagram []byte
}

// sendBuffer is what sd_journal_send asks for, in bytes; the kernel gives less.
const sendBuffer = 8 << 20

// dial connects to the daemon.
func (s *sender) dial() error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return unreachable(s.socket, err)
	}
	_ = conn.SetWriteBuffer(sendBuffer)
	s.conn = conn
	return nil
}

func (s *sender) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.acks != nil {
		_ = s.acks.client.Close()
	}
}

// send sends one entry: message, a field or nil, and those of every entry. It
// waits while the daemon's queue is full.
func (s *sender) send(message entry.Field, level int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acks != nil {
		return s.acks.add(s.all(message, level))
	}
	s.datagram = s.datagram[:0]
	if message != nil {
		s.datagram = entry.AppendNative(s.datagram, []entry.Field{message})
	}
	if level >= 0 {
		s.datagram = append(s.datagram, "PRIORITY="...)
		s.datagram = strconv.AppendInt(s.datagram, int64(level), 10)
		s.datagram = append(s.datagram, '\n')
	}
	s.datagram = entry.AppendNative(s.datagram, s.fields)
	err := s.put()
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNRESET) {
		// The daemon has been started anew.
		s.close()
		if err = s.dial(); err == nil {
			err = s.put()
		}
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// all are the fields of an entry, as send puts them into a datagram.
func (s *sender) all(message entry.Field, level int) []entry.Field {
	fields := make([]entry.Field, 0, len(s.fields)+2)
	if message != nil {
		fields = append(fields, message)
	}
	if level >= 0 {
		fields = append(fields, entry.Field("PRIORITY="+strconv.Itoa(level)))
	}
	return append(fields, s.fields...)
}

// put sends the datagram, in a sealed memfd when it is too large for one.
func (s *sender) put() error {
	_, err := s.conn.Write(s.datagram)
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	fd, err := sealedMemfd(s.datagram)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// net refuses control messages on a connected datagram socket.
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(socket uintptr) bool {
		sent = unix.Sendmsg(int(socket), nil, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(sent, err)
}

// sealedMemfd returns a memory file that holds data and cannot be changed any
// more. The caller closes it.
func sealedMemfd(data []byte) (fd int, err error) {
	fd, err = unix.MemfdCreate("tidemark-send", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	for len(data) > 0 && err == nil {
		var n int
		if n, err = unix.Write(fd, data); errors.Is(err, unix.EINTR) {
			err = nil
			continue
		}
		data = data[max(n, 0):]
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("write memory file: %w", err), unix.Close(fd))
	}
	return fd, nil
}

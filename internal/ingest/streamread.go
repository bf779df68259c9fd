package ingest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// streamMuch is the size of a read in bytes behind which the next one follows at
// once.
const streamMuch = 4 << 10

// gather lets lines gather, for gatherTime, when this stream alone floods: what a
// read costs hardly depends on how many lines it brings. Of many streams that
// flood, each gathers while the others have their turns. A barrier, and the end of
// the stream, do not wait for it.
func (s *stream) gather() {
	alone := s.l.latest.Swap(s) == s
	if before := s.before; !alone || s.n >= streamMuch || s.now-before > s.l.in.cfg.gather {
		s.before = s.now
		return
	}
	s.gate.hint.pause(s.l.in.cfg.gather)
	s.before, _ = s.l.in.now()
}

// closeFiles closes the connection.
func (s *stream) closeFiles() {
	s.bell.close()
	s.file.Close() //nolint:errcheck // nothing was written to it
}

// queued is how many bytes the kernel holds for this stream.
func (s *stream) queued() int {
	n := 0
	control1(s.raw, func(fd int) (err error) { //nolint:errcheck // a closed socket holds nothing
		n, err = unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err
	})
	return n
}

// receive reads once: n bytes behind the unfinished line in buf, 0 at the end of
// the stream, -1 if there is nothing and park is not set, noTurn if it has to
// wait for a buffer.
//
//	recvmsg(fd, msg, MSG_DONTWAIT|MSG_CMSG_CLOEXEC) = n or EAGAIN
func (s *stream) receive(park bool) error {
	s.park, s.n, s.errno = park, -1, nil
	if err := s.bell.wait(s.try); err != nil {
		s.returnBuffer()
		return err
	}
	return s.errno
}

// attempt is one recvmsg. It returns false to be called again when the socket is
// readable.
func (s *stream) attempt() bool {
	if s.buf == nil && !s.takeBuffer() {
		s.n = noTurn
		return true
	}
	b := s.buf
	kept := copy(b.data, s.rest)
	space := b.data[kept:min(kept+streamRead, len(b.data))]
	b.iov.Base = &space[0]
	b.iov.SetLen(len(space))
	b.hdr = unix.Msghdr{Iov: &b.iov, Control: &b.ctrl.b[0]}
	b.hdr.SetIovlen(1)
	b.hdr.SetControllen(controlSize)
	if err := s.raw.Control(s.recv); err != nil {
		s.errno = err
		return true
	}
	if s.n < 0 && s.errno == nil && s.park {
		s.returnBuffer()
		return false
	}
	return true
}

// recvmsg is recvmsg(2) that never waits.
func (s *stream) recvmsg(fd uintptr) {
	b := s.buf
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&b.hdr)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			s.n = int(n)
			b.msg.clear()
			b.msg.control(b.ctrl.b[:b.hdr.Controllen])
		case unix.EINTR:
			continue
		case unix.EAGAIN: // n stays -1
		case unix.ECONNRESET:
			s.n = 0
			b.msg.clear()
		default:
			s.errno = errno
		}
		return
	}
}

// takeBuffer gets a buffer if a turn is free.
func (s *stream) takeBuffer() bool {
	if !s.turn && !s.l.tryTurn() {
		return false
	}
	s.turn = true
	s.buf = s.l.pool.Get().(*streamBuffer)
	return true
}

// returnBuffer gives the buffer and the turn to other streams.
func (s *stream) returnBuffer() {
	if s.buf != nil {
		s.buf.msg.close(s.l.in.closer) // on every path
		s.l.pool.Put(s.buf)
		s.buf = nil
	}
	if s.turn {
		s.l.endTurn()
		s.turn = false
	}
}

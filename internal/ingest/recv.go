package ingest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// recvSlots is how many datagrams one recvmmsg(2) may bring. In a flood it
	// brings as many: the more, the fewer times a blocked sender is woken for the
	// room of one message only, and the larger what is written at once.
	recvSlots = 256
	// recvPiece is how many one call brings at most.
	recvPiece = 64
	// slotSize is the part of a slot that stays resident. Longer datagrams go on
	// in the slot's overflow area, whose pages are given back after use.
	slotSize = 16 << 10
	// slotStride is the distance of slots. Were it a power of two, the beginnings
	// of all slots, which is all that most messages fill, would share a few lines
	// of the processor's caches.
	slotStride = slotSize + 5*64
	// minOverflow and maxOverflow bound the overflow area of a slot, in bytes of
	// address space. The size in between is the largest datagram that a sender
	// without privileges can make: twice net.core.wmem_max.
	minOverflow = 256 << 10
	maxOverflow = 128 << 20
	// wmemMax is Linux's default net.core.wmem_max, for when it cannot be read.
	wmemMax = 212992
)

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// receiver reads datagrams of one socket in batches.
type receiver struct {
	file *os.File
	raw  syscall.RawConn
	bell *watch           // wakes us when there is something to read
	try  func() bool      // r.attempt, bound once
	recv func(fd uintptr) // r.recvmmsg, bound once

	*slots // of the last batch

	errno syscall.Errno // of the last attempt; EAGAIN: nothing there
	ended error         // the socket was closed
	park  bool          // wait when there is nothing
	empty bool          // the queue was empty after the last batch
	pidfd bool          // SO_PASSPIDFD is on
}

// slots are the buffers of a batch.
//
// Slot i is slotSize bytes of heads (at i*slotStride), then stride-slotSize bytes of over. In over
// there are slotSize free bytes before each overflow area: the head of a long
// datagram is copied there, so that every datagram is seen in one piece.
type slots struct {
	heads  []byte // recvSlots * slotStride, mapped
	over   []byte // recvSlots * stride, mapped and mostly untouched
	stride int

	hdrs [recvSlots]mmsghdr
	iovs [recvSlots][2]unix.Iovec
	ctrl [recvSlots]control

	n int // messages of the batch
}

// newReceiver takes over file, a datagram socket.
func newReceiver(file *os.File) (*receiver, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", file.Name(), err)
	}
	r := &receiver{file: file, raw: raw}
	r.try, r.recv = r.attempt, r.recvmmsg
	err = control1(raw, func(fd int) (err error) {
		r.bell, err = newWatch(fd, file.Name())
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.slots, err = newSlots(); err != nil {
		r.bell.close()
		return nil, err
	}
	return r, nil
}

func newSlots() (*slots, error) {
	s := &slots{stride: slotSize + overflowSize()}
	const prot, anon = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	var err error
	if s.heads, err = unix.Mmap(-1, 0, recvSlots*slotStride, prot, anon); err != nil {
		return nil, fmt.Errorf("map receive buffers: %w", err)
	}
	if s.over, err = unix.Mmap(-1, 0, recvSlots*s.stride, prot, anon|unix.MAP_NORESERVE); err != nil {
		s.release()
		return nil, fmt.Errorf("map receive buffers: %w", err)
	}
	// One long datagram must not make 2 MiB of zeroes resident.
	unix.Madvise(s.over, unix.MADV_NOHUGEPAGE) //nolint:errcheck // only saves memory
	for i := range recvSlots {
		s.iovs[i][0].Base = &s.heads[i*slotStride]
		s.iovs[i][0].SetLen(slotSize)
		s.iovs[i][1].Base = &s.over[i*s.stride+slotSize]
		s.iovs[i][1].SetLen(s.stride - slotSize)
		h := &s.hdrs[i].hdr
		h.Iov = &s.iovs[i][0]
		h.SetIovlen(2)
		h.Control = &s.ctrl[i].b[0]
	}
	s.n = recvSlots
	s.reset()
	return s, nil
}

// overflowSize is the room of one slot behind its first slotSize bytes.
func overflowSize() int {
	wmem := wmemMax
	if b, err := os.ReadFile("/proc/sys/net/core/wmem_max"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			wmem = n
		}
	}
	size := max(minOverflow, 2*wmem)
	if limit := maxOverflow; size > limit {
		size = limit
	}
	if strconv.IntSize == 32 {
		size = minOverflow
	}
	page := os.Getpagesize()
	return (size + page - 1) / page * page
}

// release gives the buffers back. s may be nil.
func (s *slots) release() {
	if s == nil {
		return
	}
	for _, m := range [...]*[]byte{&s.heads, &s.over} {
		if *m != nil {
			unix.Munmap(*m) //nolint:errcheck // cannot fail for a mapping of ours
			*m = nil
		}
	}
}

// reset makes the headers of the last batch ready for the next one.
func (s *slots) reset() {
	for i := range s.n {
		h := &s.hdrs[i]
		h.hdr.SetControllen(controlSize)
		h.hdr.Flags = 0
		h.n = 0
	}
	s.n = 0
}

// receive fills the next batch. If park is set it waits until there is at least
// one message, a deadline (os.ErrDeadlineExceeded) or the end of the socket;
// else the batch may be empty. The batch stays valid until the next call.
//
//	recvmmsg(fd, vec, 64, MSG_DONTWAIT|MSG_CMSG_CLOEXEC, NULL) = n or EAGAIN, up to four times
func (r *receiver) receive(park bool) error {
	r.reset()
	r.park, r.empty = park, false
	if err := r.bell.wait(r.try); err != nil {
		return err
	}
	return r.failure()
}

// passRights says whether the kernel may pass descriptors. It may be called
// concurrently.
func (r *receiver) passRights(on bool) {
	control1(r.raw, func(fd int) error { return passRights(fd, on) }) //nolint:errcheck // kernels before 6.16 cannot
}

// refuse lets the kernel refuse what is sent from now on, with EPIPE; what it
// holds can still be read.
func (r *receiver) refuse() {
	control1(r.raw, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }) //nolint:errcheck // a closed socket refuses too
}

// more adds to the batch what there is, without waiting.
func (r *receiver) more() error {
	r.ended = r.raw.Control(r.recv)
	return r.failure()
}

// failure is the error of the last recvmmsg.
func (r *receiver) failure() error {
	switch {
	case r.ended != nil:
		return r.ended
	case r.errno != 0 && r.errno != unix.EAGAIN:
		return fmt.Errorf("recvmmsg %s: %w", r.file.Name(), r.errno)
	}
	return nil
}

// attempt is one recvmmsg. It returns false to be called again when the socket
// is readable.
func (r *receiver) attempt() bool {
	r.ended = r.raw.Control(r.recv)
	return r.ended != nil || r.errno != unix.EAGAIN || !r.park
}

// recvmmsg adds to the batch. A call cannot block, but takes some 400 µs for a
// full batch; the runtime is not told of it, since it would take the processor
// away for that long, start another thread and have us wait for a processor. So
// that nobody waits for us that long, a garbage collection for one, it is done in
// pieces, between which the runtime may interrupt.
func (r *receiver) recvmmsg(fd uintptr) {
	r.errno, r.empty = 0, false
	for r.n < recvSlots {
		want := min(recvPiece, recvSlots-r.n)
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.hdrs[r.n])),
			uintptr(want), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			r.empty = true
			if r.n == 0 {
				r.errno = errno
			}
			return
		case errno != 0:
			r.errno = errno
			return
		}
		r.n += int(n)
		// Fewer than wanted means that the attempt for one more found nothing.
		if r.empty = int(n) < want; r.empty {
			return
		}
	}
}

// message returns message i of the batch. Its descriptors are the caller's to
// close.
func (s *slots) message(i int, m *message) {
	h := &s.hdrs[i]
	m.clear()
	m.control(s.ctrl[i].b[:h.hdr.Controllen])
	m.truncated = h.hdr.Flags&unix.MSG_TRUNC != 0
	m.controlTruncated = h.hdr.Flags&unix.MSG_CTRUNC != 0
	n := int(h.n)
	if n <= slotSize {
		m.data = s.heads[i*slotStride : i*slotStride+n]
		return
	}
	at := i * s.stride
	copy(s.over[at:at+slotSize], s.heads[i*slotStride:i*slotStride+slotSize])
	m.data = s.over[at : at+n]
}

// shrink gives back the pages that long datagrams of this batch have touched.
func (s *slots) shrink() {
	for i := range s.n {
		if n := int(s.hdrs[i].n); n > slotSize {
			at := i * s.stride
			page := os.Getpagesize()
			end := min((at+n+page-1)/page*page, len(s.over))
			unix.Madvise(s.over[at/page*page:end], unix.MADV_DONTNEED) //nolint:errcheck // only saves memory
		}
	}
}

// passPidfd asks the kernel for a pidfd of the sender with every message read
// from now on, or not any more. Kernels before 6.5 cannot.
func (r *receiver) passPidfd(on bool) {
	if r.pidfd == on {
		return
	}
	value := 0
	if on {
		value = 1
	}
	err := control1(r.raw, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, value)
	})
	r.pidfd = on && err == nil
}

// control1 calls f with the descriptor of raw.
func control1(raw syscall.RawConn, f func(fd int) error) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// isTimeout reports whether err only means that a deadline has woken a reader.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

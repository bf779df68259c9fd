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
//
// Slot i is slotSize bytes of slots (at i*slotStride), then stride-slotSize bytes of over. In over
// there are slotSize free bytes before each overflow area: the head of a long
// datagram is copied there, so that every datagram is seen in one piece.
type receiver struct {
	file *os.File
	raw  syscall.RawConn
	bell *watch           // wakes us when there is something to read
	try  func() bool      // r.attempt, bound once
	recv func(fd uintptr) // r.recvmmsg, bound once

	slots  []byte // recvSlots * slotStride, mapped
	over   []byte // recvSlots * stride, mapped and mostly untouched
	stride int

	hdrs [recvSlots]mmsghdr
	iovs [recvSlots][2]unix.Iovec
	ctrl [recvSlots]control

	n     int           // messages of the last batch
	errno syscall.Errno // of the last attempt; EAGAIN: nothing there
	ended error         // the socket was closed
	park  bool          // wait when there is nothing
	empty bool          // the queue was empty after the last batch
	pidfd bool          // SO_PASSPIDFD is on
}

// newReceiver takes over file, a datagram socket.
func newReceiver(file *os.File) (*receiver, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", file.Name(), err)
	}
	r := &receiver{file: file, raw: raw, stride: slotSize + overflowSize()}
	r.try, r.recv = r.attempt, r.recvmmsg
	err = control1(raw, func(fd int) (err error) {
		r.bell, err = newWatch(fd, file.Name())
		return err
	})
	if err != nil {
		return nil, err
	}
	const prot, anon = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if r.slots, err = unix.Mmap(-1, 0, recvSlots*slotStride, prot, anon); err != nil {
		r.release()
		return nil, fmt.Errorf("map receive buffers: %w", err)
	}
	if r.over, err = unix.Mmap(-1, 0, recvSlots*r.stride, prot, anon|unix.MAP_NORESERVE); err != nil {
		r.release()
		return nil, fmt.Errorf("map receive buffers: %w", err)
	}
	// One long datagram must not make 2 MiB of zeroes resident.
	unix.Madvise(r.over, unix.MADV_NOHUGEPAGE) //nolint:errcheck // only saves memory
	for i := range recvSlots {
		r.iovs[i][0].Base = &r.slots[i*slotStride]
		r.iovs[i][0].SetLen(slotSize)
		r.iovs[i][1].Base = &r.over[i*r.stride+slotSize]
		r.iovs[i][1].SetLen(r.stride - slotSize)
		h := &r.hdrs[i].hdr
		h.Iov = &r.iovs[i][0]
		h.SetIovlen(2)
		h.Control = &r.ctrl[i].b[0]
	}
	r.n = recvSlots
	r.reset()
	return r, nil
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

// release gives the buffers back. The socket is its owner's to close.
func (r *receiver) release() {
	r.bell.close()
	for _, m := range [...]*[]byte{&r.slots, &r.over} {
		if *m != nil {
			unix.Munmap(*m) //nolint:errcheck // cannot fail for a mapping of ours
			*m = nil
		}
	}
}

// reset makes the headers of the last batch ready for the next one.
func (r *receiver) reset() {
	for i := range r.n {
		h := &r.hdrs[i]
		h.hdr.SetControllen(controlSize)
		h.hdr.Flags = 0
		h.n = 0
	}
	r.n = 0
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
func (r *receiver) message(i int, m *message) {
	h := &r.hdrs[i]
	m.clear()
	m.control(r.ctrl[i].b[:h.hdr.Controllen])
	m.truncated = h.hdr.Flags&unix.MSG_TRUNC != 0
	m.controlTruncated = h.hdr.Flags&unix.MSG_CTRUNC != 0
	n := int(h.n)
	if n <= slotSize {
		m.data = r.slots[i*slotStride : i*slotStride+n]
		return
	}
	at := i * r.stride
	copy(r.over[at:at+slotSize], r.slots[i*slotStride:i*slotStride+slotSize])
	m.data = r.over[at : at+n]
}

// shrink gives back the pages that long datagrams of this batch have touched.
func (r *receiver) shrink() {
	for i := range r.n {
		if n := int(r.hdrs[i].n); n > slotSize {
			at := i * r.stride
			page := os.Getpagesize()
			end := min((at+n+page-1)/page*page, len(r.over))
			unix.Madvise(r.over[at/page*page:end], unix.MADV_DONTNEED) //nolint:errcheck // only saves memory
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

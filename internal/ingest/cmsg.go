package ingest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlSize has room for a time stamp, credentials, a security label of
// NAME_MAX bytes as journald allows, a pidfd, and a few descriptors. More
// descriptors than fit are closed by the kernel and the message is marked.
const controlSize = 512

// maxFDs is the most descriptors that fit into controlSize.
const maxFDs = controlSize / 4

// control is a buffer for control messages, aligned as they are.
type control struct {
	_ [0]unix.Cmsghdr
	b [controlSize]byte
}

// credentials are who the kernel says sent a message.
type credentials struct {
	pid      int32
	uid, gid uint32
}

// message is one datagram, or what one read of a stream has brought, and what
// the kernel told about it.
type message struct {
	data []byte
	credentials
	known bool   // there were credentials
	stamp uint64 // SO_TIMESTAMP, µs since 1970; 0: none
	label []byte // SO_PASSSEC, without trailing NULs
	pidfd int    // -1: none; owned
	fds   []int  // in store; owned
	store [maxFDs]int

	truncated        bool // MSG_TRUNC
	controlTruncated bool // MSG_CTRUNC
}

func (m *message) clear() {
	m.data, m.credentials, m.known, m.stamp, m.label = nil, credentials{}, false, 0, nil
	m.pidfd, m.fds = -1, m.store[:0]
	m.truncated, m.controlTruncated = false, false
}

// close closes every descriptor that is still in m, those that were passed by c.
func (m *message) close(c *closer) {
	for _, fd := range m.fds {
		c.close(fd)
	}
	m.fds = m.store[:0]
	if m.pidfd >= 0 {
		unix.Close(m.pidfd) //nolint:errcheck // nothing was written to it
		m.pidfd = -1
	}
}

// takePidfd hands the pidfd over to the caller; -1: none.
func (m *message) takePidfd() int {
	fd := m.pidfd
	m.pidfd = -1
	return fd
}

const (
	cmsgHeader  = int(unsafe.Sizeof(unix.Cmsghdr{}))
	cmsgAlign   = int(unsafe.Sizeof(uintptr(0)))
	timevalSize = int(unsafe.Sizeof(unix.Timeval{}))
)

// control reads the control messages that the kernel has written to b. b must be
// aligned as a Cmsghdr.
func (m *message) control(b []byte) {
	for len(b) >= cmsgHeader {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < cmsgHeader || size > len(b) {
			return
		}
		if h.Level == unix.SOL_SOCKET {
			m.controlMessage(int(h.Type), b[cmsgHeader:size])
		}
		b = b[min((size+cmsgAlign-1)/cmsgAlign*cmsgAlign, len(b)):]
	}
}

func (m *message) controlMessage(kind int, data []byte) {
	switch kind {
	case unix.SCM_CREDENTIALS:
		if len(data) == unix.SizeofUcred {
			c := (*unix.Ucred)(unsafe.Pointer(&data[0]))
			m.credentials = credentials{c.Pid, c.Uid, c.Gid}
			m.known = true
		}
	case unix.SCM_TIMESTAMP:
		if len(data) >= timevalSize {
			t := (*unix.Timeval)(unsafe.Pointer(&data[0]))
			if t.Sec >= 0 {
				m.stamp = uint64(t.Sec)*1e6 + uint64(t.Usec)
			}
		}
	case unix.SCM_SECURITY:
		for len(data) > 0 && data[len(data)-1] == 0 {
			data = data[:len(data)-1]
		}
		m.label = data
	case unix.SCM_PIDFD:
		if len(data) >= 4 {
			if fd := int(*(*int32)(unsafe.Pointer(&data[0]))); fd >= 0 {
				if m.pidfd >= 0 {
					unix.Close(m.pidfd) //nolint:errcheck // nothing was written to it
				}
				m.pidfd = fd
			}
		}
	case unix.SCM_RIGHTS:
		for ; len(data) >= 4; data = data[4:] {
			m.fds = append(m.fds, int(*(*int32)(unsafe.Pointer(&data[0]))))
		}
	}
}

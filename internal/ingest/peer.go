package ingest

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/entry"
)

// Ages of what is known about a sender, as journald's.
const (
	// refreshAge: older knowledge is read again; what can no longer be read
	// stays.
	refreshAge = time.Second
	// discardAge: older knowledge is forgotten before it is read again.
	discardAge = 5 * time.Second
)

const (
	// maxPeers and minPeers bound the cache of one socket. Each live entry holds a
	// pidfd, so it is also bounded by the descriptors that the process may have.
	maxPeers = 4096
	minPeers = 64
	// peerShare is the part of these descriptors that one socket may hold.
	peerShare = 8
	// shortGap is how long death may have gone unnoticed for a message of that
	// time to be the dead process's when the kernel sent no pidfd with it. 32,768
	// ids do not come round in that time; root could see to it, but root can also
	// send any credentials.
	shortGap = 75 * time.Millisecond
	// evictSample is how many entries compete to be the oldest when the cache is
	// full.
	evictSample = 8
)

// peerKey is what the kernel says with each message.
type peerKey = credentials

// peerState is how far a peer can be trusted.
type peerState uint8

const (
	peerLive peerState = iota // its pidfd is watched
	peerDead                  // it has died; messages from before are still its own
	peerBare                  // nothing but the credentials is known
)

// peer is a sender and the fields that its messages get.
//
// A peer is the process that had the pid when its pidfd was opened, and no later
// one: the pidfd turns readable when the process dies, which is looked at once
// for each batch of messages, after they were received.
type peer struct {
	peerKey
	state peerState
	// fields are _PID to _SYSTEMD_INVOCATION_ID and the unit's extra fields, ready
	// to be appended. They are never changed, only replaced.
	fields []entry.Field
	facts  facts

	pidfd  int           // -1: none
	inode  uint64        // of pidfd in pidfs; 0: unknown
	begun  uint64        // start of the process, realtime µs at refresh
	readAt time.Duration // when facts were read

	aliveAt uint64 // peerDead: realtime µs at which it was seen alive last
	until   uint64 // peerDead, peerBare: messages stamped later are not about this peer
	gap     time.Duration
}

// peers is the cache of one source and used by its goroutine only.
type peers struct {
	proc   *procReader
	counts *counts
	byKey  map[peerKey]*peer
	byFD   map[int32]*peer
	epoll  int // -1: none
	events [64]unix.EpollEvent
	ended  []*peer // dead and bare ones, some of them forgotten since
	last   *peer   // the one returned last
	limit  int
	pidfs  bool // the kernel gives each process's pidfd an inode of its own (6.9)

	now      time.Duration // of this batch, monotonic
	real     uint64        // of this batch, realtime µs
	prevReal uint64        // of the batch before: all live peers were alive then
	gap      time.Duration // between the two
}

func newPeers(proc *procReader, c *counts) *peers {
	ps := &peers{proc: proc, counts: c, byKey: make(map[peerKey]*peer), byFD: make(map[int32]*peer), epoll: -1}
	var files unix.Rlimit
	ps.limit = maxPeers
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		ps.limit = int(max(minPeers, min(maxPeers, files.Cur/peerShare)))
	}
	if fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		ps.epoll = fd
	}
	if fd, err := unix.PidfdOpen(unix.Getpid(), 0); err == nil {
		var st unix.Statfs_t
		ps.pidfs = unix.Fstatfs(fd, &st) == nil && st.Type == unix.PID_FS_MAGIC
		unix.Close(fd) //nolint:errcheck // nothing was written to it
	}
	return ps
}

// close closes all pidfds.
func (ps *peers) close() {
	for _, p := range ps.byKey {
		ps.forget(p)
	}
	if ps.epoll >= 0 {
		unix.Close(ps.epoll) //nolint:errcheck // nothing was written to it
		ps.epoll = -1
	}
}

// tick begins a batch that has just been received: it notices who has died. One
// system call.
func (ps *peers) tick(now time.Duration, wall uint64) {
	ps.gap, ps.prevReal = now-ps.now, ps.real
	if d := int64(wall-ps.real) - ps.gap.Microseconds(); d > 1000 || d < -1000 {
		// The clock was set: time stamps from before say nothing.
		ps.prevReal = 0
	}
	ps.now, ps.real = now, wall
	if len(ps.byFD) == 0 {
		return
	}
	for {
		n, err := unix.EpollWait(ps.epoll, ps.events[:], 0)
		if err == unix.EINTR {
			continue
		}
		for _, e := range ps.events[:max(n, 0)] {
			if p := ps.byFD[e.Fd]; p != nil {
				ps.died(p)
			}
		}
		if n < len(ps.events) {
			return
		}
	}
}

// died ends the trust in p for what is stamped later than now.
func (ps *peers) died(p *peer) {
	ps.closePidfd(p)
	p.state, p.aliveAt, p.until, p.gap = peerDead, ps.prevReal, ps.real, ps.gap
	ps.ended = append(ps.ended, p)
}

// drained is called when the queue was found empty: what the dead have sent has
// been read.
func (ps *peers) drained() {
	kept := ps.ended[:0]
	for _, p := range ps.ended {
		// Who died since the batch was received may have sent something since.
		if p.until >= ps.real {
			kept = append(kept, p)
		} else if ps.byKey[p.peerKey] == p {
			ps.forget(p)
		}
	}
	clear(ps.ended[len(kept):])
	ps.ended = kept
}

func (ps *peers) closePidfd(p *peer) {
	if p.pidfd >= 0 {
		delete(ps.byFD, int32(p.pidfd))
		unix.Close(p.pidfd) //nolint:errcheck // also ends the watch; nothing was written
		p.pidfd = -1
	}
}

func (ps *peers) forget(p *peer) {
	ps.closePidfd(p)
	delete(ps.byKey, p.peerKey)
	if ps.last == p {
		ps.last = nil
	}
}

// get returns the sender of m; nil if the kernel did not say who it is. The
// peer's fields may be used until the batch ends.
func (ps *peers) get(m *message) *peer {
	if !m.known {
		return nil
	}
	p := ps.last
	if p == nil || p.peerKey != m.credentials {
		p = ps.byKey[m.credentials]
	}
	if p != nil && !ps.speaks(p, m) {
		ps.forget(p)
		p = nil
	}
	switch {
	case p == nil:
		p = ps.lookUp(m)
	case p.state == peerLive && (ps.now-p.readAt > refreshAge || len(m.label) > 0 && string(m.label) != p.facts.label):
		ps.refresh(p, m)
	}
	ps.last = p
	return p
}

// speaks reports whether m was sent by p, as far as can be known. A time stamp
// of 0 is now.
func (ps *peers) speaks(p *peer, m *message) bool {
	stamp := m.stamp
	if stamp == 0 {
		stamp = ps.real
	}
	switch p.state {
	case peerLive:
		// It is alive, so the pid has not changed hands since it began. The clock
		// may have been set since then.
		return p.begun <= stamp || ps.proc.realtime(p.facts.start) <= stamp
	case peerBare:
		return stamp <= p.until
	case peerDead:
	}
	switch {
	case stamp <= p.aliveAt:
		return true
	case stamp > p.until:
		return false
	case m.pidfd >= 0 && p.inode != 0:
		return ps.inodeOf(m.pidfd) == p.inode
	case p.gap > shortGap:
		return false
	}
	start, ok := ps.proc.start(int(p.pid))
	return !ok || start == p.facts.start || ps.proc.realtime(start) > stamp
}

func (ps *peers) inodeOf(pidfd int) uint64 {
	var st unix.Stat_t
	if !ps.pidfs || unix.Fstat(pidfd, &st) != nil {
		return 0
	}
	return st.Ino
}

// lookUp makes a peer of the sender of m. If the process is gone, or the pid
// belongs to a younger one by now, nothing but the credentials is known.
func (ps *peers) lookUp(m *message) *peer {
	ps.counts.add(peerLookups, 1)
	p := &peer{peerKey: m.credentials, pidfd: -1, state: peerBare, until: ps.real}
	p.facts = unknownFacts()
	p.facts.label = string(m.label)
	if len(ps.byKey) >= ps.limit {
		ps.evict()
	}
	ps.byKey[p.peerKey] = p
	if p.pid > 0 {
		ps.pin(p, m)
	} else {
		p.until = ^uint64(0) // no process of ours, for ever
	}
	if p.state == peerBare && p.pid > 0 {
		ps.counts.add(peerGone, 1)
		ps.ended = append(ps.ended, p)
	}
	p.fields = p.facts.appendFields(nil, p.peerKey)
	return p
}

// pin finds the process of p and reads its facts.
//
//	pidfd (sent along, else pidfd_open)   names a process
//	dir = open /proc/PID                  names the process that has the pid now
//	signal 0 to pidfd works               so both are the same one
//	start ≤ time stamp of the message     so it is the one that sent the message
func (ps *peers) pin(p *peer, m *message) {
	pidfd := m.takePidfd()
	if pidfd < 0 {
		var err error
		if pidfd, err = unix.PidfdOpen(int(p.pid), 0); err != nil {
			return
		}
	}
	dir, err := ps.proc.open(int(p.pid))
	if err == nil {
		defer unix.Close(dir)
		err = unix.PidfdSendSignal(pidfd, 0, nil, 0)
	}
	if err != nil && err != unix.EPERM { //nolint:errorlint // x/sys returns bare errnos
		unix.Close(pidfd) //nolint:errcheck // nothing was written to it
		return
	}
	p.pidfd = pidfd
	var image facts
	ps.proc.readImage(dir, &image)
	p.facts.start = ps.proc.startAt(dir)
	p.begun = ps.proc.realtime(p.facts.start)
	if m.stamp != 0 && p.begun > m.stamp {
		ps.counts.add(peerReused, 1)
		unix.Close(pidfd) //nolint:errcheck // nothing was written to it
		p.pidfd, p.until = -1, m.stamp
		return
	}
	p.facts.exe, p.facts.cmdline = image.exe, image.cmdline
	ps.proc.readRest(dir, &p.facts, m.label)
	p.readAt, p.inode = ps.now, ps.inodeOf(pidfd)
	if ps.watch(p) {
		p.state = peerLive
	}
}

// watch lets the end of p's process be noticed. If that is impossible the facts
// hold for what has been sent until now.
func (ps *peers) watch(p *peer) bool {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(p.pidfd)}
	if ps.epoll < 0 || unix.EpollCtl(ps.epoll, unix.EPOLL_CTL_ADD, p.pidfd, &event) != nil {
		unix.Close(p.pidfd) //nolint:errcheck // nothing was written to it
		p.pidfd = -1
		return false
	}
	ps.byFD[int32(p.pidfd)] = p
	return true
}

// refresh reads the facts about p again. Its process is alive, or was so when
// the batch began.
func (ps *peers) refresh(p *peer, m *message) {
	next := p.facts
	if ps.now-p.readAt > discardAge {
		next = unknownFacts()
	}
	p.readAt = ps.now
	dir, err := ps.proc.open(int(p.pid))
	if err != nil {
		return // it has died just now; the next batch will see
	}
	defer unix.Close(dir)
	if start := ps.proc.startAt(dir); start != p.facts.start {
		return // died, and followed by another one
	}
	next.start = p.facts.start
	ps.proc.readImage(dir, &next)
	ps.proc.readRest(dir, &next, m.label)
	p.begun = ps.proc.realtime(next.start)
	if next != p.facts {
		p.facts = next
		p.fields = p.facts.appendFields(nil, p.peerKey)
	}
}

// evict forgets the oldest of a few entries.
func (ps *peers) evict() {
	var oldest *peer
	n := 0
	for _, p := range ps.byKey { // in random order
		if oldest == nil || p.readAt < oldest.readAt {
			oldest = p
		}
		if n++; n >= evictSample {
			break
		}
	}
	if oldest != nil {
		ps.forget(oldest)
	}
}

// object returns what is known about a process that a message is about: it need
// not be the sender, and its user is read from /proc. The result may be used
// until the batch ends.
func (ps *peers) object(pid int32) *peer {
	dir, err := ps.proc.open(int(pid))
	p := &peer{peerKey: credentials{pid, noID, noID}, pidfd: -1, state: peerBare}
	p.facts = unknownFacts()
	if err != nil {
		return p
	}
	defer unix.Close(dir)
	if b, ok := ps.proc.file(dir, "status"); ok {
		p.uid, p.gid = ownerOf(b)
	}
	ps.proc.readImage(dir, &p.facts)
	ps.proc.readRest(dir, &p.facts, nil)
	return p
}

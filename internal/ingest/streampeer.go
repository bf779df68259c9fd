package ingest

import (
	"golang.org/x/sys/unix"
)

// identify brings the sender of a stream up to date before its lines are
// recorded. m is what was read, nil for lines that were read before.
//
// A stream remembers its sender for as long as it is open: what can no longer be
// read about the process stays, also when it has ended and another one writes
// the rest of its output. The kernel says who has written each piece; the pidfd
// that comes with it tells processes apart that have had the same pid.
func (s *stream) identify(m *message) {
	p := s.sender
	if m == nil && p != nil {
		return
	}
	inode := uint64(0)
	if m != nil && m.pidfd >= 0 {
		inode = inodeIn(m.pidfd)
	}
	same := p != nil && p.peerKey == s.creds && (inode == 0 || p.inode == 0 || inode == p.inode)
	if same && s.now-p.readAt <= refreshAge {
		return
	}
	if !same {
		s.l.in.counts.add(peerLookups, 1)
		p = &peer{peerKey: s.creds, pidfd: -1, inode: inode}
		p.facts = unknownFacts()
		s.sender = p
	}
	p.readAt = s.now
	next := p.facts
	if !s.read(p, &next, m) {
		next = p.facts
	}
	if next.unit == "" && next.cgroup == "" {
		next.unit = s.header.unit
	}
	if next != p.facts || p.fields == nil {
		p.facts = next
		p.fields = p.facts.appendFields(nil, p.peerKey)
	}
}

// read reads about the process of p if it is still the one with p's pid.
func (s *stream) read(p *peer, f *facts, m *message) bool {
	if p.pid <= 0 {
		return false
	}
	dir, err := s.buf.proc.open(int(p.pid))
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	if m != nil && m.pidfd >= 0 {
		if err := unix.PidfdSendSignal(m.pidfd, 0, nil, 0); err != nil && err != unix.EPERM {
			return false // it has ended, dir is another's
		}
	}
	start := s.buf.proc.startAt(dir)
	if f.start != 0 && start != f.start {
		return false
	}
	f.start = start
	label := []byte(nil)
	if m != nil {
		label = m.label
	}
	s.buf.proc.readImage(dir, f)
	s.buf.proc.readRest(dir, f, label)
	return true
}

// inodeIn returns the inode of a pidfd in pidfs, 0 if there is no pidfs.
func inodeIn(pidfd int) uint64 {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(pidfd, &fs) != nil || fs.Type != unix.PID_FS_MAGIC || unix.Fstat(pidfd, &st) != nil {
		return 0
	}
	return st.Ino
}

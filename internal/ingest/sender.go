package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/entry"
)

// callers are the processes that Sender was asked about.
type callers struct {
	mu     sync.Mutex
	peers  *peers  // nil before the first, and in the end
	closed bool    // there will be none any more
	msg    message // asks for one
}

// Sender returns the trusted fields of a process that has connected at a time, as
// the kernel tells with SO_PEERCRED: what is known about it now, if it is still the
// one that has connected, else its ids. It reads /proc at most once a second for
// each process. It may be called concurrently; the result must not be changed.
func (in *Ingest) Sender(pid int32, uid, gid uint32, connected time.Time) []entry.Field {
	now, wall := in.now()
	in.host.refresh(now)
	creds := credentials{pid, uid, gid}
	c := &in.callers
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		bare := unknownFacts()
		return slices.Concat(bare.appendFields(nil, creds), in.host.fields())
	}
	if c.peers == nil {
		c.peers = newPeers(in.proc(), &in.counts)
	}
	c.peers.tick(now, wall)
	c.msg.clear()
	c.msg.credentials, c.msg.known, c.msg.stamp = creds, true, uint64(connected.UnixMicro())
	fields := slices.Concat(c.peers.get(&c.msg).fields, in.host.fields())
	c.peers.drained()
	return fields
}

// close lets go of all descriptors.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers != nil {
		c.peers.close()
	}
	c.peers, c.closed = nil, true
}

package ingest

import (
	"context"
	"strconv"

	"github.com/tidemark-log/tidemark/entry"
)

// defaultPriority is LOG_INFO, for entries that name none.
const defaultPriority = 6

func nativeReasons() reasons {
	return reasons{nativeEntries, nativeTruncated, nativeControl, nativeLimited, nativeLevel, nativeRefused}
}

// native decodes journald's native protocol.
type native struct {
	*datagrams
	decoder entry.NativeDecoder
	passed  allowances
}

// take decodes a datagram: entries, or one descriptor of a file with entries.
func (n *native) take(ctx context.Context, m *message) {
	switch {
	case len(m.data) > 0 && len(m.fds) == 0:
		n.decode(ctx, m, m.data, false)
	case len(m.data) == 0 && len(m.fds) == 1:
		n.file(ctx, m)
	case len(m.fds) > 0:
		n.in.counts.add(nativeFDs, 1)
	}
}

// decode adds the entries in data to the batch, which it hands over when it is
// full. If data is large, that is after every piece: then large binary fields
// need not be copied out of the decoder.
func (n *native) decode(ctx context.Context, m *message, data []byte, large bool) {
	p := n.peers.get(m)
	for rest := data; len(rest) > 0; {
		if (large || len(n.batch.entries) >= maxBatch) && n.send(ctx) != nil {
			return // ends with run
		}
		var entries []entry.Entry
		entries, rest = n.decoder.DecodeSome(rest, maxBatch)
		n.count()
		for i := range entries {
			e := &entries[i]
			seen := n.look(m, e.Fields)
			if large {
				n.batch.addAll(e.Fields)
			} else {
				for _, f := range e.Fields {
					n.batch.keep(f, data)
				}
			}
			n.batch.add(n.in.words.journal)
			n.finish(m, p, seen.priority, e.Urgent, seen.object)
		}
	}
}

// count moves what the decoder has counted to our counts.
func (n *native) count() {
	c := &n.decoder.Counts
	if *c == (entry.NativeCounts{}) {
		return
	}
	n.in.counts.add(nativeBadNames, c.BadNames)
	n.in.counts.add(nativeNoise, c.Noise)
	n.in.counts.add(nativeMalformed, c.Malformed)
	n.in.counts.add(nativeTooMany, c.TooMany)
	n.in.counts.add(nativeTooLarge, c.TooLarge)
	n.in.counts.add(nativeEmpty, c.Empty)
	*c = entry.NativeCounts{}
}

// meta is what journald looks at in a native entry.
type meta struct {
	priority uint8
	object   *peer // what OBJECT_PID of a root process names
}

func (n *native) look(m *message, fields []entry.Field) meta {
	seen := meta{priority: defaultPriority}
	for _, f := range fields {
		switch {
		case len(f) == len("PRIORITY=")+1 && string(f[:len("PRIORITY=")]) == "PRIORITY=":
			if c := f[len(f)-1]; c >= '0' && c <= '7' {
				seen.priority = c - '0'
			}
		case len(f) > len("OBJECT_PID=") && f[0] == 'O' && string(f[:len("OBJECT_PID=")]) == "OBJECT_PID=":
			if m.known && m.uid == 0 {
				if pid, err := strconv.ParseInt(string(f[len("OBJECT_PID="):]), 10, 32); err == nil && pid > 0 {
					seen.object = n.peers.object(int32(pid))
				}
			}
		}
	}
	return seen
}

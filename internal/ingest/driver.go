package ingest

import (
	"strconv"

	"github.com/tidemark-log/tidemark/entry"
)

// Message IDs of journald's own messages that have the same meaning here.
const (
	messageMissed  = "e9bf28e6e834481bb6f48f548ad13606" // kernel messages
	messageDropped = "a596d6fe7bfa4994828e72309e95d61e" // by the rate limit
)

// facilityDaemon is LOG_DAEMON without its shift.
const facilityDaemon = 3

// event appends a message of tidemark itself to b: what was lost, and why. about
// is the process it is about, nil for none.
func (in *Ingest) event(b *batch, priority int, id, text string, about *peer, extra ...string) {
	b.addUint("SYSLOG_FACILITY=", facilityDaemon)
	b.add(entry.Field("SYSLOG_IDENTIFIER=tidemark"))
	b.add(in.words.driver)
	b.addUint("PRIORITY=", uint64(priority))
	b.add(entry.Field("MESSAGE_ID=" + id))
	b.add(entry.Field("MESSAGE=" + text))
	for _, f := range extra {
		b.add(entry.Field(f))
	}
	b.addAll(in.self)
	if about != nil {
		b.fields = about.facts.appendObjectFields(b.fields, about.peerKey)
	}
	b.addAll(in.host.fields())
	b.end(0, false)
}

// suppressed says how many messages of a unit the rate limit has dropped.
func (in *Ingest) suppressed(b *batch, p *peer, n uint32) {
	count := strconv.FormatUint(uint64(n), 10)
	in.event(b, 6, messageDropped, "Suppressed "+count+" messages from "+p.facts.unit, p, "N_DROPPED="+count)
}

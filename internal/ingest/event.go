package ingest

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/settle"
)

// Message ids of our own entries. The first two are journald's.
const (
	messageMissed  = "e9bf28e6e834481bb6f48f548ad13606" // kernel messages were overwritten
	messageDropped = "a596d6fe7bfa4994828e72309e95d61e" // the rate limit has dropped messages
	messageLost    = "2f6b8c1e5d7a4093b4e2d0a9c6f81375" // messages were refused or lost
	messageShort   = "982f0846faa148cb941cce08c92da65b" // streams wait for descriptors
)

const (
	levelWarning = 4
	levelInfo    = 6
)

// lossWindow is how often losses are told: the first at once, what follows
// within the window together.
const lossWindow = 30 * time.Second

// say tells an event if somebody listens.
func (in *Ingest) say(priority int, id, text string, fields ...entry.Field) {
	if in.cfg.Event != nil {
		in.cfg.Event(priority, id, text, fields...)
	}
}

// suppressed says how many messages of a unit the rate limit has dropped.
func (in *Ingest) suppressed(p *peer, n uint32) {
	count := strconv.FormatUint(uint64(n), 10)
	fields := []entry.Field{entry.Field("N_DROPPED=" + count)}
	in.say(levelInfo, messageDropped, "Suppressed "+count+" messages from "+p.facts.unit,
		p.facts.appendObjectFields(fields, p.peerKey)...)
}

// newLosses makes what tells of losses: marks are the number of them.
func (in *Ingest) newLosses() *settle.Settler {
	return settle.New(in.tellLosses, settle.Options{Policy: settle.Every(lossWindow), Leading: true})
}

// tellLosses tells what was lost since the last time. It is the settler's effect
// and never runs twice at once.
func (in *Ingest) tellLosses(upTo uint64) (uint64, error) {
	var parts []string
	total := uint64(0)
	for r := noReason + 1; r < reasonCount; r++ {
		c := names[r]
		now := in.counts.n[r].Load()
		n := now - in.told[r]
		if n == 0 || !r.isLoss() {
			continue
		}
		in.told[r] = now
		total += n
		parts = append(parts, c.Name+" "+c.Reason+" "+strconv.FormatUint(n, 10))
	}
	if total > 0 {
		count := strconv.FormatUint(total, 10)
		in.say(levelWarning, messageLost, "Lost "+count+" messages: "+strings.Join(parts, ", "), entry.Field("N_DROPPED="+count))
	}
	return upTo, nil
}

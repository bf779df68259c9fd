package store

import (
	"io/fs"
	"strings"

	"github.com/tidemark-log/tidemark/entry"
)

// followAll lets the sequence of each slot go on behind its latest file that is
// not current, archived or set aside. What the current one tells comes later.
func (s *Store) followAll(entries []fs.DirEntry) {
	latest := make(map[*slot]uint64)
	for _, e := range entries {
		if _, ok := parseStored(e.Name()); !ok || !e.Type().IsRegular() {
			continue
		}
		base, _, _ := strings.Cut(e.Name(), "@")
		h, err := s.header(e.Name())
		if err != nil || h.MachineID != s.cfg.MachineID || h.TailEntrySeqnum == 0 {
			continue
		}
		sl := s.slotNamed(base)
		switch {
		case sl == nil:
		case h.TailEntryRealtime >= latest[sl]:
			latest[sl] = h.TailEntryRealtime
			sl.raise(h.SeqnumID, h.TailEntrySeqnum)
		default:
			sl.continues(h.SeqnumID, h.TailEntrySeqnum)
		}
	}
}

// slotNamed returns the slot whose files have that base; nil when there is none.
func (s *Store) slotNamed(base string) *slot {
	_, uid, ok := currentBase(base + ".journal")
	switch {
	case !ok:
		return nil
	case base == "system":
		return s.system
	case !s.cfg.Split:
		return nil
	}
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	return s.addUser(uid)
}

// raise lets the slot's sequence go on behind n. Another sequence than the one
// it has takes its place, unless nothing has been numbered by it.
func (sl *slot) raise(id entry.ID, n uint64) {
	switch {
	case id == sl.seqnumID:
		n = max(n, sl.seqnum)
	case n == 0 && !sl.seqnumID.IsZero():
		return
	}
	sl.seqnumID, sl.seqnum = id, n
}

// continues is raise for an older file: it changes no sequence for another.
func (sl *slot) continues(id entry.ID, n uint64) {
	if sl.seqnumID.IsZero() || sl.seqnumID == id {
		sl.raise(id, n)
	}
}

package funnel

import "github.com/tidemark-log/tidemark/linelog"

// Stats is what a funnel does now and has done.
type Stats struct {
	// Files are open, Clients use them.
	Files, Clients int
	// Refused counts descriptors that were not taken.
	Refused uint64
	// Lines and Bytes were taken.
	Lines, Bytes uint64
	// Buffered is what is taken and not yet written, in bytes.
	Buffered int64
	// Unsynced counts the lines that are taken and not synced.
	Unsynced uint64
	// Writes, Syncs and the others are the sums of linelog.Stats.
	Writes, WriteErrors, Syncs, SyncErrors, Lost uint64
}

// Stats returns the state now. It waits for no disk.
func (fu *Funnel) Stats() Stats {
	fu.mu.Lock()
	defer fu.mu.Unlock()
	s := fu.past
	s.Files, s.Clients, s.Refused = len(fu.files), fu.clients, fu.refused
	for _, f := range fu.files {
		if f.writer != nil {
			s.add(f.writer.Stats())
		}
	}
	return s
}

// add adds those of a writer.
func (s *Stats) add(w linelog.Stats) {
	s.Lines += w.Lines
	s.Bytes += w.Bytes
	s.Buffered += w.Buffered
	s.Unsynced += w.Unsynced
	s.Writes += w.Writes
	s.WriteErrors += w.WriteErrors
	s.Syncs += w.Syncs
	s.SyncErrors += w.SyncErrors
	s.Lost += w.Lost
}

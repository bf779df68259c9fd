package store

import (
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/journal"
)

// counts is what has happened since the start.
type counts struct {
	unstorable atomic.Uint64 // entries that no file can hold
	clockSteps atomic.Uint64 // steps back that were bridged
	diskFull   atomic.Uint64 // times that a write met a full disk
	lostEvents atomic.Uint64 // own entries that found no room
	rotations  atomic.Uint64
	removed    atomic.Uint64 // files removed for space or age
	// Of files whose sync has failed: entries that are synced in another file now, and
	// those that could not be read back.
	readBack, notReadBack atomic.Uint64

	syncs      atomic.Uint64
	syncErrors atomic.Uint64
	syncTime   atomic.Uint64 // µs
}

// Count tells how often something happened.
type Count struct {
	Reason string
	N      uint64
}

// Status is the state of a Store.
type Status struct {
	Dir string
	// Files are the current files and those on their way to the archive.
	Files []journal.Stats
	// Buffer bounds what all files together have accepted and not yet written;
	// Buffered is what they have. Bytes.
	Buffer, Buffered int64
	Unsynced         uint64 // entries
	Usage            Usage
	// Prepared counts the files that wait, empty, to become current.
	Prepared int
	// Failing is what the last write met, other than a full disk; nil: none did.
	Failing error
	// Full: a write, or the preparation of the next file, has last met a full
	// disk.
	Full       bool
	ClockSteps uint64
	Syncs      uint64
	SyncErrors uint64
	SyncTime   time.Duration
	Counts     []Count
}

// Status describes the store at this moment. It touches no file, but may have the
// archiver look at the directory.
func (s *Store) Status() (st Status) {
	s.Look(&st)
	return st
}

// Look is Status that fills in st, whose lists it uses again.
func (s *Store) Look(st *Status) {
	c := &s.counts
	*st = Status{
		Dir:        s.dir,
		Buffer:     s.settings.Load().Buffer,
		Usage:      *s.usage.Load(),
		Prepared:   s.spares.len(),
		ClockSteps: c.clockSteps.Load(),
		Syncs:      c.syncs.Load(),
		SyncErrors: c.syncErrors.Load(),
		SyncTime:   time.Duration(c.syncTime.Load()) * time.Microsecond,
		Files:      st.Files[:0],
		Counts: append(st.Counts[:0],
			Count{"unstorable", c.unstorable.Load()},
			Count{"clock_step", c.clockSteps.Load()},
			Count{"disk_full", c.diskFull.Load()},
			Count{"lost_event", c.lostEvents.Load()},
			Count{"rotation", c.rotations.Load()},
			Count{"removed_file", c.removed.Load()},
			Count{"read_back", c.readBack.Load()},
			Count{"not_read_back", c.notReadBack.Load()},
		),
	}
	if err := s.preparing.Load(); err != nil {
		st.Full = outOfSpace(*err)
	}
	if _, now := s.clock(); now-st.Usage.at >= usageAge {
		s.archiver.Ring()
	}
	st.Usage.Bytes = st.Usage.rest
	var room [lookRoom]*file
	for _, f := range s.appendOpen(room[:0]) {
		stats := f.w.Stats()
		st.Files = append(st.Files, stats)
		st.Usage.Bytes += stats.Allocated
		st.Buffered += stats.Buffered
		st.Unsynced += stats.Unsynced
		st.Full = st.Full || f.full.Load()
		if err := f.failing.Load(); err != nil {
			st.Failing = *err
		}
	}
}

// lookRoom is for how many files Look needs no memory.
const lookRoom = 16

// Pass goes where every append goes, and appends nothing: while an append is stuck it
// does not return. It waits for no disk.
func (s *Store) Pass() {
	for _, sl := range s.slots() {
		sl.mu.Lock()
		if sl.f != nil {
			sl.f.w.HeadSeqnum() // under the lock of its appends
		}
		sl.mu.Unlock()
	}
}

package linelog

import (
	"time"
)

// counts is what a Writer has seen. Guarded by Writer.mu.
type counts struct {
	lines, bytes          uint64
	cut                   uint64
	blocked               uint64
	dropped, droppedBytes uint64
	writes, writeErrors   uint64
	short, torn           uint64
	lockWaits, lockErrors uint64
	syncs, syncErrors     uint64
	syncTime              time.Duration
	setAside, again, lost uint64
	unanswered            uint64
	rotations             uint64
	rotateErrors          uint64
	compressed, pruned    uint64
}

// Stats is the state of a Writer and what it has done since Open.
type Stats struct {
	// Path of the log.
	Path string
	// Lines and Bytes were accepted, notices of the writer's own included.
	Lines, Bytes uint64
	// Cut counts cuts of lines that were too long.
	Cut uint64
	// Blocked counts waits for room.
	Blocked uint64
	// Dropped and DroppedBytes are what was not accepted because the buffer was full.
	Dropped, DroppedBytes uint64
	// Buffered is what is accepted and not yet written, Limit its bound, in bytes.
	Buffered, Limit int64
	// Unsynced counts the lines that are accepted and not synced.
	Unsynced uint64
	// Writes counts write calls that have written something, ShortWrites those that
	// were cut short, WriteErrors those that have failed.
	Writes, ShortWrites, WriteErrors uint64
	// Torn counts the parts of lines that were marked: of short writes, of writers that
	// were killed.
	Torn uint64
	// LockWaits counts the batches that had to wait for the lock, LockErrors those that
	// did not get it.
	LockWaits, LockErrors uint64
	// Syncs counts syncs of files, SyncErrors those that failed; SyncTime is the
	// time they took together.
	Syncs, SyncErrors uint64
	SyncTime          time.Duration
	// SetAside counts files whose sync failed, Again the lines of them that were
	// taken over into a fresh file, or written again to a shared one, Lost those that
	// could not be. Again counts those, too, of which a write has failed, to a file that
	// was exchanged then and cannot be read: they may be in both.
	SetAside, Again, Lost uint64
	// Unanswered counts the lines that may have gone with a daemon: see Dial.
	Unanswered uint64
	// Rotations counts files that were begun by Options.Rotate or Rotate, RotateErrors
	// what has failed of that, or of what follows it. Compressed and Pruned count
	// the files before that were.
	Rotations, RotateErrors uint64
	Compressed, Pruned      uint64
	// Err is the error of the last write or sync, nil if it succeeded.
	Err error
}

// Stats returns the state now. It waits for no disk.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.counts
	return Stats{
		Path: w.path, Lines: c.lines, Bytes: c.bytes, Cut: c.cut, Blocked: c.blocked,
		Dropped: c.dropped, DroppedBytes: c.droppedBytes,
		Buffered: w.q.held, Limit: w.q.limit, Unsynced: w.pos - min(w.pos, w.sync.Settled()),
		Writes: c.writes, ShortWrites: c.short, WriteErrors: c.writeErrors,
		Torn: c.torn, LockWaits: c.lockWaits, LockErrors: c.lockErrors,
		Syncs: c.syncs, SyncErrors: c.syncErrors, SyncTime: c.syncTime,
		SetAside: c.setAside, Again: c.again, Lost: c.lost, Unanswered: c.unanswered,
		Rotations: c.rotations, RotateErrors: c.rotateErrors, Compressed: c.compressed, Pruned: c.pruned, Err: w.err,
	}
}

// Package linelog appends lines to a text log: whole lines, by any number of
// goroutines, none of which waits for the disk unless it asks to.
//
// [Writer.Write] copies what it is given into memory and returns. Two settlers
// (package settle) pay for it:
//
//	write  one write(2) of whole lines, at once after a quiet window, else once a
//	       window or per 64 KiB                        appended: survives kill -9
//	sync   as Options.Sync says: fdatasync             synced: survives a power cut
//
// Whoever wants to know waits: [Writer.Append] returns a position, [Writer.Wait]
// waits until that position is appended or synced, and shares the write or the
// sync with everyone else who waits.
//
// # Whole lines, always
//
// A line comes from one source: [Writer.Stream] gives each source a rest of its
// own, which is kept until its newline comes, or until Close. In the file a line
// is whole, or it is marked as what a fault has left of one:
//
//   - A write that is cut short (disk full, a limit) leaves whole lines, which
//     count, and a piece. The piece is overwritten in place with a comment line
//     (Options.Torn), and its line is written again, whole.
//   - A write that fails keeps its lines in memory. They are tried again with a
//     back-off, in order, until there is space; then writing goes on by itself.
//   - The end of a file whose writer was killed in the middle of a line is marked
//     when the file is opened again.
//
// # A sync that fails
//
// It is never tried again into success. Everyone who waits for something that it
// should have covered gets ErrSync. The file is kept aside as FILE.TIME~ without
// another sync, a fresh one begins under its name, and the lines that were written
// after the last good sync are written to that too, from memory or read back; what
// cannot be had any more is counted and said. Who waits later waits for the fresh
// file.
//
// # Rotation
//
// Options.Rotate begins a new file by size or age: FILE is renamed to FILE.TIME
// between two lines, and a fresh FILE takes what comes next. Sync, compression and
// removal of the old ones follow in the background: a slow disk and a slow compressor
// hold up nobody. A position in a file that was rotated stays good for Wait. After a
// crash the next Open goes on where it ended.
//
// Where logrotate or the like does that, Options.Watch has the Writer notice it (on
// Linux), and Reopen tells it. A file that is copied and truncated goes on at its
// beginning, as each write goes to the end that there is; what comes between the copy
// and the truncation is lost, as logrotate says.
//
// # Loggers
//
// A Writer is an io.Writer for whatever logger writes whole lines; [NewHandler] is a
// handler for log/slog. examples/loggers plugs it into zap and zerolog.
//
// # What is said in the log
//
// A line that begins with "# linelog:" tells how many lines are missing at that
// place, because the buffer was full, or could not be taken over into a fresh
// file.
//
// # Shared mode
//
// Without Options.Shared a Writer is the only one of its file (others may read, rename
// and truncate it). With it any number of processes append, each with O_APPEND and
// whole lines, without a lock on a local file system:
//
//   - A batch is one write(2), which no other comes into.
//   - The piece of a write that was cut short is marked in place, through a second
//     descriptor, wherever others have appended meanwhile, and its line is written
//     again. Nothing is ever truncated.
//   - A write of ours that comes behind a part of a line sees that afterwards (one
//     pread a batch), and marks it: its writer is dead, or does the same. What is
//     merely seen at the end of the file may be a write in progress and stays; then the
//     first write of a Writer begins with a newline, which can leave an empty line.
//   - A write that has failed, and yet done something, can leave lines twice when
//     others append at the same time: they are not lost.
//   - After a failed sync the file stays, since others write to it. ErrSync is told, and
//     the lines that were written after the last good sync are written to its end
//     again, behind a line that says so.
//
// What it does not see: a Writer that was glued to the part of a dead one's line and
// is killed itself before it marks that, microseconds later. One line is torn then, and
// nobody was told that it is there. Under LockFlock or LockFcntl, which everyone takes
// then, the end is looked at and marked before each write, and this cannot happen.
//
// Options.Lock has a batch written under an advisory lock, as it must be beside those
// who count on one: cat -l, programs on other hosts.
//
// # By way of a daemon
//
// [Dial] returns a Writer whose file a tidemark daemon writes, for any number of
// processes: one write(2) for what all of them have sent, one sync for all who wait. What
// was acknowledged survives the end of this process and of the daemon; what the daemon
// has gone with, unanswered, is told (ErrUnanswered) and not sent again.
package linelog

// Package journal reads, writes and verifies systemd journal files.
//
// A File is one journal file, open for reading. A Journal is several of them
// in one order, without duplicates, as sd-journal interleaves them. A Writer
// appends to one file.
//
// # Writing
//
// Create makes a file, and Writer.Append adds entries to it: in memory, so it
// does not wait for the disk, and copies what it keeps. Writer.Wait returns when
// an entry has come as far as the caller wants: settle.Appended, other processes
// see it and it survives the death of this one; settle.Synced, it survives a
// power cut. Callers that wait at the same time share one sync.
//
//	w, err := journal.Create("app.journal", journal.Options{MachineID: machine, BootID: boot})
//	pos, _, err := w.Append(ctx, []entry.Entry{{Fields: []entry.Field{
//		entry.Field("MESSAGE=started"), entry.Field("PRIORITY=6"),
//	}}})
//	err = w.Wait(ctx, pos, settle.Synced)
//	err = w.Close()
//
// Options.MachineID and Options.BootID are those of /etc/machine-id and
// /proc/sys/kernel/random/boot_id, less the newline; entry.ParseID reads either.
// They may be zero, but OpenWriter goes on only with a file of the same machine.
// An entry without a time gets the clock's, and with it Options.BootID. journald
// and systemd-journal-remote also write that id into a field of each entry,
// _BOOT_ID=, by which `journalctl -b` finds it: a Writer adds no field.
//
// A file becomes full: Append returns ErrFull, or RotateDue reports it. Archive
// the file then, and Create the next with the SeqnumID and Seqnum that
// Writer.Seqnum returned.
//
// A sync that fails is final for its file: errors wrap ErrSync from then on. Begin
// another file, and copy into one of the same sequence what File.Whole delivers
// behind Writer.SyncedSeqnum (Options.KeepNumbers).
//
// Close leaves a file that OpenWriter goes on with. After a crash OpenWriter
// says ErrUnclean: Repair makes the file whole.
//
// # Reading
//
// Open and OpenDir make a Journal; it delivers entries by Next, Previous and
// All, from where SeekHead, SeekRealtime or SeekCursor went, and only those that
// match what SetMatch was given. A Query says all of that as a value, with bounds of
// time, a boot, a limit and the fields to read: Journal.Query. A file may be read while it is written:
// Refresh, then go on.
//
// A File reads through any io.ReaderAt (NewFile). The fields of an entry are slices of
// memory that is used again: they are valid until the Journal moves.
//
// Where a file is damaged its objects are gone through one by one, and every entry
// that is intact is delivered; File.Damage and Warnings tell what was not. Rescue
// writes what is left to a new file.
//
// Everything a reader takes from a file is checked before it is used: a
// damaged or hostile file gives a *FormatError or fewer entries, never a panic,
// an endless loop, or memory in proportion to a number that the file claims.
//
// # Concurrency
//
// A Writer, and an Order, may be used by any number of goroutines. A Journal and a
// File belong to one at a time; several of them may read the same files, also
// those that a Writer of this or another process is writing. Match, Ticket and the
// options are values.
//
// # Source of the format
//
// systemd.io/JOURNAL_FILE_FORMAT, and where that is silent journal-def.h,
// journal-file.c and journal-verify.c of systemd 252; docs/FORMAT.md says what this
// package writes of it.
package journal

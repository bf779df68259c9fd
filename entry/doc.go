// Package entry holds what a log record is: fields, names, identifiers, times
// and the cursor, and how it is serialized: the Journal Export Format and JSON
// as journalctl prints them, the native protocol of journald, and JSON lines as
// programs log them. It does no I/O of its own.
//
// Decoders return entries that alias their buffers or their input, borrowed
// until the next call, and allocate nothing per entry in the long run.
package entry

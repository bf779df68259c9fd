// Package entry holds what a log record is: fields, names, identifiers, times
// and the cursor, and how it is serialized: the Journal Export Format and JSON
// as journalctl prints them, the native protocol of journald, and JSON lines as
// programs log them. It does no I/O of its own.
//
// Decoders return entries that alias their buffers or their input, borrowed
// until the next call, and allocate nothing per entry in the long run.
//
// Times are in µs, sizes and offsets in bytes. Functions, and methods of values
// that nobody changes, may be called concurrently; decoders and readers keep
// buffers and belong to one goroutine at a time.
//
// # Sources of the formats
//
//	export    systemd.io/JOURNAL_EXPORT_FORMATS; journal-importer.c of systemd 252
//	native    systemd.io/JOURNAL_NATIVE_PROTOCOL; journald-native.c
//	JSON      the same page as export; output_json of logs-show.c
//	cursor    sd_journal_get_cursor and sd_journal_seek_cursor of sd-journal.c
//	names     journal_field_valid of systemd 252
//	ids       sd_id128_from_string of sd-id128.c
package entry

// Package journal reads, writes and verifies systemd journal files.
//
// A File is one journal file, open for reading. A Journal is several of them
// in one order, without duplicates, as sd-journal interleaves them. A Writer
// appends to one file.
//
// Everything a reader takes from a file is checked before it is used: a
// damaged or hostile file gives a *FormatError or fewer entries, never a panic,
// an endless loop, or memory in proportion to a number that the file claims.
package journal

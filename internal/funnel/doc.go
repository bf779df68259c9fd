// Package funnel writes the lines of many processes to their files: each file has
// one writer, however many clients and names it has.
//
// A client opens its file with its own rights and passes two descriptors, or the first
// alone if it believes that the file is open here: each open and close is a round trip or
// two on a network file system. They are looked at (the same regular file, flags, access modes), and the writer of that
// device and inode takes the lines. The funnel opens no path and starts no process.
//
// Nothing here waits for one file on behalf of another: all that may wait for a
// disk (the look, opening, closing) is done without locks, by the goroutine of the
// client that needs it, or by one of its own for a file that nobody uses any more.
//
// # The life of a writer
//
//	opening   the first client's descriptors become a writer; others wait for it
//	open      clients come and go
//	idle      the last one has gone: after Config.Idle it is closed, or earlier if
//	          there are too many files; while lines could not be written it stays
//	closing   all is written and synced; who wants the file now waits until it is closed
//
// A timer is armed for each idle writer, and for nothing else.
package funnel

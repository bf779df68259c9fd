// Package follow tells readers of journal files that there may be more to read.
//
// A Watcher watches directories of journals with inotify, as sd-journal does. A
// Follower is a journal.Journal and the Watcher that wakes it. It pulls from the
// files and holds no entries, so that it never slows a writer, and a slow
// follower costs no memory.
// Nothing polls, and nothing here runs in a goroutine of its own.
package follow

// Package faults is about the whole daemon on disks that are slow, stuck, failing
// or cut off, as processes of their own: nothing that does not ask for a sync waits
// for one, no acknowledgement comes before its sync, and what was acknowledged is
// there after kill -9 and after a power cut. It has tests only.
//
// strace holds system calls of the daemon, so that a call on the same file goes on
// beside one that is held; internal/slowfs cuts the power, and is under a loop
// device where a whole file system is to be stuck.
package faults

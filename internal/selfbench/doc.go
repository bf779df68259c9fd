// Package selfbench measures on the machine at hand what tidemark's mechanism is
// worth: each of its tables holds the naive way, and the cure of the program that
// met the problem first, beside tidemark's own. Nothing but a directory is needed.
//
//	Notify    a write, and a wake-up of readers, per append; or once for what gathers
//	Sync      a sync per record; or one for everyone who waits
//	Append    a lock around each line of a shared log; or none, or one process for all
//	Commands  a loop that sees a client again when its poll times out; or at once
//
// The ways of a table take turns, in rounds; medians count. What a way has
// acknowledged is looked up in its files before they are removed.
package selfbench

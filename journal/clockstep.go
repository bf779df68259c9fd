package journal

import "github.com/tidemark-log/tidemark/entry"

// MaxClockStep is how far back in time an entry may be in its file, in µs. Readers
// look for a time by bisection: what is further back belongs into another file.
const MaxClockStep = 10_000_000

// InStep counts the entries at the front that belong into one file by their
// realtime, behind one whose latest is at latest. It returns the latest with them,
// both in µs since 1970.
func InStep(entries []entry.Entry, latest uint64) (n int, now uint64) {
	for n < len(entries) && entries[n].Realtime+MaxClockStep >= latest {
		latest = max(latest, entries[n].Realtime)
		n++
	}
	return n, latest
}

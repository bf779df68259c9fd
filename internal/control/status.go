package control

// Status is the answer of dev.tidemark.Log.Status. Sizes are bytes, times µs
// since 1970.
type Status struct {
	Version   string `json:"version"`
	PID       int    `json:"pid"`
	Started   uint64 `json:"started"`
	MachineID string `json:"machineID"`
	BootID    string `json:"bootID"`
	Data      string `json:"data"`
	Run       string `json:"run"`
	// Endpoints are where the daemon can be reached.
	Endpoints []Endpoint `json:"endpoints"`
	// Sync is the sync policy in its canonical form, Notify the window of change
	// notifications in µs.
	Sync   string `json:"sync"`
	Notify int64  `json:"notify"`
	// Nice is the scheduling priority of the daemon, from -20 to 19.
	Nice int `json:"nice"`
	// Buffer bounds the entries accepted and not yet written; Buffered is what is
	// in it.
	Buffer   int64 `json:"buffer"`
	Buffered int64 `json:"buffered"`
	// ClockSteps counts the steps back of the clock that were bridged by
	// repeating the last time.
	ClockSteps uint64 `json:"clockSteps"`
	// Syncs counts the syncs of all files since the start, SyncErrors those that
	// failed.
	Syncs      uint64 `json:"syncs"`
	SyncErrors uint64 `json:"syncErrors"`
	// Unsynced counts the entries of all files that are not synced, UnsyncedBytes how
	// much they are at most; UnsyncedSince is when the oldest came, 0 for none.
	Unsynced      uint64      `json:"unsynced"`
	UnsyncedBytes uint64      `json:"unsyncedBytes"`
	UnsyncedSince uint64      `json:"unsyncedSince"`
	Files         []File      `json:"files"`
	Space         Space       `json:"space"`
	Counts        []Count     `json:"counts"`
	Histograms    []Histogram `json:"histograms"`
}

// Histogram tells how large things were.
type Histogram struct {
	// Name is what was measured: an effect of journal files (write, index, sync) or of
	// text logs (access_log write, access_log sync, funnel write, funnel sync: the files
	// of clients), records, those of one sync,
	// or the turns of a loop that reads a socket (turn native and its like).
	Name string `json:"name"`
	// Unit of the values: µs or records.
	Unit string `json:"unit"`
	// Counts is how many values were 2^i to 2^(i+1)-1, the first 0 or 1. It ends with
	// the last that is not 0.
	Counts []uint64 `json:"counts"`
	// Sum of all values.
	Sum uint64 `json:"sum"`
}

// Endpoint is one way in: a protocol (native, syslog, stdout, varlink, http)
// and the path of a socket or a URL.
type Endpoint struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
}

// File is one file that is being written.
type File struct {
	Path    string `json:"path"`
	Entries uint64 `json:"entries"`
	Bytes   uint64 `json:"bytes"`
	// Unwritten counts the bytes not yet written, Unsynced the entries not yet
	// synced.
	Unwritten int64  `json:"unwritten"`
	Unsynced  uint64 `json:"unsynced"`
	// Fill is the use of the data hash table in per cent. Above 75 the file is
	// rotated.
	Fill         int    `json:"fill"`
	SeqnumID     string `json:"seqnumID"`
	TailSeqnum   uint64 `json:"tailSeqnum"`
	HeadRealtime uint64 `json:"headRealtime"`
	TailRealtime uint64 `json:"tailRealtime"`
	// Error is the last failure to write or sync; empty when there is none.
	Error string `json:"error,omitempty"`
}

// Space is what the journal files use and what is left.
type Space struct {
	Usage     uint64 `json:"usage"`
	Limit     uint64 `json:"limit"`
	Available uint64 `json:"available"`
	Archived  int    `json:"archived"`
	// Prepared counts the empty files that wait to become current.
	Prepared int `json:"prepared"`
	// Full: the disk is full, senders wait or are refused until there is space.
	Full bool `json:"full"`
}

// Count tells how often something happened on a path into the daemon.
type Count struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	N      uint64 `json:"n"`
}

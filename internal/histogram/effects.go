package histogram

import "time"

// Effects is what the side effects of appends cost, of many files together.
type Effects struct {
	// Write, Index and Sync are how long each took, failed ones included, in µs.
	Write, Index, Sync Histogram
	// Records is how many records each good sync has made safe.
	Records Histogram
}

// Of returns who is to be told of the effects of one file, as journal.Options has
// it: covered counts the file's records, and those of one effect come one after the
// other. A nil e counts nothing.
func (e *Effects) Of() func(effect string, d time.Duration, covered uint64, err error) {
	if e == nil {
		return func(string, time.Duration, uint64, error) {}
	}
	safe := uint64(0) // records of the file that are synced
	return func(effect string, d time.Duration, covered uint64, err error) {
		switch effect {
		case "write":
			e.Write.AddTime(d)
		case "index":
			e.Index.AddTime(d)
		case "sync":
			e.Sync.AddTime(d)
			if err == nil {
				e.Records.Add(covered - safe)
				safe = covered
			}
		}
	}
}

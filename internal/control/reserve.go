package control

import (
	"cmp"
	"os"
	"sync"
)

// reserved is how many descriptors a Reserve has: what is given back may be taken by
// somebody else in the process, for a moment mostly.
const reserved = 4

// Reserve is a few descriptors that are kept for the time when there are no others.
// Its methods may be called concurrently.
type Reserve struct {
	mu    sync.Mutex
	files []*os.File
	few   int // for tests: instead of reserved
}

// Fill takes what it lacks, as far as there is any.
func (r *Reserve) Fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.files) < cmp.Or(r.few, reserved) {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		r.files = append(r.files, f)
	}
}

// Spend gives one descriptor back to the process and reports whether there was one.
func (r *Reserve) Spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.files)
	if n == 0 {
		return false
	}
	r.files[n-1].Close() //nolint:errcheck // nothing was written to it
	r.files = r.files[:n-1]
	return true
}

// Empty gives all of them back.
func (r *Reserve) Empty() {
	for r.Spend() {
	}
}

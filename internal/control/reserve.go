package control

import (
	"os"
	"sync"
)

// Reserve is a descriptor that is kept for the time when there is no other. Its
// methods may be called concurrently.
type Reserve struct {
	mu sync.Mutex
	f  *os.File // nil: it is spent
}

// Fill takes a descriptor, unless there is one in it, or none to be had.
func (r *Reserve) Fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		if f, err := os.Open(os.DevNull); err == nil {
			r.f = f
		}
	}
}

// Spend gives the descriptor back to the process and reports whether there was one.
func (r *Reserve) Spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return false
	}
	r.f.Close() //nolint:errcheck // nothing was written to it
	r.f = nil
	return true
}

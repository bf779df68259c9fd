package store

import (
	"sync"
	"sync/atomic"
)

// gate wakes everyone who waits, unlike a bell, which wakes one. Take C before
// looking at what is waited for: a ring after that is not missed.
type gate struct {
	waited atomic.Bool // someone may hold c: a ring without waiters is one load
	mu     sync.Mutex
	c      chan struct{} // guarded by mu; nil when nobody waits
}

// C returns a channel that the next ring closes.
func (g *gate) C() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.c == nil {
		g.c = make(chan struct{})
	}
	g.waited.Store(true)
	return g.c
}

func (g *gate) ring() {
	if !g.waited.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waited.Store(false)
	if g.c != nil {
		close(g.c)
		g.c = nil
	}
}

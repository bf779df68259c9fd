package settle

// Bell is a wake-up for one listener. It carries no data and holds at most one
// ring: a listener that has been rung looks for itself what there is to do, so
// rings that come before it has looked are one. Ring may be called from
// anywhere, concurrently.
type Bell struct {
	c chan struct{} // capacity 1, never closed
}

// NewBell returns a bell that has not been rung.
func NewBell() *Bell { return &Bell{c: make(chan struct{}, 1)} }

// Ring wakes the listener, or the next one to listen. It never blocks.
func (b *Bell) Ring() {
	select {
	case b.c <- struct{}{}:
	default: // rung already, and not yet heard
	}
}

// C returns the channel to listen on. A receive takes the ring.
func (b *Bell) C() <-chan struct{} { return b.c }

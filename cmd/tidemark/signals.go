package main

import (
	"context"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// secondSignal is how long after the first a TERM or INT ends a process at once
// that has files to close. timeout(1) and some service managers signal a process
// and its group: the same wish comes twice within microseconds.
const secondSignal = time.Second

// signalContext is the context of a verb: the first TERM or INT ends it, and a second
// one the process. It listens from the first time that somebody asks whether it has
// ended: until then a signal ends the process, as it does journalctl. Listening takes
// three threads, which are a tenth of the time that a query of a few entries takes.
type signalContext struct {
	once    sync.Once
	inner   context.Context //nolint:containedctx // it is one itself
	release func()
	// patient makes it ignore a second signal until secondSignal has passed; it is
	// set before anything is called.
	patient bool
}

// listen begins to listen, and returns the context that ends.
func (c *signalContext) listen() context.Context {
	c.once.Do(func() {
		c.inner, c.release = signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		context.AfterFunc(c.inner, func() {
			if c.patient {
				time.AfterFunc(secondSignal, c.release)
			} else {
				c.release()
			}
		})
	})
	return c.inner
}

// stop listens no more.
func (c *signalContext) stop() {
	c.once.Do(func() {})
	if c.release != nil {
		c.release()
	}
}

func (c *signalContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (c *signalContext) Value(key any) any                       { return c.listen().Value(key) }
func (c *signalContext) Done() <-chan struct{}                   { return c.listen().Done() }
func (c *signalContext) Err() error                              { return c.listen().Err() }

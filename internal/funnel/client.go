package funnel

import (
	"context"
	"os"

	"github.com/tidemark-log/tidemark/linelog"
	"github.com/tidemark-log/tidemark/settle"
)

// Client is one process's end of a file. It is for one goroutine.
type Client struct {
	funnel *Funnel
	file   *file
	pos    linelog.Pos // behind what was appended last
	gone   bool

	// spare was passed for a file that is open. On a network file system a close writes back
	// what others have written, so it is not for the time that the client waits for an answer.
	spare [2]*os.File
}

// Append takes whole lines, all of them or none, and keeps nothing of p. It waits
// while too much waits to be written to the file. The lines of one client keep their
// order. Without lines Wait is for all that was taken until now, from any client, and
// for what was written through the descriptors before. Errors: those of linelog.Writer.Append, ErrClosed.
func (c *Client) Append(ctx context.Context, p []byte) error {
	ctx, done := c.funnel.bound(ctx)
	defer done()
	pos, err := c.file.writer.Append(ctx, p)
	if err != nil {
		return c.funnel.why(ctx, err)
	}
	c.pos = pos
	return nil
}

// Wait returns nil when all that the client has appended has reached the level. After
// an error it may reach it all the same: another Wait tells. Errors: those of
// linelog.Writer.Wait, ErrClosed.
func (c *Client) Wait(ctx context.Context, level settle.Level) error {
	ctx, done := c.funnel.bound(ctx)
	defer done()
	return c.funnel.why(ctx, c.file.writer.Wait(ctx, c.pos, level))
}

// Close says that the client has gone. What it has appended is written.
func (c *Client) Close() {
	if !c.gone {
		c.gone = true
		c.funnel.leave(c.file)
		for _, f := range c.spare {
			f.Close() //nolint:errcheck // nothing was written to it, or it is nil
		}
	}
}

// bound returns a context that also ends when the funnel gives up.
func (fu *Funnel) bound(ctx context.Context) (bounded context.Context, done func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(fu.ending, func() { cancel(ErrClosed) })
	return bounded, func() { stop(); cancel(nil) }
}

// why prefers the reason why ctx ended to the error that it has caused.
func (fu *Funnel) why(ctx context.Context, err error) error {
	if err != nil && fu.ending.Err() != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

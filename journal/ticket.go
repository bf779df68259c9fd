package journal

import (
	"context"

	"github.com/tidemark-log/tidemark/settle"
)

// Ticket stands for entries that were appended to one or more files, and lets
// their owner wait for them. It is a small value; the zero Ticket stands for
// nothing and never waits. It stays valid when a file is rotated or closed,
// since that settles it.
type Ticket struct {
	first, second ticketPart
	more          []ticketPart // from the third file on
}

type ticketPart struct {
	w *Writer
	p Pos
}

// Add makes t stand for what was appended to w up to p, too.
func (t *Ticket) Add(w *Writer, p Pos) {
	for _, part := range [...]*ticketPart{&t.first, &t.second} {
		if part.w == nil || part.w == w {
			part.w, part.p = w, max(part.p, p)
			return
		}
	}
	for i := range t.more {
		if t.more[i].w == w {
			t.more[i].p = max(t.more[i].p, p)
			return
		}
	}
	t.more = append(t.more[:len(t.more):len(t.more)], ticketPart{w, p})
}

// Join makes t stand for everything that o stands for, too.
func (t *Ticket) Join(o Ticket) {
	for _, part := range append([]ticketPart{o.first, o.second}, o.more...) {
		if part.w != nil {
			t.Add(part.w, part.p)
		}
	}
}

// Wait returns nil when everything t stands for has reached level, else the
// error of the first file that will not, or that of ctx.
func (t Ticket) Wait(ctx context.Context, level settle.Level) error {
	for _, part := range [...]ticketPart{t.first, t.second} {
		if part.w == nil {
			return nil
		}
		if err := part.w.Wait(ctx, part.p, level); err != nil {
			return err
		}
	}
	for _, part := range t.more {
		if err := part.w.Wait(ctx, part.p, level); err != nil {
			return err
		}
	}
	return nil
}

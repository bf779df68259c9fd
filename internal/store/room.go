package store

import (
	"context"
	"fmt"
	"sync"
)

// room is whether the disk takes entries, as a context that ends when it does
// not: who waits for what needs the disk gives up with it.
type room struct {
	mu   sync.Mutex
	ctx  context.Context //nolint:containedctx // the state itself, not that of a call
	shut context.CancelCauseFunc
}

// context returns the present state.
func (r *room) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		r.ctx, r.shut = context.WithCancelCause(context.Background())
	}
	return r.ctx
}

// end says that there is no room, because of err.
func (r *room) end(err error) {
	r.context()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut(fmt.Errorf("the disk is full, what was accepted waits for space: %w", err))
}

// again says that there is room.
func (r *room) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil && r.ctx.Err() != nil {
		r.ctx = nil
	}
}

// tryWrite writes what the files hold. It syncs nothing, and takes no loss that a
// Synchronize is to report.
func (s *Store) tryWrite(ctx context.Context) error {
	for _, f := range s.open() {
		if err := f.w.SettleIndex(ctx); err != nil {
			return fmt.Errorf("write %s: %w", f.w.Path(), err)
		}
	}
	return nil
}

// WhileRoom calls f with a context that also ends when the disk is full, and
// returns the error of f; then it wraps ENOSPC or EDQUOT. While the disk is full
// it tries once more whether it is, before it calls f.
func (s *Store) WhileRoom(ctx context.Context, f func(context.Context) error) error {
	if s.room.context().Err() != nil {
		if err := s.tryWrite(ctx); err != nil {
			return err
		}
		s.room.again()
		s.progress.ring() // who waits for a file says so again if there is none
	}
	state := s.room.context()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(state, func() { cancel(context.Cause(state)) })
	defer stop()
	if err := f(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

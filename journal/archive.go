package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Close writes what is pending, with all links, syncs it, marks the file
// OFFLINE and closes it. Appends that wait for room get ErrClosed. When it
// returns nil everything appended is synced, and OpenWriter can continue the file.
//
// With an error the file is closed too, but stays ONLINE: what Wait has not
// confirmed may be missing, and Repair brings it into order. One attempt is made.
// A second call, also a concurrent one, waits and returns the same. A crash before
// the last sync may leave the file ONLINE, for Repair, with all that was synced.
//
// System calls: those of what is pending; fsync, pwrite of the header, fsync,
// close.
func (w *Writer) Close() error {
	if err := w.shut(StateOffline); err != nil {
		return fmt.Errorf("close journal %s: %w", w.Path(), err)
	}
	return nil
}

// Archive is Close for a file that will not be continued: it also gives back
// the space that was allocated ahead and marks the file ARCHIVED. When ctx ends
// before everything is synced it returns ctx's error, and the file is still
// open. Other errors, and a crash, leave what those of Close do.
//
// System calls: those of what is pending; pwrite of the header, ftruncate, fsync,
// pwrite of the header, fsync, close.
func (w *Writer) Archive(ctx context.Context) error {
	err := w.Settle(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("archive journal %s: %w", w.Path(), err)
	}
	if err := w.shut(StateArchived); err != nil {
		return fmt.Errorf("archive journal %s: %w", w.Path(), err)
	}
	return nil
}

// Discard closes a file that nothing was appended to and removes it. It waits for
// no sync, and after an error the file may be left.
func (w *Writer) Discard() error {
	if err := errors.Join(w.shut(StateOnline), w.fs.Remove(w.Path())); err != nil {
		return fmt.Errorf("discard journal: %w", err)
	}
	return nil
}

// shut ends the writer, once. What stays ONLINE is not sealed.
func (w *Writer) shut(s State) error {
	w.finish.Do(func() {
		w.mu.Lock()
		w.noMore = true
		w.mu.Unlock()
		w.order.more() // who waits for this writer finds that there is no more of it
		// In this order: each marks the next.
		err := w.write.Close()
		err = errors.Join(err, w.index.Close())
		w.order.leave(w)
		if err == nil {
			w.mu.Lock()
			w.m.release() // all is written; a sync may take long
			w.mu.Unlock()
		}
		err = errors.Join(err, w.sync.Close())
		if err == nil && s != StateOnline {
			err = w.seal(s)
		}
		w.securing.Lock()
		w.secured = true
		w.securing.Unlock()
		w.finished = errors.Join(err, w.f.Close())
		w.mu.Lock()
		w.m.release()
		w.stage = wStage{}
		w.staged = 0
		w.account()
		w.mu.Unlock()
		w.order.more()
	})
	return w.finished
}

// seal brings the file into its final state. Everything is written; the sync
// here covers links that were written after the last one.
func (w *Writer) seal(s State) error {
	if err := w.Secure(); err != nil {
		return err
	}
	w.growing.Lock()
	defer w.growing.Unlock()
	w.mu.Lock()
	h := w.m.hdr
	end := w.m.end()
	w.mu.Unlock()
	var b [object.HeaderSize254]byte
	put := func() error {
		encodeHeader(b[:], &h)
		_, err := w.f.WriteAt(b[:h.HeaderSize], 0)
		return err
	}
	if s == StateArchived {
		// The header first: a reader must not find it promising more than there is.
		h.ArenaSize = end - h.HeaderSize
		if err := put(); err != nil {
			return err
		}
		if err := w.f.Truncate(int64(end)); err != nil {
			return err
		}
	}
	if err := w.f.Sync(); err != nil {
		return syncFailed(err)
	}
	h.State = s
	if err := put(); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return syncFailed(err)
	}
	w.mu.Lock()
	w.m.hdr = h
	w.mu.Unlock()
	return nil
}

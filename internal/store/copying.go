package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// copying writes entries of files that were set aside into others: one, or more
// when it does not hold them all.
type copying struct {
	store *Store
	owed  *owed
	w     *journal.Writer // nil: none is begun
	of    *aside          // whose entries it takes
	pos   journal.Pos     // of the last entry in w; 0: none
}

// add stores one entry of a. It waits for the disk only when the buffer is full,
// and no longer than until a write fails.
func (c *copying) add(ctx context.Context, a *aside, e *entry.Entry) error {
	one := []entry.Entry{*e}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.begin(ctx, a); err != nil {
			return err
		}
		pos, n, err := c.w.TryAppend(one)
		switch {
		case n == 1:
			c.pos = pos
			a.held, a.heldTo = a.held+1, e.Seqnum
			return nil
		case errors.Is(err, journal.ErrBufferFull):
			if err := c.w.Wait(ctx, c.pos, settle.Appended); err != nil {
				return err
			}
		case errors.Is(err, journal.ErrFull) && c.pos > 0:
			if err := c.finish(ctx); err != nil {
				return err
			}
		case isEntryError(err):
			return nil // counted as one that could not be read
		default:
			return err
		}
	}
}

// begin creates a file unless there is one with what comes before. A file has no
// gap that another fills: its name, first and last number say what is in it.
func (c *copying) begin(ctx context.Context, a *aside) error {
	if c.w != nil && (c.of == a || c.of.seqnumID == a.seqnumID && c.of.last == a.after) {
		c.of = a
		return nil
	}
	if err := c.finish(ctx); err != nil {
		return err
	}
	s := c.store
	set := s.settings.Load()
	s.makeRoom()
	path := filepath.Join(s.dir, fmt.Sprintf("%s%016x", nextPrefix, rand.Uint64()))
	w, err := journal.Create(path, journal.Options{
		FS:                s.fs,
		Flavour:           set.Flavour,
		MachineID:         s.cfg.MachineID,
		BootID:            s.cfg.BootID,
		MaxSize:           set.Limits.MaxFileSize,
		Buffer:            readBackBuffer,
		CompressThreshold: set.CompressThreshold,
		SeqnumID:          a.seqnumID,
		Seqnum:            a.after,
		KeepNumbers:       true,
	})
	if err != nil {
		return err
	}
	c.w, c.of, c.pos = w, a, 0
	return nil
}

// finish makes the file an archive. It gets the name by which others see it when
// all of it is synced: who finds an entry there may take it for safe. A kill, or a
// power cut, before that leaves a prepared file with entries, which the next start
// makes an archive.
func (c *copying) finish(ctx context.Context) error {
	if c.w == nil {
		return nil
	}
	s, sl := c.store, c.owed.slot
	if sl.uid != 0 {
		s.allow(c.w.Path(), sl.uid)
	}
	if err := c.w.Archive(ctx); err != nil {
		return err
	}
	st := c.w.Stats()
	name := journal.ArchiveName(sl.base, st.SeqnumID, st.HeadSeqnum, st.HeadRealtime)
	if err := c.w.Rename(filepath.Join(s.dir, name)); err != nil && filepath.Base(c.w.Path()) != name {
		return err // else only the sync of the name has failed: it has one of the two
	}
	c.w = nil
	for i := range c.owed.files {
		a := &c.owed.files[i]
		if a.held == 0 {
			continue
		}
		s.counts.readBack.Add(a.held)
		a.kept = append(a.kept, name)
		a.stored += a.held
		a.after, a.held = a.heldTo, 0
	}
	return nil
}

// abandon removes the file that is not whole. What was finished before stays.
func (c *copying) abandon() {
	if c.w == nil {
		return
	}
	path := c.w.Path()
	c.w.Close()             //nolint:errcheck // it is removed
	c.store.fs.Remove(path) //nolint:errcheck // else the next start treats it
	for i := range c.owed.files {
		c.owed.files[i].held, c.owed.files[i].heldTo = 0, 0
	}
}

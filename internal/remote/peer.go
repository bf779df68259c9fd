package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// asidePause is the least time between two files of a peer that are set aside
// because a sync has failed.
const asidePause = time.Minute

// peer is who uploads, and its file.
type peer struct {
	files *Files
	base  string        // of its files' names
	turn  chan struct{} // holds a value while somebody has the peer; guards what follows

	w        *journal.Writer        // nil: closed
	failed   *atomic.Pointer[error] // of the sync of w, or of the file being opened, that has failed
	pos      journal.Pos            // behind the last entry appended to w
	latest   uint64                 // latest realtime in w, or of an entry that was to be in it
	seqnumID entry.ID               // sequence that a new file goes on with
	seqnum   uint64
	breaks   allowance
	aside    time.Time // when a file was last set aside
	gone     bool      // its file has become an archive, the peer is not known any more
	ended    bool      // no file is opened any more

	current atomic.Pointer[journal.Writer] // w, for those who look only
	used    atomic.Int64                   // µs since 1970 of the last append
}

// release gives the peer back.
func (p *peer) release() { <-p.turn }

// have makes w, which may be nil, the current writer.
func (p *peer) have(w *journal.Writer) {
	if was := p.w != nil; was != (w != nil) {
		if was {
			p.files.open.Add(-1)
		} else if p.files.open.Add(1) > int64(p.files.cfg.MaxOpen) {
			p.files.bell.Ring()
		}
	}
	p.w, p.pos, p.latest = w, 0, 0
	if w != nil {
		p.latest = w.TailRealtime()
	}
	p.current.Store(w)
}

// append is Files.Append.
func (p *peer) append(ctx context.Context, entries []entry.Entry) (t journal.Ticket, done int, err error) {
	for done < len(entries) {
		if err := p.ready(ctx); err != nil {
			return t, done, err
		}
		ordered := p.ordered(entries[done:])
		if ordered == 0 {
			if err := p.rotate("the clock went back"); err != nil {
				return t, done, err
			}
			continue
		}
		w := p.w
		pos, n, err := w.TryAppend(entries[done : done+ordered])
		p.pos = pos
		if n > 0 {
			t.Add(w, pos)
			p.breaks.earn(n)
			done += n
		}
		if err != nil {
			if err := p.resolve(ctx, err); err != nil {
				return t, done, err
			}
		}
	}
	return t, done, nil
}

// ordered counts the entries at the front that belong into the current file by
// their realtime. 0 says that the file is to be ended. When that has happened too
// often it is not: the file is right, only slower to find a time in.
func (p *peer) ordered(entries []entry.Entry) (n int) {
	if n, p.latest = journal.InStep(entries, p.latest); n > 0 {
		return n
	}
	if p.breaks.take(time.Now()) {
		p.files.counts.breaks.Add(1)
		return 0
	}
	n, p.latest = journal.InStep(entries, 0)
	return n
}

// resolve does what lets an append go on that has ended with err.
func (p *peer) resolve(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, journal.ErrBufferFull):
		// Unlike an Append that waits for room, this learns that the disk is full.
		return p.w.Wait(ctx, p.pos, settle.Appended)
	case errors.Is(err, journal.ErrFull):
		reason, _ := p.w.RotateDue()
		return p.rotate(reason)
	case errors.Is(err, journal.ErrOrder):
		if !p.breaks.take(time.Now()) {
			return ErrDisorder
		}
		p.files.counts.breaks.Add(1)
		reason := "order broken"
		var bad *journal.EntryError
		if errors.As(err, &bad) && bad.Detail != "" {
			reason += ": monotonic time " + bad.Detail
		}
		return p.rotate(reason)
	default:
		return err
	}
}

// ready makes sure that there is a file that takes entries.
func (p *peer) ready(ctx context.Context) error {
	if p.w != nil {
		st := p.w.Stats()
		switch {
		case p.files.lacks(st.Path):
			w := p.w
			p.remember(w)
			p.have(nil)
			w.Close() //nolint:errcheck // what it held is gone
			p.files.event(2, "%s.journal was removed while it was being written: what it held is gone, a new file is begun", p.base)
		case st.SyncErr != nil:
			if err := p.setAside(st.SyncErr); err != nil {
				return err
			}
		case st.WriteErr != nil: // nothing is taken on top of what cannot be written
			if err := p.w.Wait(ctx, p.pos, settle.Appended); err != nil {
				return err
			}
		}
	}
	if p.w != nil {
		return nil
	}
	return p.open()
}

// remember keeps the sequence of w for the next file.
func (p *peer) remember(w *journal.Writer) { p.seqnumID, p.seqnum = w.Seqnum() }

// setAside ends a file whose sync has failed: it is not trusted any more. On a
// disk that fails every sync that is done once in asidePause.
func (p *peer) setAside(cause error) error {
	if now := time.Now(); now.Sub(p.aside) < asidePause {
		return cause
	}
	w := p.w
	w.SettleIndex(context.Background()) //nolint:errcheck // what cannot be written is lost with the file
	kept := asideName(p.base, w)
	if err := w.Rename(p.files.path(kept)); err != nil && filepath.Base(w.Path()) != kept {
		return err
	}
	p.aside = time.Now()
	p.remember(w)
	p.have(nil)
	w.Close() //nolint:errcheck // its sync has failed, which is told here
	p.files.tellAside(p.base+".journal", kept, cause)
	return nil
}

// tellAside tells that a file was set aside, which is closed.
func (f *Files) tellAside(name, kept string, cause error) {
	f.event(2, "%s set aside as %s, since a sync of it failed: what it holds may not survive a power cut: %v", name, kept, cause)
	if f.cfg.Rotated != nil {
		f.cfg.Rotated()
	}
}

// asideName is the name for w, whose sync has failed. Where others have a random
// number it has that of the last entry that is synced, if there are later ones: it
// tells the store what is to be stored again.
func asideName(base string, w *journal.Writer) string {
	synced := w.SyncedSeqnum()
	if _, last := w.Seqnum(); synced == last {
		return disposed(base)
	}
	return journal.DisposedName(base, uint64(time.Now().UnixMicro()), synced)
}

// disposed is a name for a file that is set aside.
func disposed(base string) string {
	return journal.DisposedName(base, uint64(time.Now().UnixMicro()), rand.Uint64())
}

// rotate gives the current file the name of an archive, which it is to become. It
// waits until the file is written; with an error it is still the current one.
func (p *peer) rotate(reason string) error {
	w := p.w
	if err := w.SettleIndex(context.Background()); err != nil {
		return err
	}
	st := w.Stats()
	if st.SyncErr != nil {
		return p.setAside(st.SyncErr)
	}
	kept := journal.ArchiveName(p.base, st.SeqnumID, st.HeadSeqnum, st.HeadRealtime)
	if err := w.Rename(p.files.path(kept)); err != nil {
		return err
	}
	p.remember(w)
	p.files.leave(leaving{w, p.base, make(chan struct{})})
	p.have(nil)
	p.files.counts.rotations.Add(1)
	p.files.event(6, "%s.journal rotated to %s: %s", p.base, kept, reason)
	return nil
}

// close closes the file, which can be gone on with.
func (p *peer) close() error {
	w := p.w
	if w == nil {
		return nil
	}
	p.remember(w)
	p.have(nil)
	err := w.Close()
	if err != nil {
		p.files.tellLost(leaving{w: w, base: p.base}, err)
	}
	return err
}

// retire makes the peer's file an archive and forgets the peer. False: it cannot
// now.
func (p *peer) retire() bool {
	if p.gone || p.ended {
		return false
	}
	if p.w == nil && !p.files.lacks(p.files.path(p.base+".journal")) {
		if err := p.open(); err != nil {
			return false
		}
	}
	if p.w != nil {
		if p.w.Stats().Entries == 0 {
			if p.discard() != nil {
				return false
			}
		} else if p.rotate("more than "+fmt.Sprint(p.files.cfg.MaxPeers)+" peers") != nil {
			return false
		}
	}
	p.gone = true
	p.files.mu.Lock()
	delete(p.files.peers, p.base)
	p.files.mu.Unlock()
	return true
}

// discard removes the current file, which has no entries.
func (p *peer) discard() error {
	w := p.w
	p.remember(w)
	p.have(nil)
	return w.Discard()
}

// open opens the current file, or begins a new one.
func (p *peer) open() error {
	if p.ended {
		return ErrClosed
	}
	if p.files.open.Load() >= 2*int64(p.files.cfg.MaxOpen) {
		p.files.bell.Ring()
		return ErrPeers
	}
	if err := p.takeCurrent(); err != nil || p.w != nil {
		return err
	}
	o := p.options()
	o.SeqnumID, o.Seqnum = p.seqnumID, p.seqnum
	w, err := journal.Create(p.files.path(p.base+".journal"), o)
	if err != nil {
		return err
	}
	p.have(w)
	return nil
}

// options of every file of the peer.
func (p *peer) options() journal.Options {
	f := p.files
	set := f.cfg.Settings()
	failed := &atomic.Pointer[error]{}
	p.failed = failed
	count := f.cfg.Effects.Of()
	return journal.Options{
		FS:                f.cfg.FS,
		Flavour:           set.Flavour,
		MachineID:         f.cfg.MachineID,
		SyncLater:         true,
		MaxSize:           set.MaxSize,
		Sync:              set.Sync,
		Index:             set.Index,
		Buffer:            buffer,
		CompressThreshold: set.CompressThreshold,
		Observe: func(effect string, d time.Duration, covered uint64, err error) {
			count(effect, d, covered, err)
			if effect != "sync" {
				return
			}
			f.counts.syncs.Add(1)
			if err != nil {
				f.counts.syncErrors.Add(1)
				failed.Store(&err)
				f.fail(p)
			}
		},
	}
}

// goOnOptions are the options of a file that is gone on with: its last entry may be
// later than this machine's clock.
func (p *peer) goOnOptions() journal.Options {
	o := p.options()
	o.Clock = func() (uint64, uint64) { return math.MaxUint64, 0 }
	return o
}

func (f *Files) path(name string) string { return filepath.Join(f.cfg.Dir, name) }

// lacks reports whether there is no file of that name.
func (f *Files) lacks(path string) bool {
	_, err := f.fs.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

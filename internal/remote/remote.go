// Package remote keeps the journal files of other machines: for each peer that
// uploads one file that is being written, remote-PEER.journal, named and rotated
// as systemd-journal-remote and journald do it. Entries keep their times, boots
// and order, and get numbers of this machine.
//
// A peer's file is opened by its first append and closed when it has been idle. An
// append waits for what its own peer has to write, never for another's. One
// goroutine closes idle files; Close joins it.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Config of Files. Dir and MachineID are required.
type Config struct {
	// FS holds the files. Nil means the machine's.
	FS vfs.FS
	// Dir is the directory of the files. It must exist, and nobody else may write
	// the remote-….journal there.
	Dir string
	// MachineID is this machine's, which stands in every file.
	MachineID entry.ID
	// Settings are asked for whenever a file is opened. Nil: the zero Settings.
	Settings func() Settings
	// Event tells what happens to files, with its priority. Nil: nobody is told. It
	// must not wait.
	Event func(priority int, text string)
	// Rotated is called when a file has become an archive, which takes space, or was
	// set aside, since what no sync has covered is to be stored again. Nil:
	// nobody is told. It must not wait.
	Rotated func()
	// MaxOpen is how many files stay open; more are for a moment, and at most twice
	// as many. 0: DefaultMaxOpen.
	MaxOpen int
	// MaxPeers is how many peers have a file that is being written; beyond that the
	// one that is idle for longest gets an archive's name, so that it can make
	// room. 0: DefaultMaxPeers.
	MaxPeers int
	// Idle is after how long without an append a file is closed. 0: DefaultIdle.
	Idle time.Duration
	// Effects counts what writing, indexing and syncing the files costs. Nil: nobody
	// does.
	Effects *histogram.Effects
}

// Defaults of Config.
const (
	DefaultMaxOpen  = 64
	DefaultMaxPeers = 128
	DefaultIdle     = time.Hour
)

// Settings hold for files that are opened after they were set.
type Settings struct {
	MaxSize           uint64 // of a file in bytes; 0: journal.DefaultMaxSize
	Sync              settle.Policy
	Index             time.Duration
	CompressThreshold int
	Flavour           journal.Flavour
}

// buffer bounds what a peer has accepted and not yet written, in bytes.
const buffer = 4 << 20

// Errors of Append.
var (
	// ErrClosed says that Close has begun.
	ErrClosed = errors.New("uploads have ended")
	// ErrPeers says that too many peers write at once; it is a
	// journal.ErrBufferFull: later there may be room.
	ErrPeers = fmt.Errorf("too many peers write at once: %w", journal.ErrBufferFull)
	// ErrDisorder says that the peer's entries jump back in time so often that each
	// few of them would need a file; it is a journal.ErrOrder.
	ErrDisorder = fmt.Errorf("the entries jump back in time too often: send them in the order of time, one stream at a time: %w", journal.ErrOrder)
)

// Files are the files of all peers. Its methods may be called concurrently.
type Files struct {
	cfg    Config
	fs     vfs.FS
	bell   *settle.Bell // peers have become more
	left   *settle.Bell // a file is to be archived, or its sync has failed
	stop   context.CancelFunc
	joined sync.WaitGroup

	mu      sync.Mutex
	peers   map[string]*peer // by base, open or on disk
	leaving []leaving        // rotated, not yet archived
	failing []*peer          // a sync of their files has failed
	closed  bool

	open   atomic.Int64 // files with a writer
	counts struct{ rotations, breaks, syncs, syncErrors atomic.Uint64 }
}

// Open looks for the files that an earlier run has left: one that was not closed
// is repaired and becomes an archive, the others are gone on with when their peer
// comes back. It blocks on the disk.
func Open(cfg Config) (*Files, error) {
	f := &Files{cfg: cfg, fs: cfg.FS, bell: settle.NewBell(), left: settle.NewBell(), peers: make(map[string]*peer)}
	if f.fs == nil {
		f.fs = vfs.OS{}
	}
	if f.cfg.Settings == nil {
		f.cfg.Settings = func() Settings { return Settings{} }
	}
	if f.cfg.MaxOpen <= 0 {
		f.cfg.MaxOpen = DefaultMaxOpen
	}
	if f.cfg.MaxPeers <= 0 {
		f.cfg.MaxPeers = DefaultMaxPeers
	}
	if f.cfg.Idle <= 0 {
		f.cfg.Idle = DefaultIdle
	}
	if err := f.takeOver(); err != nil {
		return nil, fmt.Errorf("open the files of uploads in %s: %w", cfg.Dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.joined.Go(func() { f.tend(ctx) })
	f.joined.Go(func() { f.archive(ctx) })
	return f, nil
}

// Append appends entries, which must have times, to the peer's file, to as many
// files as that takes. It returns a ticket for those appended and their number:
// all when err is nil. It copies what it keeps. It waits while more than a few MiB
// of the peer are to be written, and for a rotation of the peer's file.
//
// Errors: a *journal.EntryError says that entries[n] can be in no file; ErrPeers,
// ErrDisorder and ErrClosed; ENOSPC or EDQUOT inside when the disk is full; that of
// another write or sync; that of ctx.
func (f *Files) Append(ctx context.Context, name string, entries []entry.Entry) (journal.Ticket, int, error) {
	p, err := f.acquire(ctx, "remote-"+escape(name))
	if err != nil {
		return journal.Ticket{}, 0, err
	}
	defer p.release()
	return p.append(ctx, entries)
}

// acquire returns the peer, which is then the caller's until release.
func (f *Files) acquire(ctx context.Context, base string) (*peer, error) {
	for {
		p, err := f.peer(base)
		if err != nil {
			return nil, err
		}
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !p.gone {
			p.used.Store(time.Now().UnixMicro())
			return p, nil
		}
		p.release() // it has become an archive meanwhile
	}
}

// peer finds or makes a peer.
func (f *Files) peer(base string) (*peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	p := f.peers[base]
	switch {
	case p != nil:
	case len(f.peers) >= 2*f.cfg.MaxPeers:
		f.bell.Ring()
		return nil, ErrPeers
	default:
		p = f.add(base)
		p.used.Store(time.Now().UnixMicro())
		if len(f.peers) > f.cfg.MaxPeers {
			f.bell.Ring()
		}
	}
	return p, nil
}

// add makes a peer. Called with mu held, or before anyone else knows f.
func (f *Files) add(base string) *peer {
	p := &peer{files: f, base: base, turn: make(chan struct{}, 1), breaks: newAllowance(time.Now())}
	f.peers[base] = p
	return p
}

// all lists the peers, the one that is idle for longest first.
func (f *Files) all() []*peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	type used struct {
		p  *peer
		at int64
	}
	var list []used
	for _, p := range f.peers {
		list = append(list, used{p, p.used.Load()})
	}
	slices.SortFunc(list, func(a, b used) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.p.base, b.p.base))
	})
	peers := make([]*peer, 0, len(list))
	for _, u := range list {
		peers = append(peers, u.p)
	}
	return peers
}

// tend closes idle files until ctx is done.
func (f *Files) tend(ctx context.Context) {
	timer := time.NewTimer(f.cfg.Idle)
	defer timer.Stop()
	for {
		if next := f.sweep(); next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-f.bell.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep closes the files that are idle or too many. It returns how long until the
// next is idle; 0 when none is open. A file that is in use now is passed over.
func (f *Files) sweep() (next time.Duration) {
	peers := f.all()
	now := time.Now()
	excess := len(peers) - f.cfg.MaxPeers
	for _, p := range peers {
		idle := now.Sub(time.UnixMicro(p.used.Load()))
		isOpen := p.current.Load() != nil
		tooMany := f.open.Load() > int64(f.cfg.MaxOpen)
		if excess <= 0 && (!isOpen || !tooMany && idle < f.cfg.Idle) {
			if isOpen && (next == 0 || f.cfg.Idle-idle < next) {
				next = f.cfg.Idle - idle
			}
			continue
		}
		select {
		case p.turn <- struct{}{}:
		default:
			if next == 0 { // it is in use: not idle for as long again
				next = f.cfg.Idle
			}
			continue
		}
		if excess > 0 {
			if p.retire() {
				excess--
			}
		} else {
			p.close() //nolint:errcheck // told as an event
		}
		p.release()
	}
	return next
}

// Synchronize has everything appended before the call written, indexed and synced,
// in all files that are open, at the same time.
func (f *Files) Synchronize(ctx context.Context) error {
	files := f.writers()
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	for i, w := range files {
		wg.Go(func() {
			if err := w.Settle(ctx); err != nil && !errors.Is(err, journal.ErrClosed) {
				errs[i] = fmt.Errorf("sync %s: %w", w.Path(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// writers lists those of the current files and of what is to become an archive. A
// file that goes from the one to the other meanwhile is among them.
func (f *Files) writers() (files []*journal.Writer) {
	for _, p := range f.all() {
		if w := p.current.Load(); w != nil {
			files = append(files, w)
		}
	}
	for _, l := range f.leavers() {
		if !slices.Contains(files, l.w) {
			files = append(files, l.w)
		}
	}
	return files
}

// Rotate gives every open file that has entries the name of an archive. It waits for
// no sync: the files may still be on their way to the disk.
func (f *Files) Rotate(ctx context.Context) error {
	return f.each(func(p *peer) error {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		defer p.release()
		if p.w == nil || p.w.Stats().Entries == 0 {
			return nil
		}
		return p.rotate("asked for")
	})
}

// each calls do for every peer, at the same time.
func (f *Files) each(do func(*peer) error) error {
	peers := f.all()
	errs := make([]error, len(peers))
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close refuses new entries and closes all files. When it returns nil everything
// appended is synced. Further calls do nothing.
func (f *Files) Close() error {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if was {
		return nil
	}
	f.stop()
	f.joined.Wait()
	err := f.each(func(p *peer) error {
		p.turn <- struct{}{}
		defer p.release()
		p.ended = true
		return p.close()
	})
	return errors.Join(err, f.archiveAll())
}

// Count tells how often something happened.
type Count struct {
	Reason string
	N      uint64
}

// Status is the state of Files.
type Status struct {
	Files             []journal.Stats // of the open files
	Syncs, SyncErrors uint64
	Counts            []Count
}

// Status describes the files at this moment. It touches no file.
func (f *Files) Status() (st Status) {
	f.Look(&st)
	return st
}

// Look is Status that fills in st, whose lists it uses again.
func (f *Files) Look(st *Status) {
	*st = Status{
		Syncs: f.counts.syncs.Load(), SyncErrors: f.counts.syncErrors.Load(), Files: st.Files[:0],
		Counts: append(st.Counts[:0], Count{"rotation", f.counts.rotations.Load()}, Count{"order_break", f.counts.breaks.Load()}),
	}
	for _, w := range f.writers() {
		st.Files = append(st.Files, w.Stats())
	}
}

func (f *Files) event(priority int, format string, args ...any) {
	if f.cfg.Event != nil {
		f.cfg.Event(priority, fmt.Sprintf(format, args...))
	}
}

// escape makes a name a part of a file name, as systemd-journal-remote does: what
// cannot or should not stand there becomes \xNN. A name is cut where its archives'
// names would be too long.
func escape(name string) string {
	const longest = 120
	var b strings.Builder
	for i := 0; i < len(name) && b.Len() < longest; i++ {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '/' || c == '\\' || c == '@' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Package store keeps the files that are being written: which entry goes to
// which file, when a file is rotated, how much space archived files may take,
// and what happens at start to a file that was not closed.
//
// Two goroutines look after the files and are joined by Close. The janitor
// looks after the current ones: it prepares the next file under a name that no
// reader opens, gives files their names, grows them ahead of the writer and
// closes idle ones. The archiver settles and archives what was rotated out and
// removes what there is no space for. An append does none of this: rotation is
// a change of a pointer to the prepared file. Both goroutines sleep until a
// bell rings or something has come of age.
package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/histogram"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// Config of a Store. Dir, MachineID and BootID are required.
type Config struct {
	// FS holds the files. Nil means the machine's, which is locked against a
	// second store; another one is not.
	FS vfs.FS
	// Dir is the data directory; files are in Dir/MACHINE-ID.
	Dir               string
	MachineID, BootID entry.ID
	// Settings of new files, which Configure can change.
	Settings
	// Split gives each user a file of its own. Without it all entries go to the
	// system file.
	Split bool
	// Self are the fields that the store's own entries carry beside message,
	// priority and transport: _PID, _BOOT_ID and their like.
	Self []entry.Field
	// Say prints one line for the operator. Nil: nobody is told. It is called
	// from any goroutine and must not block for long.
	Say func(line string)
	// Clock returns CLOCK_REALTIME and CLOCK_MONOTONIC in µs. Nil: the machine's.
	Clock func() (realtime, monotonic uint64)
	// Changed is called when Status may say something else of Full, Failing, or the
	// number of files. It must not block and not call the store. Nil: nobody is told.
	Changed func()
	// Effects counts what writing, indexing and syncing the files costs. Nil: nobody
	// does.
	Effects *histogram.Effects
}

// Settings hold for the files that are begun after they were set.
type Settings struct {
	// Sync and Index are the policies of every file: see journal.Options.
	Sync  settle.Policy
	Index time.Duration
	// Buffer bounds what all files have accepted and not yet written, in bytes. 0:
	// journal.DefaultBuffer.
	Buffer int64
	// Limits of space, number and age.
	Limits Limits
	// CompressThreshold and Flavour: see journal.Options.
	CompressThreshold int
	Flavour           journal.Flavour
}

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("the store is closed")

// errNoFile says that the janitor has to open or prepare a file first.
var errNoFile = fmt.Errorf("the next file is not ready yet: %w", journal.ErrBufferFull)

// Store is the set of current files. Its methods may be called concurrently.
type Store struct {
	cfg      Config
	fs       vfs.FS
	dir      string // of the files
	clock    func() (realtime, monotonic uint64)
	settings atomic.Pointer[Settings] // with the limits of this file system
	lock     *Lock                    // nil with a file system of the caller

	room  room           // whether the disk takes entries
	order *journal.Order // of what all files show

	system  *slot
	usersMu sync.RWMutex
	users   map[uint32]*slot // guarded by usersMu

	spares   spares
	janitor  *settle.Bell
	archiver *settle.Bell
	progress gate // rung when space, a file or a name has become available
	misses   gate // rung when a user's file could not be opened, or one not be archived
	stop     context.CancelFunc
	joined   sync.WaitGroup

	configuring chan struct{} // holds a value while Configure is at it

	queueMu    sync.Mutex
	retired    []retired             // swapped out, not yet renamed; guarded by queueMu
	renamed    bool                  // the directory is to be synced; guarded by queueMu
	leaving    []leaving             // renamed, not yet archived; guarded by queueMu
	unarchived atomic.Pointer[error] // why one of leaving was refused last
	closing    []*file               // no longer current, still being closed; guarded by queueMu
	lost       []error               // of forgotten files, not yet returned by a Synchronize; guarded by queueMu

	owed    []*owed         // of files that were set aside; the archiver's
	known   map[string]bool // uploads' files that were set aside and looked at; the archiver's
	uploads atomic.Bool     // there may be more of them

	vacuumMu sync.Mutex
	spared   map[string]bool       // archived by this start; guarded by vacuumMu
	usage    atomic.Pointer[Usage] // as the last vacuum found it

	tellMu  sync.Mutex // held while pending events are stored
	eventMu sync.Mutex
	saidAt  map[string]uint64 // when a thing was last said, monotonic µs; guarded by eventMu
	pending []event           // own entries that found no room; guarded by eventMu

	preparing  atomic.Pointer[error] // why the last prepare failed; nil: it did not
	refusal    atomic.Pointer[error] // why makeSpace failed when it last ran; nil: it did not
	refused    atomic.Uint64         // monotonic time before which the disk is not asked for space again
	unsyncable atomic.Uint64         // likewise, since a prepared file could not be synced
	counts     counts
	closed     atomic.Bool
	closeOnce  sync.Once
	closeErr   error
}

// Open takes over the data directory: it locks it, repairs and archives what an
// earlier run left open, goes on with what was closed, and returns once there
// is a current system file. It blocks on the disk.
func Open(cfg Config) (*Store, error) {
	s := &Store{
		cfg:      cfg,
		fs:       cfg.FS,
		dir:      filepath.Join(cfg.Dir, cfg.MachineID.String()),
		clock:    cfg.Clock,
		users:    make(map[uint32]*slot),
		known:    make(map[string]bool),
		order:    journal.NewOrder(),
		janitor:  settle.NewBell(),
		archiver: settle.NewBell(),

		configuring: make(chan struct{}, 1),
	}
	if s.clock == nil {
		s.clock = systemClock()
	}
	s.usage.Store(&Usage{})
	s.system = &slot{store: s, base: "system"}
	if err := s.takeDirectory(); err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	if err := s.begin(); err != nil {
		s.abandon()
		return nil, fmt.Errorf("open %s: %w", s.dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.joined.Go(func() { s.tend(ctx) })
	s.joined.Go(func() { s.archive(ctx) })
	return s, nil
}

// begin brings the files into order and makes the first system file.
func (s *Store) begin() error {
	avail, err := s.set(s.cfg.Settings)
	if err != nil {
		return err
	}
	s.usage.Store(&Usage{Limit: s.settings.Load().Limits.allowed(0, avail), Available: avail}) // until the first look
	notes, err := s.takeOver()
	if err != nil {
		return err
	}
	s.spareTaken()
	if s.system.f == nil {
		if err := s.beginSystem(avail); err != nil {
			return err
		}
	}
	for _, n := range notes {
		s.Event(n.priority, n.id, n.text)
	}
	return nil
}

// beginSystem makes the first system file. On a full disk, where an earlier run
// may have ended too, it does not: senders wait, or are refused, until the
// janitor could make one.
func (s *Store) beginSystem(avail uint64) error {
	f, err := s.prepare()
	if outOfSpace(err) {
		if _, err := s.vacuum(growStep); err != nil {
			s.saySeldom("look for space", err)
		}
		f, err = s.prepare()
	}
	if outOfSpace(err) {
		s.preparing.Store(&err)
		s.counts.diskFull.Add(1)
		text := fmt.Sprintf("the disk is full (%d bytes free): senders wait until there is space for the first file: %v", avail, err)
		s.say(text)
		s.later(event{3, msgStore, text})
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the first file (%d bytes free): %w", avail, err)
	}
	if err := f.w.Secure(); err != nil {
		f.discard()
		return fmt.Errorf("sync the first file: %w", err)
	}
	s.system.adopt(f)
	if err := s.name(f, s.system); err != nil {
		f.discard()
		return err
	}
	s.system.set(f)
	return nil
}

// set makes the settings those of the files to come, on this file system.
func (s *Store) set(set Settings) (avail uint64, err error) {
	avail, total, err := s.fs.Free(s.dir)
	if err != nil {
		return 0, err
	}
	if set.Buffer == 0 {
		set.Buffer = journal.DefaultBuffer
	}
	set.Limits = set.Limits.resolve(total)
	s.settings.Store(&set)
	return avail, nil
}

// Configure changes the settings and begins new files, which have them. It
// returns as Rotate does; with an error the settings are as they were. Of calls at
// the same time one waits for the other.
func (s *Store) Configure(ctx context.Context, set Settings) error {
	select {
	case s.configuring <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("configure %s: %w", s.dir, context.Cause(ctx))
	}
	defer func() { <-s.configuring }()
	old := s.settings.Load()
	if _, err := s.set(set); err != nil {
		return fmt.Errorf("configure %s: %w", s.dir, err)
	}
	s.janitor.Ring() // prepares a file with these settings
	err := s.rotate(ctx, "the configuration changed")
	if err != nil {
		s.settings.Store(old)
	}
	return err
}

// Free is the space that the journal may still take, in bytes, as the last
// rotation or growth found it. It touches no file.
func (s *Store) Free() uint64 {
	u := s.usage.Load()
	return min(u.Available, max(u.Limit, u.Bytes)-u.Bytes)
}

// abandon undoes a begin that failed.
func (s *Store) abandon() {
	s.archiveQueued(context.Background(), true) //nolint:errcheck // the error that led here is told
	for _, sl := range s.slots() {
		if sl.f != nil {
			sl.f.w.Close() //nolint:errcheck // the error that led here is told
		}
	}
	s.lock.Release()
}

// Close refuses new entries, archives what was rotated out, settles and closes
// the current files and removes the prepared one. What has been appended is
// synced when it returns nil, but for what had failed before, which was told. A
// second call returns the first one's result.
func (s *Store) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Store) close(ctx context.Context) error {
	if !s.tellPending() && s.system.settle(ctx) == nil { // which makes room
		s.tellPending()
	}
	s.closed.Store(true)
	for _, sl := range s.slots() {
		sl.mu.Lock()
		sl.closed = true
		sl.mu.Unlock()
	}
	s.progress.ring()
	s.stop()
	s.joined.Wait()
	errs := []error{s.publish(true), s.archiveQueued(ctx, true)}
	for _, r := range s.retired { // those that could not be renamed
		if r.old != nil {
			errs = append(errs, r.old.w.Close())
		}
	}
	for _, sl := range s.slots() {
		if sl.f == nil {
			continue
		}
		if err := sl.f.w.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", sl.f.w.Path(), err))
			s.setAsideLate(sl.f, err)
			s.owe(sl.f)
		}
	}
	s.oweUploads()
	s.readBackAll(ctx, true)
	s.discardStale(true)
	errs = append(errs, s.syncNames())
	s.lock.Release()
	return errors.Join(errs...)
}

// Wait returns nil once everything that the ticket stands for has reached l.
func (s *Store) Wait(ctx context.Context, t journal.Ticket, l settle.Level) error {
	return t.Wait(ctx, l)
}

// Synchronize writes, indexes and syncs everything appended before the call, in
// all files, at the same time. A sync that has failed since the last call is
// reported even when its file is no longer among them.
func (s *Store) Synchronize(ctx context.Context) error {
	files := s.open()
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			if err := f.w.Settle(ctx); err != nil {
				errs[i] = fmt.Errorf("sync %s: %w", f.w.Path(), err)
				f.told.Store(f.failed.Load() != nil)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, s.takeLosses()...)...)
}

// Rotate archives every file that has entries and begins new ones. It returns
// when the new files have their names; the old ones may still be on their way
// to the disk. When the disk refuses the next file, tried once more, the error
// wraps why. A user's file that cannot be opened stays as it is: the others are
// rotated, and the error tells.
func (s *Store) Rotate(ctx context.Context) error { return s.rotate(ctx, "asked for") }

// rotate is Rotate for a reason that is told.
func (s *Store) rotate(ctx context.Context, reason string) error {
	known := s.refusal.Load()
	if s.spares.len() == 0 {
		s.refused.Store(0)
		s.janitor.Ring()
	}
	var unopened []error
	for _, sl := range s.slots() {
		before := sl.whyUnopened()
		err := s.await(ctx, func() error {
			err := sl.tryRotate(reason)
			if why := sl.whyUnopened(); errors.Is(err, errNoFile) && why != nil && why != before {
				unopened = append(unopened, fmt.Errorf("rotate %s: open its file: %w", sl.base, *why))
				return nil
			}
			if why := s.refusal.Load(); sl == s.system && errors.Is(err, errNoFile) && why != nil && why != known {
				return fmt.Errorf("prepare the next file: %w", *why)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("rotate %s: %w", sl.base, err)
		}
	}
	s.janitor.Ring()
	err := s.await(ctx, func() error {
		if !s.named() {
			return errNoFile
		}
		return nil
	})
	return errors.Join(append(unopened, err)...)
}

// named reports whether all files of past rotations have their names.
func (s *Store) named() bool {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	return len(s.retired) == 0
}

// await calls try until it returns something else than errNoFile, each time
// something has changed, or has failed to.
func (s *Store) await(ctx context.Context, try func() error) error {
	for {
		changed, missed := s.progress.C(), s.misses.C()
		err := try()
		if !errors.Is(err, errNoFile) {
			return err
		}
		select {
		case <-changed:
		case <-missed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if s.closed.Load() {
			return ErrClosed
		}
	}
}

// slots lists the system slot and all users'.
func (s *Store) slots() []*slot { return s.appendSlots(nil) }

func (s *Store) appendSlots(all []*slot) []*slot {
	s.usersMu.RLock()
	defer s.usersMu.RUnlock()
	all = append(all, s.system)
	for _, sl := range s.users {
		all = append(all, sl)
	}
	return all
}

// open lists every file with a writer: the current ones and those on their way to
// the archive, or being closed. It waits for no append. A file is in one of the lists
// before it leaves the other, which is looked at first:
//
//	open                       swap                     forbidden
//	                           retired = old
//	slots: old or next
//	                           current = next
//	retired: old                                        old is in neither
func (s *Store) open() []*file { return s.appendOpen(nil) }

func (s *Store) appendOpen(files []*file) []*file {
	var room [lookRoom]*slot
	for _, sl := range s.appendSlots(room[:0]) {
		if f := sl.shown.Load(); f != nil {
			files = append(files, f)
		}
	}
	add := func(f *file) {
		if f != nil && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	for _, f := range s.closing {
		add(f)
	}
	for _, r := range s.retired {
		add(r.old)
	}
	for _, l := range s.leaving {
		add(l.f)
	}
	return files
}

package journal

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// Pos is a position in what a Writer has been given: the number of entries
// appended to it, those that a continued file had before not counted.
type Pos uint64

// Writer appends entries to one journal file, of which it is the only writer.
//
// An append changes private memory and returns. Three settlers pay for it:
//
//	write  as soon as possible: pwrite of what is new     appended: survives kill -9
//	index  links and counters: with the write or a few    readers see the newest too, and
//	       ms later, in a flood at most a window later    matches of other processes see all
//	sync   as Options.Sync says: fdatasync                synced: survives a power cut
//
// A write that fails or is cut short is kept and tried again, before anything
// newer; those who wait for it learn each failure. A sync that fails is final:
// everyone who waits, or ever will, for something not yet synced learns it, and
// the caller begins a new file.
//
// The file stays ONLINE until Close or Archive. A crash leaves it so, and
// Repair makes it whole: after the death of the process with everything that
// was appended, after a power cut with everything that was synced.
//
// All methods may be called concurrently.
type Writer struct {
	o  Options // with defaults
	fs vfs.FS
	f  vfs.File

	hasher wHasher // that of m
	write  *settle.Settler
	index  *settle.Settler
	sync   *settle.Settler

	written  atomic.Uint64 // entries that are in the file
	urgent   atomic.Uint64 // position up to which a sync was asked for
	needGrow chan struct{} // capacity one: the allocated space runs short

	naming  sync.Mutex // held while the file is renamed
	growing sync.Mutex // held while space is allocated; taken before mu

	securing wLock // held while the new file is made safe
	secured  bool  // the new file and a name of it survive a power cut, or never will
	unsafe   error // why they cannot

	order   *Order
	io      wLock     // that of order; held while the file is written; taken before growing and mu
	stage   wStage    // what is being written, or could not be
	indexed uint64    // entries that are in the file with all their links
	left    bool      // it is being closed and has no part in order
	passed  bool      // its successor has written before it could write all
	due     wIndexDue // when the index is next written
	told    uint64    // the size of the file as its header has it

	mu       sync.Mutex
	m        *wMem
	path     string
	pos      uint64  // entries appended
	staged   int64   // bytes in stage
	counted  int64   // bytes of this writer in order.held
	full     bool    // an entry did not fit
	noMore   bool    // Close or Archive has begun
	before   *Writer // of the same Order, and is to be written first; nil when it was
	writeErr error   // of the last write, nil if it succeeded
	stats    wCounts

	debt  wDebt  // guarded by mu
	shown wShown // what Stats tells while mu is held

	finish   sync.Once
	finished error // what finish came to
}

// Errors of Create, Open and Append, found with errors.Is.
var (
	// ErrFull says that the file should be rotated: its size, or the fill or
	// depth of its hash tables, has reached its limit. The entries that were
	// not appended belong into a successor.
	ErrFull = errors.New("journal file is full")
	// ErrBufferFull says that too much is waiting to be written.
	ErrBufferFull = errors.New("write buffer is full")
	// ErrSync says that a sync of the file has failed. It wraps why, and is final:
	// what is not known to be synced never will be, and only a copy of it in
	// another file (File.Whole, Options.KeepNumbers) may survive a power cut.
	ErrSync = errors.New("sync failed")
	// ErrClosed says that Close or Archive has begun.
	ErrClosed = errors.New("journal writer is closed")
	// ErrLevel says that a file of its own cannot reach that level.
	ErrLevel = errors.New("level needs a replication target")
)

// Create makes the file path, which must not exist, with its hash tables, and
// opens it for writing. The first space is allocated. When it returns nil the
// file and its name survive a power cut; readers find an empty journal.
//
// System calls: open(O_EXCL), fsetxattr, fallocate, pwrite × 3, fsync, and
// open, fsync, close of the directory. After an error no file is left, if it
// could be removed; one that exists already (fs.ErrExist) is not touched. A crash
// in between leaves a file without a header, which readers and OpenWriter refuse
// with a *FormatError, or an empty journal. With SyncLater there is no fsync.
func Create(path string, o Options) (*Writer, error) {
	o = o.withDefaults()
	h, err := newHeader(&o)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	f, err := o.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, o.Perm)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	err = initFile(f, &h, &o)
	if err == nil && !o.SyncLater {
		err = syncNew(f, o.FS, filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create journal: %w", err), f.Close(), o.FS.Remove(path))
	}
	end := object.Align8(h.DataHashTableOffset + h.DataHashTableSize)
	w := newWriter(path, o, f, newMem(h, end, o.MaxSize, o.CompressThreshold))
	w.secured = !o.SyncLater
	return w, nil
}

// syncNew makes a new file and its name survive a power cut.
func syncNew(f vfs.File, fsys vfs.FS, dir string) error {
	if err := f.Sync(); err != nil {
		return syncFailed(err)
	}
	return syncFailed(fsys.SyncDir(dir))
}

// Secure makes up the syncs that SyncLater has left out of Create, if nothing has
// yet. After an error no entry of the file will ever count as synced: a sync that
// has failed is not tried again.
func (w *Writer) Secure() error {
	_, err := w.secure()
	return err
}

// secure is Secure. It reports whether this call has synced the file.
func (w *Writer) secure() (synced bool, err error) {
	w.securing.Lock()
	defer w.securing.Unlock()
	if !w.secured {
		w.unsafe = syncNew(w.f, w.fs, filepath.Dir(w.Path()))
		w.secured, synced = true, true
	}
	return synced, w.unsafe
}

// newHeader is the header of a new file: both tables, nothing else.
func newHeader(o *Options) (Header, error) {
	var id entry.ID
	if _, err := rand.Read(id[:]); err != nil {
		return Header{}, err
	}
	h := Header{
		CompatibleFlags:   o.Flavour.compatible(),
		IncompatibleFlags: o.Flavour.incompatible(),
		State:             StateOnline,
		FileID:            id,
		MachineID:         o.MachineID,
		TailEntryBootID:   o.BootID,
		SeqnumID:          o.SeqnumID,
		HeaderSize:        o.Flavour.headerSize(),
		TailEntrySeqnum:   o.Seqnum,
		NObjects:          2,
	}
	if h.SeqnumID.IsZero() {
		h.SeqnumID, h.TailEntrySeqnum = id, 0
	}
	// journald writes the table of fields first.
	h.FieldHashTableOffset = h.HeaderSize + object.HashTableItems
	h.FieldHashTableSize = object.DefaultFieldBuckets * object.HashItemSize
	h.TailObjectOffset = h.FieldHashTableOffset + h.FieldHashTableSize
	h.DataHashTableOffset = h.TailObjectOffset + object.HashTableItems
	h.DataHashTableSize = object.DataBuckets(o.MaxSize) * object.HashItemSize
	h.ArenaSize = min(object.AllocationStep, o.MaxSize) - h.HeaderSize
	return h, nil
}

// Extended attributes of a new file, where there are such: journald's, the time of
// creation in µs, and our own.
const (
	xattrCreated = "user.crtime_usec"
	xattrWriter  = "user.tidemark"
)

// Foreign reports whether another program than this package has created the file:
// journald leaves an extended attribute in its files, this package one more.
// Where there are no attributes, or they were not copied with the file, no file
// is foreign.
func Foreign(f vfs.File) bool { return f.HasXattr(xattrCreated) && !f.HasXattr(xattrWriter) }

// initFile allocates a new file and writes its tables and, last, its header.
func initFile(f vfs.File, h *Header, o *Options) error {
	rt, _ := o.Clock()
	// Vacuum takes the age of a file from the time; journald ignores errors here too.
	// Our own goes first: a disk without space for it, or a kill, must not leave a
	// file of ours that looks like journald's.
	if f.SetXattr(xattrWriter, []byte("1")) == nil {
		_ = f.SetXattr(xattrCreated, binary.LittleEndian.AppendUint64(nil, rt))
	}
	if err := f.Allocate(0, int64(h.HeaderSize+h.ArenaSize)); err != nil {
		return err
	}
	table := func(t object.Type, items, size uint64) error {
		var b [object.ObjHdrSize]byte
		b[object.ObjType] = byte(t)
		object.PutU64(b[:], object.ObjSize, object.HashTableItems+size)
		_, err := f.WriteAt(b[:], int64(items-object.HashTableItems))
		return err
	}
	if err := table(object.FieldHashTable, h.FieldHashTableOffset, h.FieldHashTableSize); err != nil {
		return err
	}
	if err := table(object.DataHashTable, h.DataHashTableOffset, h.DataHashTableSize); err != nil {
		return err
	}
	var b [object.HeaderSize254]byte
	encodeHeader(b[:], h)
	_, err := f.WriteAt(b[:h.HeaderSize], 0)
	return err
}

// newWriter starts the settlers of an open file.
func newWriter(path string, o Options, f vfs.File, m *wMem) *Writer {
	w := &Writer{securing: make(wLock, 1), secured: true, o: o, fs: o.FS, f: f, m: m, hasher: m.wHasher, path: path, needGrow: make(chan struct{}, 1), order: o.Order}
	m.keeps, m.tight = o.KeepNumbers, o.TightArrays
	if m.ordered = o.Order != nil; !m.ordered {
		w.order = NewOrder()
	}
	w.io = w.order.io
	observe := func(effect string) func(time.Duration, uint64, error) {
		if o.Observe == nil {
			return nil
		}
		return func(d time.Duration, covered uint64, err error) { o.Observe(effect, d, covered, err) }
	}
	w.due.init(o.Index)
	w.told = m.hdr.HeaderSize + m.hdr.ArenaSize
	w.debt = wDebt{written: m.end(), synced: m.end()}
	w.write = settle.New(w.writeEffect, settle.Options{Policy: settle.All(), Observe: observe("write")})
	w.index = settle.New(w.indexEffect, settle.Options{Policy: settle.Every(o.Index), Window: w.due.in, Observe: observe("index")})
	w.sync = settle.New(w.syncEffect, settle.Options{Policy: o.Sync, Sticky: true, Gather: settle.GatherForSyncs(), Observe: observe("sync")})
	return w
}

// Wait returns nil when the entries up to pos have reached level. It has the
// effect begun as soon as possible, and shares it with everyone who waits. It
// returns the error of the write or sync that should have covered pos (one that
// wraps ErrSync for ever), or that of ctx.
//
// Appended says that the entries are in the file, whole, and survive the death
// of the process. Readers of this package that open the file now see them, by
// matches too. Other readers do if the index went along; and it does while it costs
// no more than 2 % of the time, what was not used of the last 250 ms included: so
// when the load is light, also after each of several appends in a row. Else the
// newest entry, and matches, follow a few ms later, in a flood at most
// Options.Index. Who must know waits with SettleIndex, which writes the index.
func (w *Writer) Wait(ctx context.Context, pos Pos, level settle.Level) error {
	switch level {
	case settle.Accepted:
		return nil
	case settle.Appended:
		return w.write.Wait(ctx, uint64(pos))
	case settle.Synced:
		if w.sync.Settled() >= uint64(pos) {
			return nil
		}
		return w.waitSynced(ctx, uint64(pos))
	case settle.Replicated:
	}
	return fmt.Errorf("wait for %s: %w", level, ErrLevel)
}

// waitSynced waits for the sync alone, which comes after the write: one who waited for
// both would be woken twice. If the write fails, sync.Fail tells who waits by then; who
// comes a moment later learns what the next attempt comes to.
func (w *Writer) waitSynced(ctx context.Context, pos uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.write.Lead(pos); err != nil {
		return err
	}
	return w.sync.Wait(ctx, pos)
}

// SettleIndex returns nil when everything appended before the call is in the
// file with all its links, so that journalctl --verify finds nothing missing.
func (w *Writer) SettleIndex(ctx context.Context) error {
	if err := w.write.Settle(ctx); err != nil {
		return err
	}
	return w.index.Settle(ctx)
}

// Settle returns nil when everything appended before the call is in the file
// with all its links, and synced.
func (w *Writer) Settle(ctx context.Context) error {
	if err := w.SettleIndex(ctx); err != nil {
		return err
	}
	return w.sync.Settle(ctx)
}

// Urge has a sync begun as soon as what was appended before the call is
// written, and does not wait.
func (w *Writer) Urge() {
	w.mu.Lock()
	pos := w.pos
	w.mu.Unlock()
	w.urge(pos)
}

func (w *Writer) urge(pos uint64) {
	for {
		old := w.urgent.Load()
		if old >= pos || w.urgent.CompareAndSwap(old, pos) {
			break
		}
	}
	if w.written.Load() >= pos {
		w.sync.Urge()
	}
}

// Path returns the file's current name.
func (w *Writer) Path() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.path
}

// Rename gives the file another name in the same file system and syncs the
// directories, but with SyncLater not the one that it stays in. When it returns
// an error the file has one of the two names, and Path tells which; after a power
// cut it may have the other.
func (w *Writer) Rename(newpath string) error {
	w.naming.Lock()
	defer w.naming.Unlock()
	old := w.Path()
	if err := w.fs.Rename(old, newpath); err != nil {
		return fmt.Errorf("rename journal: %w", err)
	}
	w.mu.Lock()
	w.path = newpath
	w.mu.Unlock()
	dir := filepath.Dir(newpath)
	if w.o.SyncLater && dir == filepath.Dir(old) {
		return nil
	}
	err := w.fs.SyncDir(dir)
	if from := filepath.Dir(old); err == nil && from != dir {
		err = w.fs.SyncDir(from)
	}
	if err != nil {
		return fmt.Errorf("rename journal: %w", err)
	}
	return nil
}

// Succeed is Adopt for a predecessor that is still open, and has the same Order:
// what it has not written yet goes before anything of w.
func (w *Writer) Succeed(old *Writer) {
	w.Adopt(old.Seqnum())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m.hdr.NEntries == 0 {
		w.before = old
	}
}

// Adopt has a prepared file, to which nothing has been appended, go on with the
// sequence of its predecessor. It changes memory only: the first write carries
// it. After an append it does nothing.
func (w *Writer) Adopt(seqnumID entry.ID, seqnum uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := &w.m.hdr; h.NEntries == 0 && h.HeadEntrySeqnum == 0 {
		h.SeqnumID, h.TailEntrySeqnum = seqnumID, seqnum
	}
}

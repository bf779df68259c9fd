package linelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/settle"
)

// Pos is a position in what a Writer has been given. It only grows; how much says
// nothing.
type Pos uint64

// Errors of a Writer, found with errors.Is.
var (
	// ErrClosed says that Close has begun.
	ErrClosed = errors.New("line log is closed")
	// ErrDropped says that the lines of this call were dropped and counted, because
	// the buffer is full and Options.Full is Drop.
	ErrDropped = errors.New("the buffer is full: lines dropped")
	// ErrSync says that a sync failed that should have covered the lines waited
	// for. They are being written to a fresh file.
	ErrSync = errors.New("sync failed")
	// ErrNoSync says that the file is a pipe, a terminal or another device, which
	// has nothing to sync.
	ErrNoSync = errors.New("not a regular file, it cannot be synced")
	// ErrLevel says that a file of its own cannot reach that level.
	ErrLevel = errors.New("level needs a replication target")
)

var newline = []byte{'\n'}

// Writer appends lines to one file, of which it is the only writer unless
// Options.Shared is set. It implements io.WriteCloser. All methods may be called
// concurrently.
//
// No method but Wait, Sync, Reopen, Rotate, Stream.CopyFrom and Close makes a system
// call, and none of the others waits for one, but for Write, Append and Stream.Write
// when the buffer is full and Options.Full is Block.
type Writer struct {
	o      Options // with defaults
	path   string
	via    string // socket of the daemon that writes the file; "": this process does
	handed bool   // OpenFiles: no path is ever opened
	write  *settle.Settler
	sync   *settle.Settler

	io       ioLock      // held while the file is written or exchanged; taken before mu
	f        *file       // nil: to be opened before the next write
	old      []*file     // exchanged by Reopen; each has lines that are not synced
	stage    *chunk      // taken from q and not yet written
	keep     keep        // what is written and not synced
	written  uint64      // position up to which all is in f, or was and is synced or lost
	safe     uint64      // position up to which all is synced, or lost
	setAside time.Time   // when that last happened; zero: never
	device   atomic.Bool // f is no regular file
	noSync   bool        // Close has begun, and is not to sync
	rot      rotation
	watcher  *watcher // nil: there is none

	mu               sync.Mutex
	q                queue
	pos              uint64    // position behind all that was accepted
	main             *Stream   // that of Write
	streams          []*Stream // open ones, main first
	closing          bool
	news             []string // not yet told to Options.Say
	noticed          bool     // a notice was accepted that no settler knows of
	untold           bool     // lines were lost that no Sync has told of
	failing          bool     // writes fail
	unsyncable       bool     // syncs fail
	err              error    // of the last write or sync, nil if it succeeded
	lostFrom, lostTo uint64   // positions in (lostFrom, lostTo] may be lost with a file that was set aside
	unsureFrom       uint64   // positions in (unsureFrom, unsureTo] may have gone with a daemon
	unsureTo         uint64
	untoldUnsure     bool // no Sync has told of them
	counts           counts

	finish   sync.Once
	finished error // what finish came to
}

// ioLock is a mutex. Who waits for it waits for the disk; virtual time in tests
// goes on while a goroutine waits for a channel, and not for a sync.Mutex.
type ioLock chan struct{}

// Lock implements sync.Locker.
func (l ioLock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l ioLock) Unlock() { <-l }

// Open opens the log path for appending, and makes it if it is not there, but not
// its directory. If a killed writer has left a part of a line at its end, that is
// marked first. Nothing is synced; an error says why the file cannot be used.
//
// A pipe, a terminal or another device can be written too, if Options.Sync is
// auto; else the error is ErrNoSync.
func Open(path string, o Options) (*Writer, error) {
	w := newWriter(path, o)
	f, err := w.open()
	if err != nil {
		return nil, err
	}
	return w.start(f)
}

// OpenFiles is Open for a log that somebody has opened, perhaps another process: app
// with O_APPEND, fix for reading and writing without it, for repairs. fix may be nil
// if app is a pipe or a device. No path is ever opened: Reopen fails, and a name in
// Stats and in errors is app's. A sync does not cover the name of a new file.
//
// The Writer takes both over, also with an error. Nobody else may write through the
// same open files, or move their offsets, as long as it is open.
func OpenFiles(app, fix *os.File, o Options) (*Writer, error) {
	a, b, err := vfs.AdoptLog(app, fix)
	if err != nil {
		return nil, err
	}
	return openFiles(a, b, o)
}

// openFiles is OpenFiles.
func openFiles(app, fix vfs.File, o Options) (*Writer, error) {
	w := newWriter(app.Name(), o)
	w.handed = true
	f := &file{app: app, fix: fix, path: app.Name(), given: true, regular: app.Regular()}
	if f.regular {
		if err := w.ready(f); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	if w, err := w.start(f); err != nil || !f.regular {
		return w, err
	}
	// Who gives an open file may have had others write to it: a position of no line,
	// so that a sync before our first line covers theirs.
	f.dirty = true
	w.mu.Lock()
	w.pos++
	w.mark()
	return w, nil
}

// newWriter returns a Writer without a file.
func newWriter(path string, o Options) *Writer {
	w := &Writer{o: o.withDefaults(), path: path, io: make(ioLock, 1)}
	w.q.size, w.q.limit = w.o.Buffer, w.o.Limit
	w.keep.limit, w.keep.size, w.keep.free = w.o.Keep, w.o.Buffer, w.recycle
	w.main = &Stream{w: w}
	w.streams = append(w.streams, w.main)
	return w
}

// start has w write to f.
func (w *Writer) start(f *file) (*Writer, error) {
	w.f = f
	w.device.Store(!f.regular)
	retry := time.Duration(0)
	if !f.regular {
		if !w.o.Sync.IsAuto() {
			return nil, errors.Join(fmt.Errorf("open %s: %w", w.path, ErrNoSync), f.close())
		}
		if w.o.Rotate.enabled() {
			return nil, errors.Join(fmt.Errorf("open %s: %w", w.path, ErrNoRotation), f.close())
		}
		retry = pipeRetry
	}
	if w.o.Rotate.enabled() && (w.o.Shared || f.given) {
		return nil, errors.Join(fmt.Errorf("open %s: rotate: %w", w.path, ErrNotOwned), f.close())
	}
	windows := settle.All()
	if w.o.Window > 0 {
		windows = settle.Every(w.o.Window)
	}
	w.write = settle.New(w.writeEffect, settle.Options{Policy: windows, Leading: !w.o.Trailing, Retry: retry, Observe: w.o.observer("write")})
	w.sync = settle.New(w.syncEffect, settle.Options{Policy: w.o.Sync, Gather: settle.GatherForSyncs(), Observe: w.o.observer("sync")})
	w.startRotation()
	w.startWatch(watchDelay, watchGrace)
	return w, nil
}

// pipeRetry is the first back-off when a pipe is full: its reader needs no longer.
const pipeRetry = 5 * time.Millisecond

// Write appends p, which may hold any bytes: lines that end in it are accepted, the
// rest is kept until its newline comes, or until Close. It returns len(p), also
// when lines were dropped (Options.Full); the only error is ErrClosed. Lines of
// several calls at a time are whole only if each call ends with a newline: sources
// that do not see to that have a Stream each.
//
// What was accepted is lost if the process dies before it is written, which is at
// once after a quiet window (but with Options.Trailing) and else after Options.Window.
func (w *Writer) Write(p []byte) (int, error) { return w.main.Write(p) }

// Append appends whole lines, all of them or none, and returns the position behind
// them, for Wait. A newline is added at the end if there is none; nothing of p is
// kept. While the buffer is full it waits for room, until ctx ends (Options.Full
// Block), or returns ErrDropped.
//
// Errors, in which case nothing was accepted: ErrDropped, ErrClosed, that of ctx.
func (w *Writer) Append(ctx context.Context, p []byte) (Pos, error) {
	if len(p) == 0 {
		return w.Pos(), nil
	}
	w.mu.Lock()
	for {
		room, err := w.admit(len(p)+1, p)
		if err != nil {
			w.mu.Unlock()
			return 0, err
		}
		if room == nil {
			break
		}
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		w.mu.Lock()
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	w.addLines(nil, p[:whole])
	if whole < len(p) {
		w.addLine(nil, p[whole:], newline)
	}
	return Pos(w.mark()), nil
}

// admit decides whether n bytes, the lines p, are accepted: both results nil. Else
// it returns a channel to wait on before the next try, or why they are not. Called
// with mu held.
func (w *Writer) admit(n int, p []byte) (room <-chan struct{}, err error) {
	switch {
	case w.closing:
		return nil, ErrClosed
	case w.q.fits(n):
		return nil, nil
	case w.o.Full == Drop:
		lines := bytes.Count(p, newline)
		if p[len(p)-1] != '\n' {
			lines++
		}
		w.q.drop(lines, n)
		w.counts.dropped += uint64(lines)
		w.counts.droppedBytes += uint64(n)
		return nil, ErrDropped
	}
	w.counts.blocked++
	return w.q.wait(), nil
}

// addLines accepts whole lines; the first begins with head. Called with mu held.
func (w *Writer) addLines(head, p []byte) {
	if len(p) == 0 {
		return
	}
	if len(head)+len(p) > w.o.MaxLine { // one may be too long
		for len(p) > 0 {
			i := bytes.IndexByte(p, '\n')
			w.addLine(head, p[:i], newline)
			head, p = nil, p[i+1:]
		}
		return
	}
	w.counts.bytes += uint64(len(head) + len(p))
	before := w.pos
	if len(head) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		w.pos++
		w.q.add(head, p[:i], w.pos)
		p = p[i:]
	}
	w.pos = w.q.addAll(p, w.pos)
	w.counts.lines += w.pos - before
}

// addLine accepts one line, head and tail, which end is put behind. It is cut if it
// is too long. Called with mu held.
func (w *Writer) addLine(head, tail, end []byte) {
	if len(head)+len(tail)+len(end) > w.o.MaxLine {
		head, tail = w.addCut(append(bytes.Clone(head), tail...)), nil
	}
	if len(head) > 0 && len(tail) > 0 {
		head, tail = append(bytes.Clone(head), tail...), nil
	}
	w.pos++
	w.counts.lines++
	w.counts.bytes += uint64(len(head) + len(tail) + len(end))
	if len(tail) > 0 {
		head = tail
	}
	w.q.add(head, end, w.pos)
}

// cutMark ends a line that goes on in the next.
const cutMark = "…\n"

// addCut accepts the beginning of a line that is too long, as lines of their own,
// and returns the rest, which is not. Called with mu held.
func (w *Writer) addCut(line []byte) (rest []byte) {
	for len(line) >= w.o.MaxLine {
		n := runeStart(line, w.o.MaxLine-len(cutMark))
		w.pos++
		w.counts.lines++
		w.counts.cut++
		w.counts.bytes += uint64(n + len(cutMark))
		w.q.add(line[:n], []byte(cutMark), w.pos)
		line = line[n:]
	}
	return line
}

// mark tells the settlers what was accepted, and gives mu back.
func (w *Writer) mark() uint64 {
	pos, urge := w.pos, w.q.urge
	w.q.urge = false
	w.mu.Unlock()
	w.write.Mark(pos)
	w.sync.Mark(pos)
	if urge {
		w.write.Urge()
	}
	return pos
}

// Pos returns the position behind all that was accepted.
func (w *Writer) Pos() Pos {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Pos(w.pos)
}

// Wait returns nil when the lines of the call that pos came from have reached level,
// and all before them, but for such as were lost with a file that was set aside. It
// has the write or the sync begun as soon as possible, and shares it with everyone
// who waits.
// Appended says that they are in the file, whole, and survive the death of this
// process; Synced that they and their file survive a power cut.
//
// Who waits alone makes the write or the sync itself: that ctx has ended is noticed
// when the system call has. With Dial that is the daemon's answer, however long it takes.
//
// It returns the error of the write or sync that should have covered pos (ErrSync
// for a sync), ErrNoSync, or that of ctx. After an error the lines are kept and
// tried again, so they may reach the level all the same; another Wait tells.
func (w *Writer) Wait(ctx context.Context, pos Pos, level settle.Level) error {
	switch level {
	case settle.Accepted:
		return nil
	case settle.Appended:
		err := w.write.Wait(ctx, uint64(pos))
		if unsure := w.unsure(uint64(pos)); unsure != nil {
			return unsure
		}
		return err
	case settle.Synced:
		if w.device.Load() {
			return fmt.Errorf("%s: %w", w.path, ErrNoSync)
		}
		err := w.sync.Wait(ctx, uint64(pos))
		if unsure := w.unsure(uint64(pos)); unsure != nil {
			return unsure
		}
		if err != nil {
			return err
		}
		return w.lost(uint64(pos))
	case settle.Replicated:
	}
	return fmt.Errorf("wait for %s: %w", level, ErrLevel)
}

// Sync returns nil when all lines that were accepted before the call are synced. Of
// an unterminated rest nothing is promised. On a pipe or a device, which has nothing
// to sync, it waits until they are written. Its errors are those of Wait; when lines
// were lost with a file that was set aside, one Sync that comes later is told, too.
func (w *Writer) Sync(ctx context.Context) error {
	pos := w.Pos()
	if w.device.Load() {
		return w.Wait(ctx, pos, settle.Appended)
	}
	if err := w.Wait(ctx, pos, settle.Synced); err != nil {
		return err
	}
	return w.tellLost()
}

// tellLost returns an error once after lines were lost.
func (w *Writer) tellLost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.untoldUnsure {
		w.untoldUnsure = false
		err = fmt.Errorf("%s: %w", w.path, ErrUnanswered)
	}
	if w.untold {
		w.untold = false
		err = errors.Join(err, w.errLost())
	}
	return err
}

func (w *Writer) errLost() error {
	return fmt.Errorf("%s: %w, and lines could not be read back", w.path, ErrSync)
}

// lost returns an error if what stands at pos was lost with a file that was set
// aside.
func (w *Writer) lost(pos uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pos > w.lostFrom && pos <= w.lostTo {
		return w.errLost()
	}
	return nil
}

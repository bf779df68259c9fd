package linelog

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// DefaultLockTimeout is how long a batch waits for the lock.
const DefaultLockTimeout = 10 * time.Second

// Errors of locks, found with errors.Is.
var (
	// ErrLock says that the lock was not to be had, within Options.LockTimeout if
	// somebody else has it. The lines wait in memory and are tried again.
	ErrLock = errors.New("no lock")
	// ErrHosts says that other hosts may append to the file, and that nothing would
	// keep their lines and ours apart.
	ErrHosts = errors.New("appending from several hosts is not safe here")
)

// Lock says whether a batch is written under an advisory lock of the whole file. The
// zero value is LockAuto. With flag.TextVar it is a flag.
type Lock uint8

const (
	// LockAuto takes none for a log that only this process writes. For a shared one it
	// takes none on a local file system, where appends do not mix, until somebody else
	// is seen to hold one of kind LockFcntl (cat -l copies blocks, not lines), and that
	// kind from then on. On a network file system it is LockFcntl, or ErrHosts if such
	// locks do not leave the host.
	LockAuto Lock = iota
	// LockNone takes none. On a network file system only one host may append then.
	LockNone
	// LockFlock is flock(2). Everyone who appends takes it, so that who has it is
	// alone: what a killed writer has left is marked before the next line comes.
	LockFlock
	// LockFcntl is that of fcntl(2) (F_OFD_SETLKW), of everyone as LockFlock.
	LockFcntl
)

// String returns auto, none, flock or fcntl.
func (l Lock) String() string {
	switch l {
	case LockNone:
		return "none"
	case LockFlock:
		return "flock"
	case LockFcntl:
		return "fcntl"
	case LockAuto:
	}
	return "auto"
}

// MarshalText implements encoding.TextMarshaler as String does.
func (l Lock) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler as ParseLock does.
func (l *Lock) UnmarshalText(text []byte) error {
	k, err := ParseLock(string(text))
	if err == nil {
		*l = k
	}
	return err
}

// LockError is the error of ParseLock.
type LockError struct {
	Text string // what was to be read
}

// Error quotes the text and says what is taken.
func (e *LockError) Error() string {
	return fmt.Sprintf("invalid lock %q: want auto, none, flock, or fcntl", e.Text)
}

// ParseLock reads a lock as a user writes it: auto, none, flock or fcntl. Every error
// is a *LockError.
func ParseLock(s string) (Lock, error) {
	for _, l := range []Lock{LockAuto, LockNone, LockFlock, LockFcntl} {
		if s == l.String() {
			return l, nil
		}
	}
	return LockAuto, &LockError{Text: s}
}

// locker takes the lock of one open file. Its methods are called with Writer.io held,
// or before the file is used or after.
type locker struct {
	f       vfs.File     // the descriptor for repairs; nil: a device, which has no lock
	kind    vfs.LockKind // 0: none
	sole    bool         // everyone who appends takes it: who has it is alone
	watch   bool         // a lock of somebody else makes it Fcntl
	distant bool         // a file system of another host: any attempt may hang
	timeout time.Duration
	pending *attempt // that of a wait which was given up
}

// attempt is a wait for a lock, by a goroutine of its own: nothing can interrupt it,
// and the lock of a network file system may never come.
type attempt struct {
	f    vfs.File
	done chan error // of capacity one

	mu    sync.Mutex
	over  bool // it has come to its end
	close bool // nobody waits for it any more: it closes f at its end
}

// newLocker decides which lock o means for a file of which f is the descriptor for
// repairs.
func newLocker(f vfs.File, o *Options) (*locker, error) {
	l := &locker{f: f, timeout: o.LockTimeout}
	if f == nil || o.Lock == LockNone || o.Lock == LockAuto && !o.Shared {
		return l, nil
	}
	m, err := f.Mount()
	if err != nil {
		return nil, err
	}
	l.distant = m.Network
	switch {
	case o.Lock == LockFlock:
		l.kind, l.sole = vfs.Flock, true
	case o.Lock == LockFcntl:
		l.kind, l.sole = vfs.Fcntl, true
	case m.Network:
		l.kind = vfs.Fcntl
	default:
		l.watch = true
	}
	if m.HostFlock && l.kind == vfs.Flock || m.HostFcntl && l.kind == vfs.Fcntl {
		return nil, fmt.Errorf("%s: %w: locks of kind %s do not leave this host on its file system (%s): give each host a file of its own, or say that only this host appends (lock none)", f.Name(), ErrHosts, l.kind, m.Type)
	}
	return l, nil
}

// look makes l take locks for good if somebody else is seen to have one, and tells
// whether that is new.
func (l *locker) look() (pid int, found bool) {
	if !l.watch {
		return 0, false
	}
	pid, err := l.f.LockedBy()
	if err != nil || pid == 0 {
		return 0, false
	}
	l.kind, l.watch = vfs.Fcntl, false
	return pid, true
}

// acquire takes the lock, if there is to be one. On a local file system it is tried
// first without waiting.
func (l *locker) acquire() (waited bool, err error) {
	if l.kind == 0 {
		return false, nil
	}
	if l.pending == nil {
		if !l.distant {
			err := l.f.Lock(l.kind, false)
			if err == nil {
				return false, nil
			}
			if !errors.Is(err, vfs.ErrLocked) {
				return false, fmt.Errorf("%w: %w", ErrLock, err)
			}
		}
		l.pending = await(l.f, l.kind)
	}
	timer := time.NewTimer(l.timeout)
	defer timer.Stop()
	select {
	case err := <-l.pending.done:
		l.pending = nil
		if err != nil {
			return true, fmt.Errorf("%w: %w", ErrLock, err)
		}
		return true, nil
	case <-timer.C:
		return true, fmt.Errorf("%w: %s: somebody else has had it for %s (kind %s)", ErrLock, l.f.Name(), l.timeout, l.kind)
	}
}

// release gives the lock back. What an error of it means for the lines the next sync
// tells, and for the lock the next batch.
func (l *locker) release() {
	if l.kind != 0 && l.f != nil {
		l.f.Unlock(l.kind) //nolint:errcheck // see above
	}
}

// await begins an attempt.
func await(f vfs.File, k vfs.LockKind) *attempt {
	a := &attempt{f: f, done: make(chan error, 1)}
	go func() {
		a.done <- f.Lock(k, true)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.over = true; a.close {
			f.Close() //nolint:errcheck // nobody is left to be told; it gives back the lock
		}
	}()
	return a
}

// lock takes the lock of f for a batch, if it has one.
func (w *Writer) lock(f *file) error {
	if f.lock == nil {
		return nil
	}
	pid, found := f.lock.look()
	waited, err := f.lock.acquire()
	if !found && !waited && err == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if found {
		who := fmt.Sprintf("process %d", pid)
		if pid < 0 {
			who = "another process"
		}
		w.news = append(w.news, fmt.Sprintf("line log %s: %s locks it (fcntl): so does each write from now on", w.path, who))
	}
	if waited {
		w.counts.lockWaits++
	}
	if err != nil {
		w.counts.lockErrors++
	}
	return err
}

// unlock gives it back.
func (w *Writer) unlock(f *file) {
	if f.lock != nil {
		f.lock.release()
	}
}

// shut closes the descriptor for repairs, which gives back the lock; while an attempt
// goes on, that does so at its end.
func (l *locker) shut() error {
	if l.f == nil {
		return nil
	}
	if a := l.pending; a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.over {
			a.close = true
			return nil
		}
	}
	return l.f.Close()
}

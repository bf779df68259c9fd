package linelog

import (
	"io/fs"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/settle"
)

// Defaults of Options, for members that are zero.
const (
	// DefaultBuffer is how many bytes are gathered for one write.
	DefaultBuffer = 64 << 10
	// DefaultLimit bounds what is accepted and not yet written, in bytes.
	DefaultLimit = 64 << 20
	// DefaultWindow is how long lines of a stream may gather before a write.
	DefaultWindow = 10 * time.Millisecond
	// DefaultMaxLine is the longest line that is not cut, in bytes.
	DefaultMaxLine = 1 << 20
	// DefaultKeep bounds the copies of lines that are written and not synced.
	DefaultKeep = 1 << 20
	// DefaultPerm is the mode of a new file.
	DefaultPerm fs.FileMode = 0o640
)

// minMaxLine leaves room for a rune and the mark of a cut.
const minMaxLine = 16

// Full says what happens to lines for which there is no room.
type Full uint8

const (
	// Block has the caller wait until there is room.
	Block Full = iota
	// Drop drops the lines, counts them, and says in the log how many are missing.
	Drop
)

// Torn says how the piece of a line that a fault has left in the file is marked.
// Either way it ends with a newline where it ended before.
type Torn uint8

const (
	// Comment has it begin with '#': for logs whose readers know comments.
	Comment Torn = iota
	// Spaces overwrites it with spaces.
	Spaces
)

// Options are what a Writer needs to know. The zero value is useful: written at
// once or within 10 ms, synced on demand, the caller waits when 64 MiB wait to be
// written.
type Options struct {
	// FS holds the file; nil means the machine's. Its type is internal on
	// purpose: tidemark's own fault tests set it.
	FS vfs.FS
	// Shared says that other processes, or other Writers, append to the file too, all
	// with O_APPEND and whole lines. Then nothing is done to it that could harm them:
	// see the package's comment. False: this Writer is the only one.
	Shared bool
	// Lock says under which lock a batch is written. Zero: LockAuto.
	Lock Lock
	// LockTimeout is how long a batch waits for the lock before it fails with ErrLock
	// and is tried again. Who waits for the file waits as long. Nothing can interrupt the
	// system's wait for a lock: it goes on in a goroutine, also after Close, until the lock
	// comes, and the descriptor is closed then. 0 means DefaultLockTimeout.
	LockTimeout time.Duration
	// Sync says when a sync begins without being asked for. Zero: auto, that is at
	// Sync, Wait, Reopen and Close only. Any other policy needs a regular file.
	Sync settle.Policy
	// CloseUnsynced has Close leave what is not synced to the kernel, as close(2) does:
	// for processes that live for a few lines, of which none is worth a sync.
	CloseUnsynced bool
	// Window is how long lines of a stream of them may gather before they are
	// written. The first line after a quiet window is written at once, and so is
	// what somebody waits for. 0 means DefaultWindow; less than 0: each write
	// begins when the one before has ended.
	Window time.Duration
	// Trailing has the first line after a quiet window wait for Window, too, if nobody
	// waits for it: the lines of a process that lives for a few of them and ends with
	// Close are one write then, which counts on a network file system. What a kill
	// loses is what came within Window, as in a stream of lines without it. On Linux a
	// log that is there is opened once, and a second time only if a line is to be
	// repaired: the process must still have the right to then, else the write fails.
	Trailing bool
	// Buffer is how many bytes are gathered at most for one write(2); a longer line
	// is one write of its own. 0 means DefaultBuffer.
	Buffer int
	// Limit bounds what is accepted and not yet written, in bytes. One call with
	// more is accepted when nothing else waits. 0 means DefaultLimit.
	Limit int64
	// Full says what happens beyond Limit. Zero: Block.
	Full Full
	// Keep bounds the memory for lines that are written and not synced, in bytes:
	// after a failed sync they are written to a fresh file. Those beyond it are
	// read back. 0 means DefaultKeep.
	Keep int64
	// MaxLine is the longest line that is not cut, in bytes, its newline included.
	// A longer one becomes several, of which all but the last end in "…". 0 means
	// DefaultMaxLine; less than 16 means 16.
	MaxLine int
	// Torn says how pieces of lines are marked. Zero: Comment.
	Torn Torn
	// Perm is the mode of a new file. 0 means DefaultPerm. One that a rotation begins
	// has that of the file before.
	Perm fs.FileMode
	// Rotate says when a new file begins, and what becomes of those before. Zero:
	// never.
	Rotate Rotation
	// Watch has the Writer notice, on Linux, that others rename, replace or remove the
	// file, as logrotate does, and call Reopen by itself: at once when something has
	// the name again, or after a second; what is done in the first quarter of a second is
	// noticed at its end. It costs a goroutine and, from then on, an inotify instance,
	// and nothing while nobody does. Elsewhere, and where there are too many
	// instances, it is said that Reopen has to be called. If the path is a symbolic link,
	// the file that it leads to at Open is watched; who changes the link calls Reopen.
	Watch bool
	// Say, if not nil, is told in words when writes begin to fail and when they
	// work again, when a file was set aside, and what was lost. It is called
	// without locks, must be quick and must not wait for the writer.
	Say func(text string)
	// Observe is called after each effect ("write", "sync", "rotate") with its duration, the
	// position it covered (0 with an error) and its error. It is called by who ran
	// the effect, also a waiter; those of different effects may come at the same
	// time. It must be quick and must not wait for the writer.
	Observe func(effect string, d time.Duration, covered uint64, err error)
}

// withDefaults fills in what is zero and brings the rest into range.
func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Buffer <= 0 {
		o.Buffer = DefaultBuffer
	}
	if o.Rotate.Size > 0 {
		o.Buffer = int(min(int64(o.Buffer), o.Rotate.Size))
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.MaxLine == 0 {
		o.MaxLine = DefaultMaxLine
	}
	o.MaxLine = max(o.MaxLine, minMaxLine)
	if o.Perm == 0 {
		o.Perm = DefaultPerm
	}
	return o
}

// observer is Observe for one effect.
func (o *Options) observer(effect string) func(time.Duration, uint64, error) {
	if o.Observe == nil {
		return nil
	}
	return func(d time.Duration, covered uint64, err error) { o.Observe(effect, d, covered, err) }
}

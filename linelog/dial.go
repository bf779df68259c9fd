package linelog

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// ErrUnanswered says that the daemon has gone without an answer: the lines may be in
// the log or not, and are not sent again.
var ErrUnanswered = errors.New("no answer from the daemon: the lines may be in the log or not")

// DaemonError is what a daemon says went wrong. It wraps the number of the error.
type DaemonError struct {
	Errno   syscall.Errno
	Message string
}

// Error is the daemon's text.
func (e *DaemonError) Error() string { return "the daemon says: " + e.Message }

// Unwrap returns the number.
func (e *DaemonError) Unwrap() error { return e.Errno }

// maxCall bounds a line and a batch that are sent to a daemon, in bytes: a message may
// have 16 MiB, in base64.
const maxCall = 8 << 20

// conduit hands lines to a daemon that writes the file. Its methods may be called
// concurrently.
type conduit interface {
	// greet finds out whether the daemon takes the file.
	greet(ctx context.Context) error
	// append hands over whole lines and returns when they are in the file. After an
	// error it is called with the same lines again, but after ErrUnanswered.
	append(p []byte) error
	// sync returns when all that was appended is synced.
	sync() error
	close() error
}

// Dial is Open for a log that a tidemark daemon writes, for this process and others:
// socket is that of its commands (RUN/io.systemd.journal). The file is opened here,
// with this process's rights, and made if it is not there; the daemon gets the open
// file. ctx bounds the first answer, which says whether it takes it.
//
// The Writer is used as one that Open returns. A write of it is one call of the daemon
// for all that has gathered, answered when it is in the file; a sync is another. So
// Appended and Synced say what they always say, and Close returns nil when everything
// is synced (with Options.CloseUnsynced: in the file). While a sync is under way the
// next write waits, the callers of Write do not.
//
// When the daemon goes, the Writer connects again by itself, with the back-off of a
// write that fails, and keeps the lines meanwhile, up to Options.Limit. What was sent
// and not answered by then may be in the log or not: it is not sent again, so no line
// is there twice. Who waits for it gets ErrUnanswered; it is counted (Stats.Unanswered),
// said (Options.Say), and told to one Sync or Close that comes later.
//
// Options.Shared is implied; Rotate and Lock are the daemon's, and Rotate is refused.
// Buffer and MaxLine may have 8 MiB. On other systems than Linux the error is
// errors.ErrUnsupported.
func Dial(ctx context.Context, socket, path string, o Options) (*Writer, error) {
	o.Shared, o.Lock = true, LockNone
	w := newWriter(path, o)
	if w.o.MaxLine > maxCall || w.o.Buffer > maxCall {
		return nil, fmt.Errorf("open %s by way of %s: MaxLine or Buffer above %d bytes", path, socket, maxCall)
	}
	w.via = socket
	f, err := w.open()
	if err != nil {
		return nil, err
	}
	if f.via == nil {
		return nil, errors.Join(fmt.Errorf("open %s by way of %s: not a regular file", path, socket), f.close())
	}
	if err := f.via.greet(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s by way of %s: %w", path, socket, err), f.close())
	}
	return w.start(f)
}

// unanswered takes note that the daemon has gone with the stage. Called with io held.
func (w *Writer) unanswered(err error) {
	c, before := w.stage, w.written
	w.stage, w.written = nil, c.pos
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.unanswered += c.lines
	if w.unsureTo == 0 {
		w.unsureFrom = before
	}
	w.unsureTo = c.pos
	w.untoldUnsure = true
	w.news = append(w.news, fmt.Sprintf("line log %s: %v: %d lines", w.path, err, c.lines))
	w.q.release(len(c.buf))
	w.q.recycle(c)
}

// unsure returns ErrUnanswered if what stands at pos may have gone with a daemon.
func (w *Writer) unsure(pos uint64) error {
	if w.via == "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if pos > w.unsureFrom && pos <= w.unsureTo {
		return fmt.Errorf("%s: %w", w.path, ErrUnanswered)
	}
	return nil
}

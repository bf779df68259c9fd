package linelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/tidemark-log/tidemark/internal/namewatch"
)

// watchGrace is how long a name may be without a file before the Writer makes one:
// logrotate renames the old file first and makes the new one then, with the owner and
// mode that it is to have.
const watchGrace = time.Second

// watchDelay is how long after Open the watch begins, with a look at the name. To close
// an inotify instance takes the kernel some 20 ms, which a process that lives for a few
// lines would wait for.
const watchDelay = 250 * time.Millisecond

// watcher notices that the file has lost its name. It owns one goroutine, which
// sleeps until then.
type watcher struct {
	*namewatch.Watch        // nil until it has begun; set by the goroutine, with mu held
	path             string // symbolic links followed
	grace            time.Duration
	ending           chan struct{} // closed when there is to be no more of it
	gone             chan struct{} // closed when the goroutine has returned

	mu    sync.Mutex
	ended bool // ending is closed
}

// startWatch begins to watch after delay. Called before w is used.
func (w *Writer) startWatch(delay, grace time.Duration) {
	if !w.o.Watch || !w.f.regular || w.f.given {
		return
	}
	w.watcher = &watcher{path: w.f.path, grace: grace, ending: make(chan struct{}), gone: make(chan struct{})}
	go w.watch(delay)
}

// endWatch has the goroutine return.
func (w *Writer) endWatch() {
	if n := w.watcher; n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ended = true
		close(n.ending)
		if n.Watch != nil {
			n.Close() //nolint:errcheck // an inotify descriptor holds nothing
		}
	}
}

// joinWatch waits for the goroutine. What it looks at is closed afterwards.
func (w *Writer) joinWatch() {
	if w.watcher != nil {
		<-w.watcher.gone
	}
}

// begin waits for delay and makes the watch. The error is os.ErrClosed if it is to end
// before.
func (n *watcher) begin(delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.ending:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return os.ErrClosed
	}
	in, err := namewatch.New(n.path)
	if err == nil {
		n.Watch = in
	}
	return err
}

// watch reopens the log whenever its file has lost its name. The log is as good without;
// so a failure is only said.
func (w *Writer) watch(delay time.Duration) {
	defer close(w.watcher.gone)
	err := w.watcher.begin(delay)
	if err == nil {
		defer w.watcher.Close() // a second time, mostly
	}
	for err == nil {
		if err = w.settleName(); err == nil {
			err = w.watcher.Wait(0)
		}
	}
	w.endOfWatch(err)
}

// settleName returns nil when the file that is written to has its name and is
// watched. It is watched first, and looked at then: what comes between is an event.
func (w *Writer) settleName() error {
	failed := false
	for {
		switch err := w.watcher.File(); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case w.hasName():
			return w.watcher.Dir(false)
		}
		limit := w.watcher.grace
		if failed {
			limit = 0 // until something happens to the name
		}
		if err := w.awaitName(limit); err != nil {
			return err
		}
		err := w.Reopen()
		switch {
		case errors.Is(err, ErrClosed):
			return err
		case err != nil && !failed:
			w.mu.Lock()
			w.news = append(w.news, fmt.Sprintf("line log: %v; lines go to the file that had the name before", err))
			w.mu.Unlock()
		}
		failed = err != nil
		w.tell()
	}
}

// awaitName waits until something has the name, for limit at most. Without one it
// waits for something new.
func (w *Writer) awaitName(limit time.Duration) error {
	if err := w.watcher.Dir(true); err != nil {
		return err
	}
	if _, err := w.o.FS.Stat(w.watcher.path); err == nil && limit > 0 {
		return nil
	}
	return w.watcher.Wait(limit)
}

// hasName tells whether the file that is written to has the name.
func (w *Writer) hasName() bool {
	w.io.Lock()
	defer w.io.Unlock()
	return w.f != nil && w.f.app.IsAt(w.path)
}

// endOfWatch says why there is no more of it, unless that was asked for.
func (w *Writer) endOfWatch(err error) {
	if errors.Is(err, os.ErrClosed) || errors.Is(err, ErrClosed) {
		return
	}
	w.mu.Lock()
	w.news = append(w.news, fmt.Sprintf("line log: %v: it is not noticed when the file is renamed or removed: have it opened again then (tidemark append does so at HUP)", err))
	w.mu.Unlock()
	w.tell()
}

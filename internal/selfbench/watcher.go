package selfbench

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watcher is a reader of a file that sleeps until inotify says that it was
// changed, as journalctl -f does. It counts how often it was woken.
type watcher struct {
	in    *os.File
	wakes atomic.Uint64
	woken chan time.Time // the first since it was emptied
	run   sync.WaitGroup
	err   error // read after run
}

func watch(path string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w: raise fs.inotify.max_user_instances, or end other watchers", err)
	}
	w := &watcher{in: os.NewFile(uintptr(fd), "inotify"), woken: make(chan time.Time, 1)}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), w.in.Close())
	}
	w.run.Go(w.read)
	return w, nil
}

func (w *watcher) read() {
	b := make([]byte, 64<<10)
	for {
		if _, err := w.in.Read(b); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.err = err
			}
			return
		}
		w.wakes.Add(1)
		select {
		case w.woken <- time.Now():
		default:
		}
	}
}

// forget makes woken tell of the next wake-up, not of one before.
func (w *watcher) forget() {
	select {
	case <-w.woken:
	default:
	}
}

func (w *watcher) close() error {
	err := w.in.Close() // ends read
	w.run.Wait()
	return errors.Join(err, w.err)
}

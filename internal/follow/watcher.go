//go:build linux

package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/journal"
)

// Kind says what an Event tells of a path.
type Kind uint8

const (
	// Changed: the file is new, has another name, has been written to, or may be
	// readable now.
	Changed Kind = iota
	// Gone: no file has the path any more.
	Gone
	// Rescan: events were lost, or a directory came or went: list the directories
	// again. Path is empty.
	Rescan
)

// String returns the kind in plain words.
func (k Kind) String() string {
	switch k {
	case Changed:
		return "changed"
	case Gone:
		return "gone"
	case Rescan:
		return "rescan"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Event is something that happened to a journal file, or to the set of watched
// directories.
type Event struct {
	Kind Kind
	Path string
}

// The events that sd-journal asks for, of a directory that was named and of one
// found in it.
//
// Source: systemd 252, sd-journal.c, add_root_directory and add_directory.
const (
	rootMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_ONLYDIR
	subMask  = rootMask | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_MOVED_FROM
)

// ErrClosed is what Wait returns after Close, and while it is closed.
var ErrClosed = errors.New("watcher closed")

// Watcher watches directories of journals: files that come, change and go, and
// subdirectories named by a machine id. It is not safe for concurrent use but
// for Close, which ends a Wait.
type Watcher struct {
	// ep is an epoll descriptor, itself in the runtime's poller, with everything
	// that can end a Wait: no thread blocks, and Close and deadlines work.
	ep     *os.File
	epConn syscall.RawConn
	in     *os.File // inotify
	inConn syscall.RawConn
	closed atomic.Bool
	// hungUp is set when nobody reads the output any more; see HangUp.
	hungUp bool
	out    syscall.RawConn // the output; nil: none

	roots   []string
	only    map[string]string // clean path to path as given; nil: all journal files
	dirs    map[int32]*watched
	pending []Event
	last    map[string]Kind // of the pending event of each path
	buf     []byte
}

// watched is one watched directory.
type watched struct {
	paths []string // the same directory by different names; the first counts
	root  bool
}

// Watch watches dirs and those of their subdirectories that
// journal.IsSubdirName, also ones made later. Directories that are not there,
// or not to be read, are left out; it fails when no other remains.
func Watch(dirs []string) (*Watcher, error) {
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	var absent []error
	for _, dir := range dirs {
		err := w.addRoot(dir)
		if outOfReach(err) {
			absent = append(absent, err)
		} else if err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if len(w.roots) == 0 {
		return nil, errors.Join(append(absent, w.Close())...)
	}
	return w, nil
}

// outOfReach reports whether err says that there is no such directory, or not
// for us.
func outOfReach(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}

// WatchFiles watches files, by way of their directories. Others in these do not
// count.
func WatchFiles(paths []string) (*Watcher, error) {
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	w.only = make(map[string]string)
	for _, p := range paths {
		w.only[filepath.Clean(p)] = p
	}
	for p := range w.only {
		if _, err := w.add(filepath.Dir(p), false); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

func newWatcher() (*Watcher, error) {
	w := &Watcher{dirs: make(map[int32]*watched), last: make(map[string]Kind), buf: make([]byte, 64<<10)}
	in, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch: inotify: %w", err)
	}
	w.in = os.NewFile(uintptr(in), "inotify")
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch: epoll: %w", err), w.in.Close())
	}
	err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, in, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(in)})
	if err == nil {
		err = unix.SetNonblock(ep, true) // so that NewFile gives it to the poller
	}
	w.ep = os.NewFile(uintptr(ep), "epoll")
	if err == nil {
		w.epConn, err = w.ep.SyscallConn()
	}
	if err == nil {
		w.inConn, err = w.in.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch: epoll: %w", err), w.Close())
	}
	return w, nil
}

// HangUp makes Wait return io.EOF when nobody reads from the pipe or socket f
// any more, as journalctl ends then. Other files never hang up.
func (w *Watcher) HangUp(f *os.File) error {
	out, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch output: %w", err)
	}
	ctl := func(fd uintptr) error {
		var err error
		ctlErr := w.epConn.Control(func(ep uintptr) {
			// No events asked for: errors and hang-up come always.
			err = unix.EpollCtl(int(ep), unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Fd: int32(fd)})
		})
		return errors.Join(err, ctlErr)
	}
	var ctlErr error
	if err := out.Control(func(fd uintptr) { ctlErr = ctl(fd) }); err != nil {
		return fmt.Errorf("watch output: %w", err)
	}
	switch {
	case ctlErr == nil:
		w.out = out
	case !errors.Is(ctlErr, unix.EPERM): // EPERM: a regular file
		return fmt.Errorf("watch output: %w", ctlErr)
	}
	return nil
}

// Close ends the watching, and a Wait in another goroutine.
func (w *Watcher) Close() error {
	w.closed.Store(true)
	return errors.Join(w.ep.Close(), w.in.Close())
}

// Take returns the events since the last Take, in their order, the same thing
// about a path only once. The slice is valid until the next Wait.
func (w *Watcher) Take() []Event {
	events := w.pending
	w.pending = w.pending[:0]
	clear(w.last)
	return events
}

// Wait returns when there are events to take. It returns the error of ctx,
// ErrClosed, or io.EOF when the output has hung up.
func (w *Watcher) Wait(ctx context.Context) error {
	if len(w.pending) > 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.ep.SetReadDeadline(time.Time{}); err != nil {
		return w.waitError(ctx, err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = w.ep.SetReadDeadline(time.Unix(1, 0)) // fails only when closed
	})
	defer func() {
		if !stop() {
			<-interrupted // else it might interrupt the next Wait
		}
	}()
	var failed error
	err := w.epConn.Read(func(uintptr) bool {
		failed = w.read()
		return failed != nil || w.hungUp || len(w.pending) > 0
	})
	switch {
	case err != nil:
		return w.waitError(ctx, err)
	case failed != nil:
		return w.waitError(ctx, failed)
	case len(w.pending) == 0 && w.hungUp:
		return io.EOF
	default:
		return nil
	}
}

func (w *Watcher) waitError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.closed.Load():
		return ErrClosed
	default:
		return fmt.Errorf("wait for changes: %w", err)
	}
}

// addRoot watches a directory that was named, and its subdirectories.
func (w *Watcher) addRoot(dir string) error {
	if _, err := w.add(dir, true); err != nil {
		return err
	}
	w.roots = append(w.roots, dir)
	return w.addSubdirs(dir)
}

// addSubdirs watches the subdirectories of a root that are not watched yet.
func (w *Watcher) addSubdirs(dir string) error {
	list, err := os.ReadDir(dir)
	for _, de := range list {
		if journal.IsSubdirName(de.Name()) {
			if _, err := w.add(filepath.Join(dir, de.Name()), false); err != nil && !outOfReach(err) {
				return err
			}
		}
	}
	return err
}

// add watches one directory. fresh is false when it has been watched already.
func (w *Watcher) add(dir string, root bool) (fresh bool, err error) {
	mask := uint32(subMask)
	if root {
		mask = rootMask
	}
	// MASK_ADD: a directory may be a root and in another root too.
	var wd int
	ctlErr := w.inConn.Control(func(fd uintptr) { wd, err = unix.InotifyAddWatch(int(fd), dir, mask|unix.IN_MASK_ADD) })
	if err = errors.Join(err, ctlErr); err != nil {
		return false, fmt.Errorf("watch %s: %w", dir, err)
	}
	d := w.dirs[int32(wd)]
	if d == nil {
		w.dirs[int32(wd)] = &watched{paths: []string{dir}, root: root}
		return true, nil
	}
	if !slices.Contains(d.paths, dir) {
		d.paths = append(d.paths, dir)
	}
	d.root = d.root || root
	return false, nil
}

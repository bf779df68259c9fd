//go:build linux

package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/journal"
)

// read takes what there is from all descriptors, without blocking.
func (w *Watcher) read() error {
	if w.out != nil && !w.hungUp {
		_ = w.out.Control(func(fd uintptr) { // fails when it is closed: nobody writes
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0)
			w.hungUp = err == nil && n > 0
		})
	}
	for {
		var n int
		var err error
		if closed := w.inConn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), w.buf) }); closed != nil {
			return closed
		}
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("read inotify: %w", err)
		}
		w.parse(w.buf[:n])
		if n < len(w.buf)/2 {
			return nil // that was all; what came meanwhile makes it readable again
		}
	}
}

// parse turns a buffer of struct inotify_event into events.
func (w *Watcher) parse(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		n := int(binary.NativeEndian.Uint32(b[12:]))
		name := b[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+n]
		b = b[unix.SizeofInotifyEvent+n:]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		w.handle(wd, mask, string(name))
	}
}

// handle does what sd-journal does on an event.
func (w *Watcher) handle(wd int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.again()
		return
	}
	d := w.dirs[wd]
	if d == nil {
		return
	}
	switch {
	case mask&unix.IN_IGNORED != 0: // the kernel has dropped the watch
		delete(w.dirs, wd)
		w.again()
	case name == "" && mask&unix.IN_MOVE_SELF != 0:
		// It has another path now, or is out of reach. The watch stays with it:
		// drop it, IN_IGNORED follows.
		_ = w.inConn.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	case name == "":
		// IN_DELETE_SELF and IN_UNMOUNT are followed by IN_IGNORED; changes of the
		// directory itself do not matter.
	case mask&unix.IN_ISDIR != 0:
		if d.root && w.only == nil && mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ATTRIB) != 0 && journal.IsSubdirName(name) {
			// There may be files in it already.
			if fresh, err := w.add(filepath.Join(d.paths[0], name), false); err == nil && fresh {
				w.queue(Rescan, "")
			}
		}
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_ATTRIB) != 0:
		w.queueFile(Changed, d, name)
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		w.queueFile(Gone, d, name)
	}
}

// queueFile queues an event of a file in d, if it is one to be followed, with
// the path as the caller wrote it.
func (w *Watcher) queueFile(k Kind, d *watched, name string) {
	if w.only == nil {
		if journal.IsFileName(name) {
			w.queue(k, filepath.Join(d.paths[0], name))
		}
		return
	}
	for _, dir := range d.paths {
		if given, ok := w.only[filepath.Join(dir, name)]; ok {
			w.queue(k, given)
		}
	}
}

// again watches the directories there are now, after the kernel has dropped
// events, or a directory has gone or has another name.
func (w *Watcher) again() {
	for _, dir := range w.roots {
		// A directory that cannot be watched now has gone, which is seen when the
		// directories are listed.
		_, _ = w.add(dir, true)
		_ = w.addSubdirs(dir)
	}
	w.queue(Rescan, "")
}

// queue adds an event unless it says what the last one of that path said.
func (w *Watcher) queue(k Kind, path string) {
	if last, ok := w.last[path]; ok && last == k {
		return
	}
	w.last[path] = k
	w.pending = append(w.pending, Event{Kind: k, Path: path})
}

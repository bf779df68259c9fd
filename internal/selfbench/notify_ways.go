package selfbench

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

const (
	notifyLimit = 256 << 20 // length of a file of Notify
	gatherBound = 16 << 20  // of what has gathered
)

// mapped is a file as systemd-journald writes it: stores into a mapping, of which
// inotify knows nothing; then ftruncate to the length that it has, of which it does.
// Only a bench may do that: see the rule against mapped stores.
type mapped struct {
	vfs.File
	memory []byte
	end    int
	due    *settle.Settler // nil: each append pays at once
}

func openMapped(fs vfs.FS, path string, window time.Duration) (*target, error) {
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	m := &mapped{File: f}
	if err = f.Allocate(0, notifyLimit); err == nil {
		m.memory, err = mapFile(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if window > 0 {
		m.due = settle.New(func(upTo uint64) (uint64, error) { return upTo, f.Truncate(notifyLimit) }, settle.Options{Policy: settle.Every(window)})
	}
	return &target{m.put, m.close, linesOf(path)}, nil
}

// mapFile maps the whole of a file that Allocate has given its blocks, so that a
// store cannot meet a full disk.
func mapFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, notifyLimit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return memory, errors.Join(err, f.Close())
}

func (m *mapped) put(_ context.Context, r *record) error {
	m.end += copy(m.memory[m.end:], r[:])
	if m.due == nil {
		return m.Truncate(notifyLimit)
	}
	m.due.Mark(uint64(m.end))
	return nil
}

func (m *mapped) close() (err error) {
	if m.due != nil {
		err = m.due.Close()
	}
	return errors.Join(err, unix.Munmap(m.memory), m.Close())
}

// gathered is a file whose appends change memory only; a settler writes what has
// gathered, and that write tells readers.
type gathered struct {
	f       vfs.File
	settler *settle.Settler

	mu      sync.Mutex
	marked  uint64 // bytes appended; guarded by mu
	waiting []byte // to be written; guarded by mu
	spare   []byte // the effect's
	end     int64  // the effect's
}

func openGathered(fs vfs.FS, path string, o settle.Options) (*target, error) {
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	g := &gathered{f: f}
	g.settler = settle.New(g.write, o)
	return &target{g.put, func() error { return errors.Join(g.settler.Close(), f.Close()) }, linesOf(path)}, nil
}

func (g *gathered) put(ctx context.Context, r *record) error {
	g.mu.Lock()
	full := len(g.waiting) >= gatherBound
	if !full {
		g.waiting = append(g.waiting, r[:]...)
		g.marked += recordSize
	}
	position := g.marked
	g.mu.Unlock()
	if !full {
		g.settler.Mark(position)
		return nil
	}
	if err := g.settler.Wait(ctx, position); err != nil {
		return err
	}
	return g.put(ctx, r)
}

// write is the effect.
func (g *gathered) write(uint64) (uint64, error) {
	g.mu.Lock()
	g.waiting, g.spare = g.spare[:0], g.waiting
	position := g.marked
	g.mu.Unlock()
	n, err := g.f.WriteAt(g.spare, g.end)
	g.end += int64(n)
	return position, err
}

func openSettledWindow(fs vfs.FS, path string) (*target, error) {
	return openGathered(fs, path, settle.Options{Policy: settle.Every(Window), Leading: true, Sticky: true})
}

func openSettledAll(fs vfs.FS, path string) (*target, error) {
	return openGathered(fs, path, settle.Options{Policy: settle.All(), Sticky: true})
}

// openJournalWritten appends entries to a journal file, which writes by itself.
func openJournalWritten(fs vfs.FS, path string) (*target, error) {
	w, err := journal.Create(path, journal.Options{FS: fs, MaxSize: plainLimit})
	if err != nil {
		return nil, err
	}
	put := func(ctx context.Context, r *record) error {
		_, err := appendRecord(ctx, w, r)
		return err
	}
	return &target{put, w.Close, func(acked []uint64) error { return checkJournal(path, acked) }}, nil
}

func linesOf(path string) func([]uint64) error {
	return func(acked []uint64) error { return checkLines(path, acked) }
}

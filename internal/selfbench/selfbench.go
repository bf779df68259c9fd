package selfbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// Options of all tables.
type Options struct {
	// Dir is where a directory is made for the files, and removed afterwards.
	// Empty: the directory for temporary files.
	Dir string
	// Duration is how long each way runs in each round.
	Duration time.Duration
	// Rounds is how often each way runs. The round in the middle counts; of Commands,
	// and for the longest, all of them.
	Rounds int
	// Delay is how much longer each sync takes (Notify: each write; Append: as
	// AppendOptions says), so that a slow disk can be seen.
	Delay time.Duration
	// Progress, if not nil, is told what is measured now, step of total.
	Progress func(step, total int, what string)
	// Out gets the table.
	Out io.Writer
}

// room is what a table needs on the disk in bytes.
const room = 1 << 30

// place is the directory of one run.
type place struct {
	Options
	dir         string
	step, total int
}

// enter makes the directory of a run. what names the table.
func enter(o Options, what string) (*place, error) {
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	dir, err := os.MkdirTemp(o.Dir, "tidemark-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the files: %w: name another place with --dir", err)
	}
	avail, _, err := vfs.OS{}.Free(dir)
	if err == nil && avail < room {
		err = fmt.Errorf("%s has %d MiB free, %d are needed: remove something, or name another place with --dir", o.Dir, avail>>20, room>>20)
	}
	if err == nil {
		_, err = fmt.Fprintf(o.Out, "tidemark bench %s: %s (%s), %s%s; %s of %s each\n\n",
			what, o.Dir, fsName(dir), plural(runtime.GOMAXPROCS(0), "processor"), delayed(what, o.Delay), plural(o.Rounds, "round"), short(o.Duration))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &place{Options: o, dir: dir}, nil
}

// leave removes the directory.
func (p *place) leave() error {
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove the bench's files: %w: remove %s yourself", err, p.dir)
	}
	return nil
}

// next says what is measured now; an error if the user has had enough.
func (p *place) next(ctx context.Context, what string) error {
	p.step++
	if p.Progress != nil {
		p.Progress(p.step, p.total, what)
	}
	return context.Cause(ctx)
}

// file is a path for a file of the run.
func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

// disk is the file system that the run writes to. Its delays end with ctx.
func (p *place) disk(ctx context.Context) *SlowFS {
	return &SlowFS{FS: vfs.OS{}, Sync: p.Delay, Done: ctx.Done()}
}

func delayed(what string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	effect := "sync"
	switch what {
	case "notify":
		effect = "write"
	case "append":
		return fmt.Sprintf(", as on NFS with a COMMIT of %s", short(d))
	}
	return fmt.Sprintf(", every %s %s slower", effect, short(d))
}

// fsName names the file system of dir as mount(8) does, if it is one of the usual.
func fsName(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "of unknown kind"
	}
	switch int64(st.Type) { //nolint:unconvert // not everywhere an int64
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs, in memory, where a sync costs nothing: --dir names a place on a disk"
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// median is the element in the middle by value.
func median[T any](all []T, value func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int {
		switch x, y := value(a), value(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return sorted[len(sorted)/2]
}

package selfbench

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-log/tidemark/internal/vfs"
)

// countFS counts what tells readers of a change: writes, and changes of size.
type countFS struct {
	vfs.FS
	told atomic.Int64
}

func (c *countFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	return &countFile{f, c}, err
}

type countFile struct {
	vfs.File
	fs *countFS
}

func (f *countFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.told.Add(1)
	return f.File.WriteAt(p, off)
}

func (f *countFile) Truncate(size int64) error {
	f.fs.told.Add(1)
	return f.File.Truncate(size)
}

// TestTold counts how often readers are told of a lone record, of three more at
// once, and of these when a window has passed, in a bubble.
func TestTold(t *testing.T) {
	dir := t.TempDir()
	for i, want := range [][3]int64{
		{1, 4, 4}, // map, ftruncate each
		{0, 0, 1}, // map, ftruncate a window
		{1, 4, 4}, // write each
		{1, 1, 2}, // settled, a window: the first at once
	} {
		way := notifyWays[i]
		synctest.Test(t, func(t *testing.T) {
			c := &countFS{FS: vfs.OS{}}
			target, err := way.open(c, filepath.Join(dir, way.name))
			if err != nil {
				t.Fatal(err)
			}
			var got [3]int64
			n := uint64(0)
			put := func(times int) int64 {
				for range times {
					r := newRecord(0)
					r.number(n)
					n++
					if err := target.put(context.Background(), r); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				return c.told.Load()
			}
			got[0], got[1] = put(1), put(3)
			time.Sleep(Window)
			got[2] = put(0)
			if got != want {
				t.Errorf("%s: told %d, want %d", way.name, got, want)
			}
			if err := target.close(); err != nil {
				t.Error(err)
			}
			if err := target.check([]uint64{n}); err != nil {
				t.Error(err)
			}
		})
	}
}

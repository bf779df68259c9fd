package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// lostBlock is a file of which the disk has lost the bytes [from, to).
type lostBlock struct {
	*bytes.Reader
	from, to uint64
}

func (l lostBlock) ReadAt(p []byte, off int64) (int, error) {
	if at := uint64(off); at < l.to && at+uint64(len(p)) > l.from {
		return 0, syscall.EIO
	}
	return l.Reader.ReadAt(p, off)
}

// countMoves counts the entries that are left in a direction.
func countMoves(t *testing.T, j *Journal, dir direction) (n int) {
	t.Helper()
	for {
		switch _, err := j.move(dir); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			t.Fatal(err)
		}
		n++
	}
}

// A block that cannot be read takes those entries with it that have nothing outside
// of it, wherever it is: also those behind it are delivered, in both directions.
func TestLostBlockTakesNoOtherEntries(t *testing.T) {
	b := damageSample(t)
	objects := layoutOf(t, b)
	first := objects[2].off &^ 4095
	for _, at := range []uint64{first, first + 4096, first + 3*4096, first + 5*4096, first + 19*4096, first + 30*4096} {
		l := lostBlock{bytes.NewReader(b), at, at + 4096}
		gone := func(from, to uint64) bool { return from < l.to && to > l.from }
		want := 0
		for _, o := range objects {
			if o.t != object.Entry || gone(o.off, o.off+o.size) {
				continue
			}
			for _, item := range o.items {
				if !gone(item, item+8) {
					want++
					break
				}
			}
		}
		f, err := NewFile(l, func() int64 { return int64(len(b)) }, "lost")
		readerMust(t, err)
		j := ReadOptions{}.New()
		j.AddFile(f)
		n := countMoves(t, j, down)
		j.SeekTail()
		if back := countMoves(t, j, up); n < want-1 || back != n {
			t.Errorf("block %d: %d forward, %d back, want %d of 1000", at, n, back, want)
		}
		readerMust(t, j.Close())
	}
}

// A file may become shorter than its first entry, or than its header, while it is
// read.
func TestFileShrinksToNothing(t *testing.T) {
	b := damageSample(t)
	half := layoutOf(t, b)
	middle := int64(half[len(half)/2].off)
	for mode, o := range readModes {
		for _, dir := range []direction{down, up} {
			for _, size := range []int64{0, 4096, middle} {
				path := filepath.Join(t.TempDir(), "a.journal")
				readerMust(t, os.WriteFile(path, b, 0o600))
				j := openSample(t, o, path)
				f := j.files[0].f
				if dir == up {
					j.SeekTail()
				}
				for range 10 {
					_, err := j.move(dir)
					readerMust(t, err)
				}
				readerMust(t, os.Truncate(path, size))
				f.forget()
				if n := countMoves(t, j, dir); n > 989 || size == middle && n < 300 || len(j.Warnings()) == 0 {
					t.Errorf("%s, %d bytes, direction %d: %d entries, %v", mode, size, dir, n, j.Warnings())
				}
			}
		}
	}
}

// A file that becomes shorter while it is scanned is scanned again.
func TestFileShrinksInAScan(t *testing.T) {
	b := bytes.Clone(damageSample(t))
	var entries []uint64
	for _, o := range layoutOf(t, b) {
		if o.t == object.Entry {
			entries = append(entries, o.off)
		}
	}
	b[entries[100]] = 0
	path := filepath.Join(t.TempDir(), "a.journal")
	readerMust(t, os.WriteFile(path, b, 0o600))
	j := openSample(t, ReadOptions{Map: true}, path)
	f := j.files[0].f
	f.loads = mapAfter
	f.mapDue()
	size := f.size
	f.size = func() int64 {
		n := size()
		readerMust(t, os.Truncate(path, int64(entries[500])))
		return n
	}
	if n := countMoves(t, j, down); n != 499 {
		t.Errorf("%d entries, want 499: %v", n, j.Warnings())
	}
}

// cutFor is a file of which, for some reads of what is behind a place, that is not there.
type cutFor struct {
	*bytes.Reader
	at    int64
	reads int
}

func (c *cutFor) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= c.at || c.reads == 0 {
		return c.Reader.ReadAt(p, off)
	}
	c.reads--
	n, _ := c.Reader.ReadAt(p[:max(c.at-off, 0)], off)
	return n, io.EOF
}

// A file that is cut while it is scanned, and has grown again when the scan ends, is
// scanned again; one that goes on so is said to be.
func TestFileCutWhileItIsScanned(t *testing.T) {
	b := damageSample(t)
	objects := layoutOf(t, b)
	object.PutU64(b, object.HdrEntryArrayOffset, 8) // it has to be scanned
	at := int64(objects[len(objects)/2].off)
	want := uint64(0)
	for _, reads := range []int{0, 1, 1 << 30} {
		c := &cutFor{bytes.NewReader(b), at, 0}
		f, err := NewFile(c, func() int64 { return int64(len(b)) }, "cut")
		readerMust(t, err)
		c.reads = reads
		f.forget()
		f.ready()
		n, said := f.Entries(), false
		for _, w := range f.Warnings() {
			said = said || errors.Is(w, ErrTruncated)
		}
		switch endless := reads == 1<<30; {
		case reads == 0:
			want = n
		case endless && (n >= want || !said):
			t.Errorf("%d entries of %d in a file that stays cut: %v", n, want, f.Warnings())
		case !endless && (n != want || said):
			t.Errorf("cut for %d reads: %d entries, want %d: %v", reads, n, want, f.Warnings())
		}
	}
	if want < 10 {
		t.Errorf("%d entries", want)
	}
}

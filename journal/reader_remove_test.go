package journal

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// A file that is removed in the middle of reading, be it the one of the entry
// delivered last, delivers no more, and the others go on in order; forward and
// backward.
func TestRemoveWhileReading(t *testing.T) {
	const files, each = 7, 6
	dir := t.TempDir()
	c := newClock()
	var paths []string
	var ws []*Writer
	for i := range files {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("f%d.journal", i)))
		ws = append(ws, create(t, paths[i], Options{MaxSize: MinMaxSize, Clock: c.now}))
	}
	var from []int // by entry: its file
	for i := range files {
		for range each {
			from = append(from, i)
		}
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(from), func(i, k int) { from[i], from[k] = from[k], from[i] })
	for n, i := range from {
		appendTo(t, ws[i], fmt.Sprintf("MESSAGE=%d of %d", n, i))
	}
	for _, w := range ws {
		readerMust(t, w.Close())
	}
	for gone := range files {
		for read := 1; read < len(from); read += inFull(1, 3) {
			for _, back := range []bool{false, true} {
				removeTest{paths, from, gone, read, back}.run(t)
			}
		}
	}
}

// removeTest reads a number of entries, removes a file and reads on.
type removeTest struct {
	paths []string
	from  []int
	gone  int // the file
	read  int
	back  bool
}

func (r removeTest) run(t *testing.T) {
	t.Helper()
	j, err := Open(r.paths)
	readerMust(t, err)
	defer j.Close()
	next := j.Next
	if r.back {
		j.SeekTail()
		next = j.Previous
	}
	var got, want []string
	for i := range r.from {
		n := i
		if r.back {
			n = len(r.from) - 1 - i
		}
		if i < r.read || r.from[n] != r.gone {
			want = append(want, fmt.Sprintf("%d of %d", n, r.from[n]))
		}
	}
	for {
		if len(got) == r.read {
			j.Remove(r.paths[r.gone])
		}
		e, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		readerMust(t, err)
		m, _ := e.Get("MESSAGE")
		got = append(got, string(m))
	}
	wantMessages(t, fmt.Sprintf("file %d removed after %d entries, back=%v", r.gone, r.read, r.back), got, want...)
}

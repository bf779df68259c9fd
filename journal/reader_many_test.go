package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// patched is a file in memory with other bytes in a few places.
type patched struct {
	base  []byte
	patch map[int64][]byte
}

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := bytes.NewReader(p.base).ReadAt(b, off)
	for at, v := range p.patch {
		for i := range v {
			if k := at + int64(i) - off; k >= 0 && k < int64(n) {
				b[k] = v[i]
			}
		}
	}
	return n, err
}

// manyFiles returns a Journal of n files: copies of one, each of a sequence of
// its own.
func manyFiles(t testing.TB, n int) *Journal {
	t.Helper()
	b := sampleBytes(t, "r-11")
	j := ReadOptions{}.New()
	for i := range n {
		id := make([]byte, 16)
		object.PutU64(id, 0, uint64(i)+1)
		f, err := NewFile(&patched{b, map[int64][]byte{object.HdrSeqnumID: id}}, func() int64 { return int64(len(b)) }, "copy")
		if err != nil {
			t.Fatal(err)
		}
		j.AddFile(f)
	}
	return j
}

// Entries of 300 files that are equal in everything but their sequence are
// delivered once, and all files share the memory of one.
func TestManyFiles(t *testing.T) {
	oneGoroutine(t)
	j := manyFiles(t, 300)
	defer j.Close()
	// Going back begins at the last entry, which was delivered going forward.
	for k, move := range []func() (*entry.Entry, error){j.Next, j.Previous} {
		n := 0
		for {
			_, err := move()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := 1000 - k; n != want {
			t.Errorf("move %d: %d entries, want %d", k, n, want)
		}
	}
	if n := len(j.pool.all); n > poolWindows {
		t.Errorf("%d windows, want at most %d", n, poolWindows)
	}
}

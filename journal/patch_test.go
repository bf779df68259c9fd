package journal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wPatched is a file in memory that counts its calls.
type wPatched struct {
	vfs.File
	b             []byte
	reads, writes int
	readErr       error
	failAt        int // write that fails, from 1; 0: none
}

var errWPatched = errors.New("broken")

func (f *wPatched) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	if f.readErr != nil {
		return 0, f.readErr
	}
	return copy(p, f.b[off:]), nil
}

func (f *wPatched) WriteAt(p []byte, off int64) (int, error) {
	if f.writes++; f.writes == f.failAt {
		return 0, errWPatched
	}
	return copy(f.b[off:], p), nil
}

// wPatches makes n patches of a file of size bytes, a few places twice.
func wPatches(r *rand.Rand, n, size int) []wPatch {
	p := make([]wPatch, n)
	for i := range p {
		p[i] = wPatch{wRef(r.IntN(size / 8)), wRef(r.Uint32())}
		if i > 0 && r.IntN(10) == 0 {
			p[i].at = p[r.IntN(i)].at
		}
	}
	return p
}

func TestSortPatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var spare []wPatch
	for _, n := range []int{0, 1, 2, radixMin - 1, radixMin, 5000} {
		for _, size := range []int{64, 1 << 14, 1 << 30} {
			p := wPatches(r, n, size)
			last := map[wRef]wRef{}
			for _, x := range p {
				last[x.at] = x.to
			}
			var want []wPatch
			for at, to := range last {
				want = append(want, wPatch{at, to})
			}
			slices.SortFunc(want, func(a, b wPatch) int { return int(a.at) - int(b.at) })
			var got []wPatch
			got, spare = sortPatches(p, spare)
			if len(got) > 0 && len(spare) > 0 && &got[0] == &spare[0] {
				t.Fatalf("%d patches: the result shares memory with the other slice", n)
			}
			if diff := cmp.Diff(want, append([]wPatch(nil), got...), cmp.AllowUnexported(wPatch{})); diff != "" {
				t.Fatalf("%d patches in %d bytes (-want +got):\n%s", n, size, diff)
			}
		}
	}
}

// What is written must be the same whether patches lie close or far apart, and
// whether or not the file can be read; and again after a failed write.
func TestWriteChains(t *testing.T) {
	const size = 1 << 20
	for _, tc := range []struct {
		name    string
		n       int
		readErr error
		failAt  int
		calls   int // writes at most; -1: one more than there are patches
	}{
		{name: "one", n: 1, calls: 1},
		{name: "far apart", n: 20, calls: 20},
		{name: "close", n: 4000, calls: size/wMaxPiece + 10},
		{name: "unreadable", n: 4000, readErr: errWPatched, calls: 4000},
		{name: "unreadable, failed write", n: 3000, readErr: errWPatched, failAt: 1500, calls: -1},
		{name: "failed write", n: 4000, failAt: 3, calls: size/wMaxPiece + 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(tc.n)))
			f := &wPatched{b: make([]byte, size), readErr: tc.readErr, failAt: tc.failAt}
			for i := range f.b {
				f.b[i] = byte(r.Uint32())
			}
			want := slices.Clone(f.b)
			s := &wStage{chains: wPatches(r, tc.n, size)}
			for _, p := range s.chains {
				object.PutU64(want, int(p.at.offset()), p.to.offset())
			}
			s.chains, s.spare = sortPatches(s.chains, nil)
			if tc.calls < 0 {
				tc.calls = len(s.chains) + 1
			}
			n := 0
			err := s.putChains(f, &n)
			if tc.failAt > 0 {
				if !errors.Is(err, errWPatched) {
					t.Fatalf("a failed write: %v", err)
				}
				n = 0
				err = s.putChains(f, &n)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(f.b, want) {
				t.Error("the file has other bytes than its patches say")
			}
			if f.writes > tc.calls {
				t.Errorf("%d writes, want at most %d", f.writes, tc.calls)
			}
		})
	}
}

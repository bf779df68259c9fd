package journal

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// wDrawn draws an entry that repeats much of the one before, at its place or at
// another, is cut where recall cuts, has fields twice, or is refused.
func wDrawn(r *rand.Rand, before []entry.Field) []entry.Field {
	var f []entry.Field
	for _, b := range before {
		switch r.IntN(12) {
		case 0: // gone
		case 1:
			f = append(f, b[:len(b)-r.IntN(2)])
		case 2:
			f = append(f, append(slices.Clone(b), 'y'))
		case 3:
			f = append(f, b, b)
		default:
			f = append(f, b)
		}
	}
	for range r.IntN(3) {
		name := fmt.Sprintf("F%d", r.IntN(400)) // more than there are buckets
		f = append(f, fmt.Appendf(nil, "%s=%d", name, r.IntN(5)), fmt.Appendf(nil, "%s0=%d", name, r.IntN(2)))
	}
	switch r.IntN(8) {
	case 0:
		f = append(f, entry.Field("LONG="+strings.Repeat("x", wLastMax-7+r.IntN(4))))
	case 1:
		f = append(f, entry.Field("HUGE="+strings.Repeat("x", wLargeField+r.IntN(2))))
	case 2:
		r.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
	case 3:
		f = append(f, entry.Field([]string{"", "=", "a=1", "NOTHING", "F1"}[r.IntN(5)]))
	}
	return f[:min(len(f), wLastFields+8)]
}

// A writer that remembers the entry before writes the bytes of one that does not.
func TestStressRecall(t *testing.T) {
	for seed := range uint64(crashRuns(12)) {
		r := rand.New(rand.NewPCG(seed, 7))
		m := newWMem(t)
		m.hdr.FileID = entry.ID{byte(seed), byte(seed >> 8)} // which decides the buckets
		with, without := newMem(m.hdr, m.base, m.limit, m.threshold), newMem(m.hdr, m.base, m.limit, m.threshold)
		large := Writer{m: with, hasher: with.wHasher}
		a, b := &wStage{}, &wStage{}
		refused, recalled := 0, 0
		var fields []entry.Field
		for n := range uint64(150) {
			drawn := wDrawn(r, fields)
			e := entry.Entry{Fields: drawn}
			stamp := wStamp{1e15 + n, n, entry.ID{1}}
			with.large = large.prepare([]entry.Entry{e})
			clear(without.last)
			err1, err2 := with.build(&e, stamp), without.build(&e, stamp)
			if fmt.Sprint(err1) != fmt.Sprint(err2) {
				t.Fatalf("seed %d, entry %d: %v, without memory %v", seed, n, err1, err2)
			}
			with.large = nil
			if err1 != nil {
				refused++
				continue
			}
			for i := range with.probes {
				if with.probes[i].same {
					recalled++
				}
			}
			if with.hdr != without.hdr {
				t.Fatalf("seed %d, entry %d: header %+v, without memory %+v", seed, n, with.hdr, without.hdr)
			}
			fields = drawn
			if r.IntN(20) > 0 {
				continue
			}
			index := r.IntN(2) == 0
			a.reset()
			b.reset()
			with.take(a, index)
			without.take(b, index)
			if !bytes.Equal(a.tail, b.tail) || !bytes.Equal(a.buf, b.buf) || !slices.Equal(a.chains, b.chains) ||
				!reflect.DeepEqual([][]wOp{a.early, a.late, a.counts}, [][]wOp{b.early, b.late, b.counts}) {
				t.Fatalf("seed %d: what is written up to entry %d is not what it is without memory", seed, n)
			}
		}
		if refused == 0 || recalled < 100 {
			t.Errorf("seed %d: %d entries refused, %d fields recalled: the test tests nothing", seed, refused, recalled)
		}
	}
}

// The table finds what was added and nothing else, also where places and marks
// are those of others.
func TestTableAgainstAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func() wKey {
		// Few places at either end of the table, few marks.
		return wKey{(r.Uint64()%3*0x7fff_fffc+r.Uint64()%5+r.Uint64()%3<<8)<<32 | r.Uint64()%2, r.Uint64() % 4}
	}
	var table wTable
	want := map[wKey]uint32{}
	for range 2000 {
		k := draw()
		got := table.find(k.k0, k.k1)
		if got != want[k] {
			t.Fatalf("%x: record %d, want %d", k, got, want[k])
		}
		if got == 0 {
			want[k], _ = table.add(k.k0, k.k1)
		}
	}
	if len(want) < wMinSlots {
		t.Errorf("%d keys: the table never grew", len(want))
	}
	for k := range maps.Keys(want) {
		if got := table.find(k.k0, k.k1); got != want[k] {
			t.Errorf("%x: record %d, want %d", k, got, want[k])
		}
	}
}

// A name that is known by its place counts for the depth of its chain as one that
// was searched.
func TestRecalledNameCountsDepth(t *testing.T) {
	m := newWMem(t)
	bucket := func(name string) uint64 { return m.hash([]byte(name)) % uint64(len(m.fieldBuckets.ends)) }
	other := ""
	for i := 0; other == "" || bucket(other) != bucket("A"); i++ {
		other = fmt.Sprintf("B%d", i)
	}
	for n, want := range []uint64{0, 1} {
		e := wFields("A=1", fmt.Sprintf("%s=%d", other, n))
		if err := m.build(&e, wStamp{1, 1, entry.ID{1}}); err != nil {
			t.Fatal(err)
		}
		if got := m.hdr.FieldHashChainDepth; got != want {
			t.Errorf("entry %d: depth %d, want %d", n, got, want)
		}
	}
}

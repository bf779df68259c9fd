package journal

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// wDrawn draws an entry that repeats much of the one before, at its place or at
// another, is cut where recall cuts, has fields twice, or is refused.
func wDrawn(r *rand.Rand, before []entry.Field) []entry.Field {
	var f []entry.Field
	change := 12
	if r.IntN(3) > 0 {
		change = 100
	}
	for i, b := range before {
		if slices.ContainsFunc(before[:i], func(x entry.Field) bool { return bytes.Equal(x, b) }) && r.IntN(4) > 0 {
			continue // else all later entries have it twice
		}
		switch r.IntN(change) {
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
	for range r.IntN(3) * r.IntN(2) {
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

// wApply writes a stage to the image of a file.
func wApply(image *[]byte, s *wStage) {
	*image = append(*image, make([]byte, max(0, int(s.end)-len(*image)))...)
	copy((*image)[s.base:], s.tail)
	for _, o := range slices.Concat(s.early, s.late) {
		copy((*image)[o.off:], s.buf[o.at:o.at+o.n])
	}
	for _, p := range s.chains {
		object.PutU64(*image, int(p.at.offset()), p.to.offset())
	}
	for _, o := range s.counts {
		copy((*image)[o.off:], s.buf[o.at:o.at+o.n])
	}
	copy(*image, s.header[:s.hdrLen])
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
		refused, recalled, carried := 0, 0, 0
		var one, other []byte
		var fields []entry.Field
		for n := range uint64(150) {
			drawn := wDrawn(r, fields)
			e := entry.Entry{Fields: drawn}
			stamp := wStamp{1e15 + n, n, entry.ID{1}}
			with.large = large.prepare([]entry.Entry{e})
			with.before = fields // whose bytes drawn has in part
			without.settleAll()
			without.places = 0
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
			carried += len(drawn) - len(with.probes)
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
			wApply(&one, a)
			wApply(&other, b)
			if index && !bytes.Equal(one, other) {
				t.Fatalf("seed %d: what is written up to entry %d is not what it is without memory", seed, n)
			}
		}
		if refused == 0 || recalled < 100 || carried < 100 {
			t.Errorf("seed %d: %d entries refused, %d fields recalled, %d carried: the test tests nothing", seed, refused, recalled, carried)
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

// wWritten builds n entries that repeat fields for long stretches, and returns the file.
// Only forgets tells two writers apart.
func wWritten(t *testing.T, m *wMem, n int, forgets bool) []byte {
	t.Helper()
	var image []byte
	s := &wStage{}
	for i := range n {
		e := entry.Entry{Fields: []entry.Field{
			entry.Field("SAME=1"), fmt.Appendf(nil, "PHASE=%d", i/(wRecent+100)), fmt.Appendf(nil, "N=%d", i), entry.Field("SAME=2"),
		}}
		if i%3000 == 2999 {
			e.Fields = append(e.Fields, e.Fields[0]) // twice: nothing is carried past it
		}
		if forgets {
			m.settleAll()
			m.places = 0
			clear(m.last)
		}
		if err := m.build(&e, wStamp{1e15 + uint64(i), uint64(i), entry.ID{1}}); err != nil {
			t.Fatal(err)
		}
		if i%7000 == 6999 || i == n-1 {
			s.reset()
			m.take(s, true)
			wApply(&image, s)
		}
	}
	return image
}

// Stretches longer than what is kept of the entries before, and memory that another
// file has used, make no difference to the bytes.
func TestCarryOverLongStretches(t *testing.T) {
	h := newWMem(t).hdr
	fresh := func(spare *wSpare) *wMem {
		m := newMem(h, h.DataHashTableOffset+h.DataHashTableSize, maxFileSize, 0)
		m.beginIn(spare)
		return m
	}
	const n = 3*wRecent + 1000
	want := wWritten(t, fresh(nil), n, true)
	used := fresh(nil)
	if got := wWritten(t, used, n, false); !bytes.Equal(got, want) {
		t.Error("what is carried makes a difference")
	}
	spare := &wSpare{used.data, used.dataBuckets.ends, used.dataBuckets.used, used.tail, used.slots, used.chains}
	if got := wWritten(t, fresh(spare), n, false); !bytes.Equal(got, want) {
		t.Error("memory of another file makes a difference")
	}
}

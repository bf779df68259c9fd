package journal

import (
	"slices"

	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// Hash chains change all over a file: each new DATA object is linked from its
// bucket, and mostly from an object anywhere. One pwrite for each costs 1.5 µs.
// Reading, patching and rewriting what lies between costs 1 µs per 4 KiB. So
// patches that lie closer than that are written together.
const (
	wPatchGap = 4 << 10  // bytes between patches of one write, at most
	wMaxPiece = 64 << 10 // and of all of it: a larger write makes later ones of the same pages dearer
)

// putChains writes s.chains, which are sorted, as the next writes of the stage.
func (s *wStage) putChains(f vfs.File, count *int) error {
	for p := s.chains; len(p) > 0; {
		n := 1
		for n < len(p) && p[n].at-p[n-1].at <= wPatchGap/8 && p[n].at-p[0].at < wMaxPiece/8 {
			n++
		}
		if err := s.putPiece(f, count, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// putPiece writes patches together. Nobody else writes to the file, so that
// what lies between them is written as it is.
func (s *wStage) putPiece(f vfs.File, count *int, p []wPatch) error {
	if s.isPast(count) {
		return nil
	}
	off := p[0].at.offset()
	n := int(p[len(p)-1].at.offset() + 8 - off)
	if cap(s.piece) < n {
		s.piece = make([]byte, wMaxPiece)
	}
	b := s.piece[:n]
	if n > 8*len(p) {
		if _, err := f.ReadAt(b, int64(off)); err != nil {
			return s.putEach(f, *count, p)
		}
	}
	for _, x := range p {
		object.PutU64(b, int(x.at.offset()-off), x.to.offset())
	}
	return s.putRest(f, *count, b, off)
}

// putEach writes the patches of a piece one by one, where the file cannot be read.
func (s *wStage) putEach(f vfs.File, count int, p []wPatch) error {
	b := s.piece[:8]
	for s.past.each < len(p) {
		x := p[s.past.each]
		object.PutU64(b, 0, x.to.offset())
		if _, err := f.WriteAt(b, int64(x.at.offset())); err != nil {
			return err
		}
		s.past.each++
	}
	s.past = wPast{whole: count}
	return nil
}

const (
	radixBits = 11
	radixMin  = 256 // below which sorting by comparison is faster
)

// sortPatches sorts p by place, and keeps of those for the same place the last.
// The result takes the memory of p or that of spare; free is the other.
func sortPatches(p, spare []wPatch) (sorted, free []wPatch) {
	if len(p) < radixMin {
		slices.SortStableFunc(p, func(a, b wPatch) int { return int(int64(a.at) - int64(b.at)) })
		return lastOfEach(p), spare
	}
	var top wRef
	for _, x := range p {
		top |= x.at
	}
	spare = slices.Grow(spare[:0], len(p))[:len(p)]
	for shift := 0; top>>shift != 0; shift += radixBits {
		var at [1 << radixBits]int
		for _, x := range p {
			at[x.at>>shift%(1<<radixBits)]++
		}
		sum := 0
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, x := range p {
			i := &at[x.at>>shift%(1<<radixBits)]
			spare[*i] = x
			*i++
		}
		p, spare = spare, p
	}
	return lastOfEach(p), spare
}

// lastOfEach keeps of neighbours for the same place the last.
func lastOfEach(p []wPatch) []wPatch {
	n := 0
	for i, x := range p {
		if i+1 == len(p) || p[i+1].at != x.at {
			p[n] = x
			n++
		}
	}
	return p[:n]
}

package settle

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

func instantly(upTo uint64) (uint64, error) { return upTo, nil }

// BenchmarkMark is the cost of an append's mark with the window armed, which is to
// be less than 20 ns: of-20ns is the part of them that it takes.
func BenchmarkMark(b *testing.B) {
	s := New(instantly, Options{Policy: Every(time.Hour)})
	defer func() { _ = s.Close() }()
	s.Mark(1) // arms
	b.ReportAllocs()
	pos := uint64(1)
	for b.Loop() {
		pos++
		s.Mark(pos)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20, "of-20ns")
}

// BenchmarkMarkAll is the same while effects that take no time run back to back.
func BenchmarkMarkAll(b *testing.B) {
	s := New(instantly, Options{Policy: All()})
	defer func() { _ = s.Close() }()
	b.ReportAllocs()
	pos := uint64(0)
	for b.Loop() {
		pos++
		s.Mark(pos)
	}
}

// BenchmarkMarkParallel marks from every processor.
func BenchmarkMarkParallel(b *testing.B) {
	s := New(instantly, Options{Policy: Every(time.Hour)})
	defer func() { _ = s.Close() }()
	var pos atomic.Uint64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Mark(pos.Add(1))
		}
	})
}

// BenchmarkLoneWait is a mark and a wait by one caller, who runs the effect.
func BenchmarkLoneWait(b *testing.B) {
	s := New(instantly, Options{})
	defer func() { _ = s.Close() }()
	b.ReportAllocs()
	pos := uint64(0)
	for b.Loop() {
		pos++
		s.Mark(pos)
		if err := s.Wait(context.Background(), pos); err != nil {
			b.Fatal(err)
		}
	}
}

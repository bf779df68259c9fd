package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// batchOf makes n entries with the fields of an ordinary service's line.
func batchOf(n int) []entry.Entry {
	batch := make([]entry.Entry, n)
	for i := range batch {
		for k := range 20 {
			batch[i].Fields = append(batch[i].Fields, entry.Field(fmt.Sprintf("FIELD_%d=value of this field", k)))
		}
	}
	return batch
}

// BenchmarkAppend measures what the store adds to a writer's append: the route,
// the time, the ticket.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 25} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := testConfig(b.TempDir(), nil)
			cfg.Limits.MaxFileSize = 128 << 20
			s, err := Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close(context.Background())
			batch := batchOf(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAppendAllocatesNothing holds in the long run: growing tables and rotation
// allocate now and then.
func TestAppendAllocatesNothing(t *testing.T) {
	cfg := testConfig(t.TempDir(), nil)
	cfg.Limits.MaxFileSize = 128 << 20
	s := open(t, cfg)
	batch := batchOf(25)
	put := func() {
		if _, err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		put()
	}
	if n := testing.AllocsPerRun(400, put); n > 0 {
		t.Errorf("%v allocations for each append", n)
	}
}

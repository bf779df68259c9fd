package settle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// nap takes d in a system call, as a sync does. time.Sleep takes a millisecond at
// least on an idle machine.
func nap(d time.Duration) {
	for left := syscall.NsecToTimespec(int64(d)); syscall.Nanosleep(&left, &left) == syscall.EINTR; {
	}
}

// BenchmarkGroupWait is callers who each mark, wait and come back at once, with
// effects of a set length, with the gather and without. It reports how many waits
// one effect answers, and how long half of the callers waited at most, in
// effects.
func BenchmarkGroupWait(b *testing.B) {
	for _, takes := range []time.Duration{250 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		for _, callers := range []int{1, 8, 64, 200} {
			for _, gathers := range []string{"gate", "always", "never"} {
				b.Run(fmt.Sprintf("%v/%d/%s", takes, callers, gathers), func(b *testing.B) {
					benchGroup(b, takes, callers, gathers)
				})
			}
		}
	}
}

func benchGroup(b *testing.B, takes time.Duration, callers int, gathers string) {
	var effects, pos atomic.Uint64
	var took time.Duration // by all effects
	s := New(func(upTo uint64) (uint64, error) { nap(takes); return upTo, nil },
		Options{Observe: func(d time.Duration, _ uint64, _ error) { took += d; effects.Add(1) }})
	switch gathers {
	case "always":
		s.g.gate = 0
	case "never":
		s.g.gate = time.Hour
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	waits := make([][]time.Duration, callers)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			mine := make([]time.Duration, 0, 2*b.N/callers)
			for left.Add(-1) >= 0 {
				begin := time.Now()
				p := pos.Add(1)
				s.Mark(p)
				if err := s.Wait(context.Background(), p); err != nil {
					b.Error(err)
				}
				mine = append(mine, time.Since(begin))
			}
			waits[c] = mine
		})
	}
	wg.Wait()
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	n := float64(effects.Load())
	mean := float64(took) / n
	b.ReportMetric(float64(b.N)/n, "waits/effect")
	b.ReportMetric(float64(all[len(all)/2])/mean, "p50/effect")
	b.ReportMetric(float64(all[len(all)*99/100])/mean, "p99/effect")
}

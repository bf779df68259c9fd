package journal

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An append as a daemon makes it, the writing by another goroutine included.
func BenchmarkAppend(b *testing.B) {
	s := newWSteady()
	var w *Writer
	files := 0
	open := func() {
		var err error
		if w, err = Create(filepath.Join(b.TempDir(), strconv.Itoa(files)+".journal"), Options{}); err != nil {
			b.Fatal(err)
		}
		files++
	}
	open()
	b.ReportAllocs()
	before := wCPU()
	for b.Loop() {
		_, _, err := w.Append(b.Context(), s.next())
		if errors.Is(err, ErrFull) {
			b.StopTimer()
			if err = w.Close(); err == nil {
				open()
				_, _, err = w.Append(b.Context(), s.e[:])
			}
			b.StartTimer()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(wCPU()-before)/float64(b.N), "cpu-ns/op")
	st := w.Stats()
	b.ReportMetric(float64(st.Entries)/float64(max(st.Writes, 1)), "entries/write")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// wCPU is the processor time of this process, user and system.
func wCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What building an entry in memory costs, without writing.
func BenchmarkBuild(b *testing.B) {
	s := newWSteady()
	m, st := newWMem(b), &wStage{}
	b.ReportAllocs()
	before := wCPU()
	defer func() { b.ReportMetric(float64(wCPU()-before)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		s.next()
		err := m.build(&s.e[0], wStamp{uint64(s.n), uint64(s.n), s.e[0].BootID})
		if errors.Is(err, errNoRoom) || m.crowded() != "" {
			b.StopTimer()
			m.release()
			m = newWMem(b)
			b.StartTimer()
		} else if err != nil {
			b.Fatal(err)
		}
		if len(m.tail) > 1<<20 {
			b.StopTimer()
			st.reset()
			m.take(st, true)
			b.StartTimer()
		}
	}
}

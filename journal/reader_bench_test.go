package journal

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// benchFile is TIDEMARK_BENCH_JOURNAL, a large real file, or else one made by
// the real systemd-journal-remote.
func benchFile(b *testing.B) string {
	b.Helper()
	if path := os.Getenv("TIDEMARK_BENCH_JOURNAL"); path != "" {
		return path
	}
	path := b.TempDir() + "/bench.journal"
	remote(b, path, newStream(5).append(nil, 20_000, 0))
	return path
}

// BenchmarkScan reads all fields of all entries; one operation is one entry.
func BenchmarkScan(b *testing.B) {
	path := benchFile(b)
	for mode, o := range readModes {
		b.Run(mode, func(b *testing.B) {
			j := openSample(b, o, path)
			b.ReportAllocs()
			var n, fields, size int
			for b.Loop() {
				e, err := j.Next()
				if errors.Is(err, io.EOF) {
					j.SeekHead()
					continue
				}
				if err != nil {
					b.Fatal(err)
				}
				n++
				fields += len(e.Fields)
				for _, f := range e.Fields {
					size += len(f)
				}
			}
			b.ReportMetric(float64(fields)/float64(n), "fields/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(fields), "ns/field")
			b.ReportMetric(float64(size)/float64(n), "B/entry")
		})
	}
}

// BenchmarkMatch walks the entries of one unit; one operation is one of them.
func BenchmarkMatch(b *testing.B) {
	path := benchFile(b)
	for mode, o := range map[string]ReadOptions{"index": {Map: true}, "scan": {Map: true, Scan: true}} {
		b.Run(mode, func(b *testing.B) {
			j := openSample(b, o, path)
			j.SetMatch(And(Term(entry.Field("PRIORITY=6")), Not(Term(entry.Field("_SYSTEMD_UNIT=u1.service")))))
			b.ReportAllocs()
			for b.Loop() {
				_, err := j.Next()
				if errors.Is(err, io.EOF) {
					j.SeekHead()
					continue
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUniqueValues lists all values of the field with the most.
func BenchmarkUniqueValues(b *testing.B) {
	j := openSample(b, ReadOptions{Map: true}, benchFile(b))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, err := range j.UniqueValues("MESSAGE") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/value")
}

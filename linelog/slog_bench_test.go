package linelog

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkHandler measures a record of three attributes; -cpu 8 has as many callers.
func BenchmarkHandler(b *testing.B) {
	for name, format := range map[string]Format{"logfmt": Logfmt, "json": JSON} {
		b.Run(name, func(b *testing.B) {
			w, err := Open(filepath.Join(b.TempDir(), "log"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			l := slog.New(NewHandler(w, HandlerOptions{Format: format}))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					l.LogAttrs(context.Background(), slog.LevelInfo, "request served", slog.Int("id", i), slog.String("path", "/var/lib/thing"), slog.Duration("took", 1234*time.Microsecond))
				}
			})
			if err := w.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

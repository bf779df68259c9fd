//go:build !race

package linelog

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// Not under the race detector, where sync.Pool drops things on purpose.
func TestHandlerDoesNotAllocate(t *testing.T) {
	for _, format := range []Format{Logfmt, JSON} {
		w, err := Open(t.TempDir()+"/log", Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := slog.New(NewHandler(w, HandlerOptions{Format: format}).WithAttrs([]slog.Attr{slog.String("service", "shop")}))
		ctx, when := context.Background(), time.Now()
		n := testing.AllocsPerRun(500, func() {
			l.LogAttrs(ctx, slog.LevelInfo, "order paid", slog.Int("order", 17), slog.String("by", "card"), slog.Bool("new", true), slog.Time("at", when))
		})
		if n != 0 {
			t.Errorf("format %d: %v allocations a record", format, n)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

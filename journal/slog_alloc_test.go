//go:build !race

package journal

import (
	"context"
	"log/slog"
	"testing"
)

// Not under the race detector, where sync.Pool drops things on purpose.
func TestHandlerDoesNotAllocate(t *testing.T) {
	r := newHandlerRig(t, HandlerOptions{AddSource: false})
	l := slog.New(r).With("service", "shop")
	ctx := context.Background()
	i := 0
	n := testing.AllocsPerRun(3000, func() {
		i++
		l.LogAttrs(ctx, slog.LevelInfo, "order paid", slog.Int("order", i%100), slog.String("by", "card"), slog.Bool("new", true))
	})
	if n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

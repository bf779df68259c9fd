package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"
)

// TestVerifyInterrupted: a check that was told to end has no result.
func TestVerifyInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.journal")
	in := exported(t, 10, func(i int) int { return i + 1 })
	if err := (&importRun{path: path, out: io.Discard, notes: io.Discard}).run(t.Context(), []string{in}); err != nil {
		t.Fatal(err)
	}
	v := newVerifyRun(io.Discard, false, verifyShown)
	if err := v.file(t.Context(), path); err != nil || v.failed {
		t.Errorf("a good file: %v, failed %t", err, v.failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.file(ctx, path); err == nil || err.Error() != path+": interrupted" {
		t.Errorf("error %v, want that it was interrupted", err)
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestInputReaderStops: an import that was told to end reads no more, however
// large the input is.
func TestInputReaderStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	put(t, path, "some text")
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var stopped error
	var seen bool
	r := &inputReader{in: in, seen: &seen, stopped: func() error { return stopped }}
	b := make([]byte, 4)
	if n, err := r.Read(b); n != 4 || err != nil || !seen {
		t.Errorf("Read = %d, %v; seen %t", n, err, seen)
	}
	stopped = errors.New("told to")
	if n, err := r.Read(b); n != 0 || !errors.Is(err, stopped) {
		t.Errorf("Read = %d, %v, want 0 and the reason", n, err)
	}
}

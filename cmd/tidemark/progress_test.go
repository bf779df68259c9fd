package main

import (
	"bytes"
	"testing"
	"time"
)

// TestMeter: what is written passes; the line is renewed no more often than it
// should be, and gone in the end.
func TestMeter(t *testing.T) {
	now := time.Unix(1000, 0)
	var screen, out bytes.Buffer
	line := beginProgress(&screen, func() time.Time { return now })
	m := &meter{w: &out, line: line}
	write := func(n int, later time.Duration) {
		now = now.Add(later)
		if k, err := m.Write(make([]byte, n)); k != n || err != nil {
			t.Fatalf("wrote %d of %d: %v", k, n, err)
		}
	}
	write(1024, progressEvery-1)
	if screen.Len() > 0 {
		t.Errorf("shown at once: %q", screen.String())
	}
	write(3*1024, 2*time.Second-(progressEvery-1))
	write(1, progressEvery/2)
	if want := "\r\x1b[K4.0K, 2.0K/s"; screen.String() != want {
		t.Errorf("shown %q, want %q", screen.String(), want)
	}
	screen.Reset()
	line.clear()
	line.clear()
	if want := "\r\x1b[K"; screen.String() != want || out.Len() != 4097 {
		t.Errorf("cleared by %q, want %q; %d bytes passed", screen.String(), want, out.Len())
	}
	// Where there is no terminal there is no line.
	none := &meter{w: &out}
	if _, err := none.Write([]byte("x")); err != nil || out.Len() != 4098 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	none.line.clear()
}

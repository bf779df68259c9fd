package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// verifySample returns the bytes of a file of testdata.
func verifySample(tb testing.TB, name string) []byte {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var r io.Reader
	if filepath.Ext(name) == ".zst" {
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			tb.Fatal(err)
		}
		defer z.Close()
		r = z
	} else if r, err = gzip.NewReader(f); err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func verifyBytes(tb testing.TB, b []byte) VerifyReport {
	tb.Helper()
	r, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "test", VerifyOptions{})
	if err != nil {
		tb.Fatalf("Verify: %v", err)
	}
	return r
}

func TestVerifySamples(t *testing.T) {
	oneGoroutine(t)
	for _, name := range []string{"r-00.journal.gz", "r-01.journal.gz", "r-10.journal.gz", "r-11.journal.gz", "esc.journal.gz", "sealed-system.journal.gz"} {
		t.Run(name, func(t *testing.T) {
			b := verifySample(t, name)
			r := verifyBytes(t, b)
			for _, p := range r.Problems {
				t.Errorf("%v (harmless %v)", p, p.Harmless)
			}
			if !r.OK() || r.Stopped != 0 || r.Size != int64(len(b)) {
				t.Errorf("ok %v, stopped %d, size %d", r.OK(), r.Stopped, r.Size)
			}
			if want := object.U64(b, object.HdrNEntries); r.Entries != want || want == 0 {
				t.Errorf("%d entries, want %d", r.Entries, want)
			}
			if sealed := name == "sealed-system.journal.gz"; r.Sealed != sealed || sealed != (r.Tags > 0) {
				t.Errorf("sealed %v with %d tags", r.Sealed, r.Tags)
			}
		})
	}
}

func TestVerifyHeader(t *testing.T) {
	oneGoroutine(t)
	good := verifySample(t, "r-11.journal.gz")
	for _, tc := range []struct {
		name   string
		change func(b []byte) []byte
		want   error
		off    uint64
	}{
		{"empty", func([]byte) []byte { return nil }, ErrTruncated, 0},
		{"short", func(b []byte) []byte { return b[:207] }, ErrTruncated, 0},
		{"another file", func(b []byte) []byte { b[3] = 'x'; return b }, ErrNotJournal, 0},
		{"unknown flag", func(b []byte) []byte { b[object.HdrIncompatible] |= 32; return b }, ErrUnsupported, object.HdrIncompatible},
		{"unknown state", func(b []byte) []byte { b[object.HdrState] = 3; return b }, ErrCorrupt, object.HdrState},
		{"small header", func(b []byte) []byte { object.PutU64(b, object.HdrHeaderSize, 200); return b }, ErrCorrupt, object.HdrHeaderSize},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, ErrTruncated, object.HdrArenaSize},
		{"arena overflows", func(b []byte) []byte { object.PutU64(b, object.HdrArenaSize, 1<<64-200); return b }, ErrTruncated, object.HdrArenaSize},
		{"tail beyond", func(b []byte) []byte { object.PutU64(b, object.HdrTailObjectOffset, 1<<40); return b }, ErrTruncated, object.HdrTailObjectOffset},
		{"odd offset", func(b []byte) []byte { b[object.HdrEntryArrayOffset]++; return b }, ErrCorrupt, object.HdrEntryArrayOffset},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := tc.change(bytes.Clone(good))
			_, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "x.journal", VerifyOptions{})
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, tc.want) || fe.Offset != tc.off || fe.Path != "x.journal" {
				t.Errorf("got %v; want %v at %x", err, tc.want, tc.off)
			}
		})
	}
}

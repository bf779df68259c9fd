package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/journal/internal/object"
)

func zstdFile(t testing.TB, path string, parts ...[]byte) {
	t.Helper()
	f, err := os.Create(path)
	readerMust(t, err)
	z, err := zstd.NewWriter(f)
	readerMust(t, err)
	for _, b := range parts {
		_, err := z.Write(b)
		readerMust(t, err)
	}
	readerMust(t, errors.Join(z.Close(), f.Close()))
}

// A file that was compressed whole is read, mapped or not, and rescued, and leaves
// nothing in the temporary directory.
func TestFilesCompressedWhole(t *testing.T) {
	oneGoroutine(t)
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	path := filepath.Join(dir, "system.journal.zst")
	zstdFile(t, path, sampleBytes(t, "r-11"))
	want := export(t, openSample(t, ReadOptions{}, sample(t, "r-11")), down)
	for mode, o := range readModes {
		j := openSample(t, o, path)
		if got := export(t, j, down); got != want || len(j.Warnings()) > 0 {
			t.Errorf("%s: %d bytes, want %d, %v", mode, len(got), len(want), j.Warnings())
		}
		st, err := os.Stat(path)
		readerMust(t, err)
		if f := j.Files()[0]; f.DiskUsage() != blocksOf(st) || f.Name() != path {
			t.Errorf("%s takes %d bytes, want %d", f.Name(), f.DiskUsage(), blocksOf(st))
		}
		readerMust(t, j.Add(path))
		if n := len(j.Files()); n != 1 {
			t.Errorf("opened twice: %d files", n)
		}
	}
	rep, err := Rescue(t.Context(), path, filepath.Join(dir, "good.journal"), RescueOptions{})
	if err != nil || rep.Entries != 1000 {
		t.Errorf("%+v, %v", rep, err)
	}
	if left := names(t, temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A compressed file that is cut short is read as far as it goes; one that is no
// journal, or nothing at all, is an error of this package.
func TestCompressedFilesThatAreCut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.journal.zst")
	zstdFile(t, path, sampleBytes(t, "r-11"))
	whole := fileBytes(t, path)
	readerMust(t, os.WriteFile(path, whole[:len(whole)*2/3], 0o600))
	j := openSample(t, ReadOptions{}, path)
	n := 0
	for _, err := range j.All() {
		readerMust(t, err)
		n++
	}
	if n < 100 || n >= 1000 || len(j.Warnings()) == 0 {
		t.Errorf("%d entries, %v", n, j.Warnings())
	}
	for _, b := range [][]byte{whole[:4], whole[:20], append(bytes.Clone(whole[:8]), 1, 2, 3, 4, 5)} {
		readerMust(t, os.WriteFile(path, b, 0o600))
		_, err := OpenFile(path)
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	zstdFile(t, path, bytes.Repeat([]byte("no journal "), 1000))
	if _, err := OpenFile(path); !errors.Is(err, ErrNotJournal) {
		t.Error(err)
	}
	// That is told by what comes first: it is not unpacked.
	size, broken, err := unpackInto(nil, io.MultiReader(strings.NewReader("no journal"), endless{}))
	if size != 0 || !errors.Is(broken, errNotPacked) || err != nil {
		t.Error(size, broken, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// What a few KiB become is bounded by what the journal's header counts, and takes
// neither memory nor, where it is zero, space.
func TestCompressedBombs(t *testing.T) {
	oneGoroutine(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	path := filepath.Join(t.TempDir(), "bomb.journal.zst")
	b := vSmall(t, Flavour{}).b
	zeros := make([]byte, 1<<20)
	parts := [][]byte{b}
	for range 100 {
		parts = append(parts, zeros)
	}
	zstdFile(t, path, parts...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := OpenFile(path)
	readerMust(t, err)
	defer f.Close()
	if st, err := f.r.(*os.File).Stat(); err != nil || st.Size() != int64(len(b)) {
		t.Errorf("%d bytes, want %d, %v", st.Size(), len(b), err)
	}
	object.PutU64(b, object.HdrArenaSize, 80<<20)
	zstdFile(t, path, parts...)
	g, err := OpenFile(path)
	readerMust(t, err)
	defer g.Close()
	st, err := g.r.(*os.File).Stat()
	readerMust(t, err)
	if st.Size() != 80<<20+int64(object.U64(b, object.HdrHeaderSize)) || blocksOf(st) > 2<<20 {
		t.Errorf("%d bytes, of which %d on disk", st.Size(), blocksOf(st))
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

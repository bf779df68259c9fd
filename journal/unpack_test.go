package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-log/tidemark/entry"
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
	size, broken, err := unpackInto(nil, io.MultiReader(strings.NewReader("no journal"), endless{}), maxUnpacked)
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

// A compressed journal that fills the temporary directory is refused as soon as that
// is known: with its header when that says so, else before the room is used up.
func TestCompressedFilesWithoutRoom(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	readerMust(t, err)
	defer out.Close()
	b := bytes.Clone(vSmall(t, Flavour{}).b[:object.HeaderSize254])
	h := decodeHeader(b)
	const room = 8 << 20
	for name, c := range map[string]struct {
		arena, tail, table uint64
		want               error
		most               int64
	}{
		"said":         {1 << 30, 512 << 20, h.DataHashTableSize, syscall.ENOSPC, 0},
		"not said":     {1 << 30, 4 << 20, h.DataHashTableSize, syscall.ENOSPC, room},
		"4 GiB":        {4 << 30, 4 << 20, h.DataHashTableSize, errPackedSizes, 0},
		"overflow":     {1<<64 - 64, 4 << 20, h.DataHashTableSize, errPackedSizes, 0},
		"last object":  {2 << 20, 4 << 20, h.DataHashTableSize, errPackedSizes, 0},
		"large tables": {1 << 30, 512 << 20, 2 << 30, errPackedSizes, 0},
	} {
		t.Run(name, func(t *testing.T) {
			readerMust(t, out.Truncate(0))
			object.PutU64(b, object.HdrArenaSize, c.arena)
			object.PutU64(b, object.HdrTailObjectOffset, c.tail)
			object.PutU64(b, object.HdrDataHashTableSize, c.table)
			noise := io.MultiReader(bytes.NewReader(b), filled{})
			_, broken, err := unpackInto(out, noise, room)
			if !errors.Is(errors.Join(broken, err), c.want) {
				t.Errorf("%v, %v; want %v", broken, err, c.want)
			}
			if st, err := out.Stat(); err != nil || st.Size() > c.most {
				t.Errorf("%d bytes written, %v", st.Size(), err)
			}
		})
	}
}

type filled struct{}

func (filled) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What is decompressed in vain counts: a scan's budget and the bound of an entry pay
// for it.
func TestFailedDecompressionsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.journal")
	w := create(t, path, Options{MaxSize: MinMaxSize})
	const size = 100_000
	e := wFields("BIG=" + strings.Repeat("all the same ", size)[:size-4])
	_, _, err := w.Append(t.Context(), []entry.Entry{e})
	readerMust(t, errors.Join(err, w.Close()))
	b := fileBytes(t, path)
	off := uint64(0)
	openSample(t, ReadOptions{}, path).Files()[0].walkObjects(func(at uint64, _ object.Type) {
		if b[at+object.ObjFlags] == object.CompressedZSTD {
			off = at
			b[at+object.U64(b, int(at)+object.ObjSize)-1] ^= 0xff
		}
	})
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "damaged")
	readerMust(t, err)
	s := f.newWalk()
	before := s.budget
	if s.soundData(f, off) || before-s.budget != size {
		t.Errorf("object %x took %d of the budget, want %d", off, before-s.budget, size)
	}
	var fs fields
	f.readField(off, &fs, nil, nil)
	if fs.bad != 1 || fs.total != size {
		t.Errorf("%d fields bad, %d bytes of the entry; want 1, %d", fs.bad, fs.total, size)
	}
	// One that is refused before has cost nothing.
	b[off+object.ObjFlags] = object.CompressedXZ
	f.forget()
	f.readField(off, &fs, nil, nil)
	if fs.bad != 2 || fs.total != size {
		t.Errorf("%d fields bad, %d bytes of the entry; want 2, %d", fs.bad, fs.total, size)
	}
}

package journal

import (
	"math/rand/v2"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/settle"
)

// On a disk that has no space for a whole step the file grows by what it needs.
func TestGrowsByWhatThereIs(t *testing.T) {
	mem := crashfs.New(1)
	_ = mem.MkdirAll("/d", 0o755)
	w, err := Create(wCrashPath, Options{FS: mem, MaxSize: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	have := w.Stats().Allocated
	mem.SetSpace(2 << 20)
	n := 0
	r := rand.New(rand.NewPCG(1, 2))
	for ; w.Stats().Allocated < have+1<<20; n++ {
		b := make([]byte, 40_000) // does not compress
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		e := wFields("A=1", "B="+string(b))
		pos, _, err := w.TryAppend([]entry.Entry{e})
		if err == nil {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatalf("entry %d, %d bytes allocated: %v", n, w.Stats().Allocated, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(wEntriesOf(t, mem.Bytes(wCrashPath))); got != n {
		t.Errorf("%d entries, want %d", got, n)
	}
	wVerifyBytes(t, mem.Bytes(wCrashPath))
}

// A file that has grown ahead says so only when it must: a reader looks at the
// size first and at the header a moment later.
func TestHeaderTellsOfSpaceLate(t *testing.T) {
	w, mem := wMemWriter(t, Options{MaxSize: 64 << 20})
	told := func() int {
		h := decodeHeader(mem.Bytes(wCrashPath))
		return int(h.HeaderSize + h.ArenaSize)
	}
	add := func(fields ...string) {
		t.Helper()
		pos, _, err := w.TryAppend([]entry.Entry{wFields(fields...)})
		if err == nil {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := told()
	add("A=1")
	if err := w.growTo(uint64(first)+1, true); err != nil {
		t.Fatal(err)
	}
	add("A=1")
	if size := len(mem.Bytes(wCrashPath)); told() != first || size <= first {
		t.Errorf("the header tells of %d bytes, of %d before, the file has %d", told(), first, size)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for w.Stats().Bytes <= uint64(first) {
		b := make([]byte, 200_000) // does not compress
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		add("B=" + string(b))
	}
	if size := len(mem.Bytes(wCrashPath)); told() != size {
		t.Errorf("the header tells of %d bytes, the file has %d", told(), size)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wVerifyBytes(t, mem.Bytes(wCrashPath))
}

// At every moment of a growing file the last object lies in the space that the
// header tells of, and that in the file: journalctl opens no other.
func TestGrowingFileCanBeOpened(t *testing.T) {
	mem := crashfs.New(1)
	_ = mem.MkdirAll("/d", 0o755)
	begun, writes := false, 0
	fs := &watchFS{mem, func() {
		if !begun {
			return
		}
		writes++
		b := mem.Bytes(wCrashPath)
		h := decodeHeader(b)
		if told := h.HeaderSize + h.ArenaSize; h.TailObjectOffset >= told || told > uint64(len(b)) {
			t.Errorf("write %d: the last object is at %d, %d bytes are told of, the file has %d", writes, h.TailObjectOffset, told, len(b))
		}
	}}
	w, err := Create(wCrashPath, Options{FS: fs, MaxSize: 32 << 20, Index: -1})
	if err != nil {
		t.Fatal(err)
	}
	begun = true
	r := rand.New(rand.NewPCG(1, 2))
	for first := w.Stats().Allocated; w.Stats().Allocated < first+8<<20; {
		b := make([]byte, 1_000_000) // does not compress
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		pos, _, err := w.TryAppend([]entry.Entry{wFields("A=1", "B="+string(b))})
		if err == nil {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

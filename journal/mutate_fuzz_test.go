package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// mutateBases are real files of every flavour, header and compression.
func mutateBases(t testing.TB) []*corpusFile {
	t.Helper()
	var out []*corpusFile
	for _, name := range append(sampleNames[:len(sampleNames):len(sampleNames)], "foreign") {
		out = append(out, newCorpusFile(name, sampleBytes(t, name)))
	}
	for _, h := range history {
		out = append(out, newCorpusFile(h.from+" "+h.String(), h.do(t, sampleBytes(t, h.from))))
	}
	return out
}

// mutate changes a copy of f: each six bytes choose what to do, an object or the
// header, a place in it, and with what.
func (f *corpusFile) mutate(edits []byte) []byte {
	b := bytes.Clone(f.b)
	object64 := func(n uint16) uint64 {
		if i := int(n) % (len(f.objs) + 1); i > 0 {
			return f.objs[i-1]
		}
		return 0
	}
	for ; len(edits) >= 6; edits = edits[6:] {
		n, v := binary.LittleEndian.Uint16(edits[1:]), binary.LittleEndian.Uint16(edits[4:])
		at := object64(n) + uint64(edits[3])
		word := at &^ 7
		if word+8 > uint64(len(b)) {
			continue
		}
		switch edits[0] % 10 {
		case 0, 1:
			b[at] ^= byte(v)
		case 2: // another object, or the header
			object.PutU64(b, int(word), object64(v))
		case 3: // itself
			object.PutU64(b, int(word), object64(n))
		case 4:
			object.PutU64(b, int(word), uint64(v))
		case 5:
			object.PutU64(b, int(word), 1<<(v%64))
		case 6:
			object.PutU64(b, int(word), uint64(len(b))-uint64(v%256))
		case 7:
			clear(b[at:min(at+uint64(v), uint64(len(b)))])
		case 8:
			from := min(object64(v), uint64(len(b)))
			copy(b[word:], b[from:min(from+256, uint64(len(b)))])
		case 9:
			if edits[0] >= 200 {
				b = b[:at]
			}
		}
	}
	return b
}

// FuzzMutatedFiles changes real files of every flavour: readers and Verify come to
// an end without a panic, with errors of this package, and in memory that the file's
// size bounds, whatever it claims. What Verify passes is read whole and without a
// warning.
func FuzzMutatedFiles(f *testing.F) {
	oneGoroutine(f)
	bases := mutateBases(f)
	for i := 0; i < len(bases); i += inFull(1, 4) {
		f.Add(byte(i), []byte{0, 9, 0, 16, 1, 0})
		f.Add(byte(i), []byte{2, 0, 0, 176, 5, 0, 3, 12, 0, 24, 0, 0})
		f.Add(byte(i), []byte{5, 30, 0, 8, 40, 0, 7, 40, 0, 0, 0, 2})
		f.Add(byte(i), []byte{209, 200, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, base byte, edits []byte) {
		b := bases[int(base)%len(bases)].mutate(edits)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, warnings := readAll(t, b)
		report, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), "x", VerifyOptions{})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("untyped error %v", err)
		}
		if err == nil && report.OK() && (len(warnings) > 0 || uint64(len(got)) != report.Entries) {
			t.Errorf("passes, and %d of %d entries are read: %v", len(got), report.Entries, warnings)
		}
	})
}

// FuzzRescue does the same to files that Rescue is to save: what it writes holds
// what a reader delivers, and passes Verify.
func FuzzRescue(f *testing.F) {
	oneGoroutine(f)
	bases := mutateBases(f)
	for i := 0; i < len(bases); i += 3 {
		f.Add(byte(i), []byte{5, 30, 0, 8, 40, 0, 7, 40, 0, 0, 0, 2})
	}
	f.Fuzz(func(t *testing.T, base byte, edits []byte) {
		b := bases[int(base)%len(bases)].mutate(edits)
		mem := crashfs.New(1)
		w, err := mem.OpenFile("/bad.journal", os.O_RDWR|os.O_CREATE, 0o600)
		readerMust(t, err)
		_, err = w.WriteAt(b, 0)
		readerMust(t, err)
		rep, err := Rescue(context.Background(), "/bad.journal", "/good.journal", RescueOptions{FS: mem})
		var format *FormatError
		switch {
		case err == nil:
		case errors.Is(err, ErrNothingSaved) || errors.As(err, &format) && format.Path == "/bad.journal":
			return
		default:
			t.Fatal(err)
		}
		saved := 0
		for _, name := range rep.Files {
			entries, warnings := corpusRead(t, mem.Bytes(name), Match{}, down)
			saved += len(entries)
			if len(warnings) > 0 {
				t.Errorf("%s: %v", name, warnings)
			}
		}
		if uint64(saved) != rep.Entries {
			t.Errorf("%d of %d entries are read", saved, rep.Entries)
		}
	})
}

package journal

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs/crashfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// TestWhatAReaderHasSeenStays kills a writer at each of its calls. Entries that
// a reader can find at that moment, by the index or without it, must be there
// after the repair: a follower may have shown them, and their numbers are taken.
// And they must be of the right sequence.
func TestWhatAReaderHasSeenStays(t *testing.T) {
	for n := 1; ; n++ {
		fs := crashfs.New(1)
		stopped := sDie(t, fs, n)
		survivors := fs.Survivors()
		b := survivors.Bytes(wCrashPath)
		if len(b) == 0 {
			continue // it died before there was a file
		}
		seen := sSeen(b)
		if id := decodeHeader(b).SeqnumID; seen > 0 && id != sSequence {
			t.Errorf("killed at call %d: %d entries could be seen, of the sequence %v", n, seen, id)
		}
		if _, err := Repair(wCrashPath, RepairOptions{FS: survivors}); err != nil {
			continue // it died before the tables were there: nothing was seen
		}
		stays := len(wEntriesOf(t, survivors.Bytes(wCrashPath)))
		if stays < seen {
			t.Errorf("killed at call %d: %d entries could be seen, %d are there after the repair", n, seen, stays)
		}
		if !stopped {
			if stays != 12 {
				t.Errorf("%d entries at the end, want 12", stays)
			}
			return
		}
	}
}

// sSequence is the sequence of the file, adopted after its creation.
var sSequence = entry.ID{9}

// sDie appends a few entries, each write with its index, and dies at call n. It
// returns false when it has lived longer.
func sDie(t *testing.T, fs *crashfs.FS, n int) bool {
	t.Helper()
	fs.StopAt(n)
	_ = fs.MkdirAll("/d", 0o755) // may fail from here on
	w, err := Create(wCrashPath, Options{FS: fs, MaxSize: MinMaxSize, Index: -1})
	if err != nil {
		return true
	}
	w.Adopt(sSequence, 100)
	for i := range 4 {
		var batch []entry.Entry
		for k := 3 * i; k < 3*i+3; k++ {
			e := entry.Entry{Fields: []entry.Field{entry.Field("A=constant"), entry.Field("N=" + strconv.Itoa(k))}}
			for j := range 8 {
				e.Fields = append(e.Fields, entry.Field(fmt.Sprintf("B%d=%d", j, k%3)))
			}
			e.Fields = append(e.Fields, entry.Field("M="+strconv.Itoa(k%(i+2)))) // a new value in each batch
			batch = append(batch, e)
		}
		pos, _, err := w.TryAppend(batch)
		if err == nil {
			err = w.Wait(t.Context(), pos, settle.Appended)
		}
		if err != nil {
			_ = w.Close() // dead
			return true
		}
	}
	return w.Close() != nil
}

// sSeen is how many entries a reader finds in a file: by the header, or by a
// match, which goes by the count of the DATA object.
func sSeen(b []byte) int {
	if len(b) < object.HeaderSize252 || object.U64(b, object.HdrTailObjectOffset) == 0 {
		return 0
	}
	seen := object.U64(b, object.HdrNEntries)
	if p := vParse(b).data["A=constant"]; p != 0 {
		seen = max(seen, object.U64(b, p+object.DataNEntries))
	}
	return int(seen)
}

// TestValuesOfAFieldShowTogether looks at a file between all calls of its
// writer as a reader does that matches several values of one field: but for the
// moment when the counts of these very values are written, one after another, it
// finds every entry up to the last that it finds. No object has half of a first
// entry, for which journalctl drops the file.
func TestValuesOfAFieldShowTogether(t *testing.T) {
	const values = 5
	inconsistent, shown := 0, 0
	for n := 1; ; n++ {
		fs := crashfs.New(1)
		stopped := sDie(t, fs, n)
		b := fs.Survivors().Bytes(wCrashPath)
		if sSeen(b) > 0 {
			gaps, last := sGaps(t, b, values)
			shown = max(shown, last)
			if !gaps {
				inconsistent = 0
			} else if inconsistent++; inconsistent >= values {
				t.Errorf("call %d: an entry is passed over since %d calls", n, inconsistent)
			}
		}
		if !stopped {
			break
		}
	}
	if inconsistent > 0 || shown != 12 {
		t.Errorf("at the end %d entries are shown, gaps since %d calls", shown, inconsistent)
	}
}

// sGaps matches the values of M, and reports whether one is found and not all
// those before it, and the number of the last that is found.
func sGaps(t *testing.T, b []byte, values int) (gaps bool, last int) {
	t.Helper()
	f, err := NewFile(bytes.NewReader(b), func() int64 { return int64(len(b)) }, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint64]bool)
	for m := range values {
		off, err := f.findInTable(object.Data, f.hdr.DataHashTableOffset, f.hdr.DataHashTableSize, []byte("M="+strconv.Itoa(m)))
		if err != nil {
			t.Fatal(err)
		}
		if off == 0 {
			continue
		}
		first, n := object.U64(b, int(off)+object.DataEntry), object.U64(b, int(off)+object.DataNEntries)
		if first == 0 != (n == 0) {
			t.Errorf("M=%d: first entry %#x, but %d entries", m, first, n)
		}
		c := chain{inline: first, first: object.U64(b, int(off)+object.DataEntryArray)}
		for i := range n {
			at, err := c.slot(f, i)
			if err != nil {
				t.Fatal(err)
			}
			found[at] = true
			last = max(last, int(object.U64(b, int(at)+object.EntrySeqnum))-100)
		}
	}
	return len(found) != last, last
}

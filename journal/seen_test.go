package journal

import (
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
			batch = append(batch, entry.Entry{Fields: []entry.Field{
				entry.Field("A=constant"), entry.Field("N=" + strconv.Itoa(k)), entry.Field("M=" + strconv.Itoa(k%3)),
			}})
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

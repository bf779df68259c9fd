package query

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tidemark-log/tidemark/internal/config"
	"github.com/tidemark-log/tidemark/journal"
)

// The size and the limits of journald 252, which decide about rotation.
const (
	ownHeaderSize = 264
	chainDepth    = 100
)

// DiskUsage returns the bytes that the files of j occupy.
func DiskUsage(j *journal.Journal) (uint64, error) {
	var sum uint64
	for _, f := range j.Files() {
		info, err := os.Stat(f.Name())
		if err != nil {
			return 0, err
		}
		sum += occupied(info)
	}
	return sum, nil
}

// Headers prints the headers of all files, times in loc (--header).
func Headers(w *bufio.Writer, j *journal.Journal, loc *time.Location) error {
	for i, f := range j.Files() {
		if i > 0 {
			if err := w.WriteByte('\n'); err != nil {
				return err
			}
		}
		h := f.Header()
		if _, err := w.WriteString(describe(f.Name(), &h, loc)); err != nil {
			return err
		}
		if info, err := os.Stat(f.Name()); err == nil {
			if _, err := fmt.Fprintf(w, "Disk usage: %s\n", config.AppendBytes(nil, occupied(info))); err != nil {
				return err
			}
		}
	}
	return nil
}

// flagNames are what --header calls the bits of a flag word, in its order.
type flagNames []struct {
	bit  uint32
	name string
}

var (
	compatibleNames   = flagNames{{1, " SEALED"}}
	incompatibleNames = flagNames{
		{1, " COMPRESSED-XZ"}, {2, " COMPRESSED-LZ4"}, {8, " COMPRESSED-ZSTD"}, {4, " KEYED-HASH"}, {16, " COMPACT"},
	}
)

func (names flagNames) describe(flags uint32) string {
	var b strings.Builder
	for _, n := range names {
		if flags&n.bit != 0 {
			b.WriteString(n.name)
		}
		flags &^= n.bit
	}
	if flags != 0 {
		b.WriteString(" ???")
	}
	return b.String()
}

func describe(path string, h *journal.Header, loc *time.Location) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("File path: %s", path)
	line("File ID: %s", h.FileID)
	line("Machine ID: %s", h.MachineID)
	line("Boot ID: %s", h.TailEntryBootID)
	line("Sequential number ID: %s", h.SeqnumID)
	line("State: %s", h.State)
	line("Compatible flags:%s", compatibleNames.describe(h.CompatibleFlags))
	line("Incompatible flags:%s", incompatibleNames.describe(h.IncompatibleFlags))
	line("Header size: %d", h.HeaderSize)
	line("Arena size: %d", h.ArenaSize)
	line("Data hash table size: %d", h.DataBuckets())
	line("Field hash table size: %d", h.FieldBuckets())
	line("Rotate suggested: %s", yesNo(rotateSuggested(h)))
	line("Head sequential number: %d (%x)", h.HeadEntrySeqnum, h.HeadEntrySeqnum)
	line("Tail sequential number: %d (%x)", h.TailEntrySeqnum, h.TailEntrySeqnum)
	line("Head realtime timestamp: %s (%x)", timeOrNull(h.HeadEntryRealtime, loc), h.HeadEntryRealtime)
	line("Tail realtime timestamp: %s (%x)", timeOrNull(h.TailEntryRealtime, loc), h.TailEntryRealtime)
	line("Tail monotonic timestamp: %s (%x)", FormatSpan(h.TailEntryMonotonic), h.TailEntryMonotonic)
	line("Objects: %d", h.NObjects)
	line("Entry objects: %d", h.NEntries)
	for _, c := range []struct {
		has     journal.HeaderField
		name    string
		n       uint64
		buckets uint64
	}{
		{journal.HasNData, "Data", h.NData, h.DataBuckets()},
		{journal.HasNFields, "Field", h.NFields, h.FieldBuckets()},
	} {
		if h.Has(c.has) {
			line("%s objects: %d", c.name, c.n)
			line("%s hash table fill: %.1f%%", c.name, 100*float64(c.n)/float64(c.buckets))
		}
	}
	for _, c := range []struct {
		has  journal.HeaderField
		name string
		n    uint64
	}{
		{journal.HasNTags, "Tag objects", h.NTags},
		{journal.HasNEntryArrays, "Entry array objects", h.NEntryArrays},
		{journal.HasFieldDepth, "Deepest field hash chain", h.FieldHashChainDepth},
		{journal.HasDataDepth, "Deepest data hash chain", h.DataHashChainDepth},
	} {
		if h.Has(c.has) {
			line("%s: %d", c.name, c.n)
		}
	}
	return b.String()
}

// rotateSuggested reports whether journald would begin a new file instead of
// going on with this one.
func rotateSuggested(h *journal.Header) bool {
	return h.HeaderSize < ownHeaderSize ||
		h.Has(journal.HasNData) && h.NData*4 > h.DataBuckets()*3 ||
		h.Has(journal.HasNFields) && h.NFields*4 > h.FieldBuckets()*3 ||
		h.DataHashChainDepth > chainDepth || h.FieldHashChainDepth > chainDepth ||
		h.Has(journal.HasNFields) && h.NData > 0 && h.NFields == 0
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// timeOrNull is what journalctl prints for a time that may not be there.
func timeOrNull(usec uint64, loc *time.Location) string {
	if usec == 0 {
		return "n/a"
	}
	return FormatTime(usec, loc)
}

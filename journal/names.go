package journal

import (
	"fmt"

	"github.com/tidemark-log/tidemark/entry"
)

// ArchiveName is the name journald gives to a file that it has rotated:
// base@SEQNUMID-HEADSEQNUM-HEADREALTIME.journal, where base is for example
// "system". Readers and vacuum sort by it.
func ArchiveName(base string, seqnumID entry.ID, headSeqnum, headRealtime uint64) string {
	return fmt.Sprintf("%s@%s-%016x-%016x.journal", base, seqnumID, headSeqnum, headRealtime)
}

// DisposedName is the name journald gives to a file that was not closed
// cleanly, or is damaged, and so is not continued: base@NOW-RANDOM.journal~,
// now in µs. Readers open it, writers do not.
func DisposedName(base string, now, random uint64) string {
	return fmt.Sprintf("%s@%016x-%016x.journal~", base, now, random)
}

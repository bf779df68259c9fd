package journal

import (
	"io/fs"
	"time"

	"github.com/tidemark-log/tidemark/entry"
	"github.com/tidemark-log/tidemark/internal/vfs"
	"github.com/tidemark-log/tidemark/journal/internal/object"
	"github.com/tidemark-log/tidemark/settle"
)

// Defaults of Options, for members that are zero.
const (
	// DefaultMaxSize is the size at which a file is full, in bytes.
	DefaultMaxSize = object.DefaultMaxSize
	// DefaultIndexWindow is how long matches of other processes may lag behind
	// under load; it is journald's notify window.
	DefaultIndexWindow = 250 * time.Millisecond
	// DefaultBuffer bounds what is accepted and not yet written, in bytes.
	DefaultBuffer = 64 << 20
	// DefaultPerm is the mode of a new file.
	DefaultPerm fs.FileMode = 0o640
)

// Limits of Options.MaxSize, in bytes.
const (
	// MinMaxSize is journald's smallest limit.
	MinMaxSize = 512 << 10
	// maxFileSize is the largest file in whole pages: offsets in a compact file,
	// and tail_entry_array_offset in the header of any, have 32 bits.
	maxFileSize = object.CompactMaxSize &^ (pageSize - 1)

	pageSize = 4096
)

// Options are what a Writer needs to know. The zero value is useful: a file as
// journald 252 creates it, of no machine and no boot, synced on demand.
type Options struct {
	// FS holds the file; nil means the machine's. Its type is internal on
	// purpose: tidemark's own fault tests set it.
	FS vfs.FS
	// Flavour of a new file. OpenWriter takes what the file has.
	Flavour Flavour
	// MachineID is written to a new file. OpenWriter refuses a file of another one.
	MachineID entry.ID
	// BootID is given to entries whose time the writer takes.
	BootID entry.ID
	// MaxSize is the size in bytes at which the file is full. It also decides
	// the number of hash buckets of a new file. 0 means DefaultMaxSize; less
	// than MinMaxSize means that; no file reaches 4 GiB.
	MaxSize uint64
	// Order is shared with files that are written at the same time and read as
	// one sequence. nil: the file stands for itself.
	Order *Order
	// SyncLater leaves the syncs of Create, OpenWriter and Rename to later: creating,
	// opening and naming a file wait for no sync. Secure makes them up, else the first sync of what is
	// appended; the file is synced, and so is the name it has then, before any
	// entry counts as synced. Until then a power cut may leave the file without a
	// header, under its old name, or not at all. Renaming is for its directory only.
	SyncLater bool
	// KeepNumbers is for copies of entries of another file, into a file of the same
	// sequence (SeqnumID): they keep their Seqnum, which must grow, and XorHash, and
	// bring their times. Readers then show entry and copy once.
	KeepNumbers bool
	// TightArrays has the arrays of a list of more than a thousand entries grow by half of
	// it, where journald's have room for twice as many again. With those half of all
	// slots stay empty, a tenth of a file; with these a long list has a few arrays more to
	// be walked. Every reader takes either.
	TightArrays bool
	// Sync says when a sync begins without being asked for. Zero: auto.
	Sync settle.Policy
	// Index is how long links and counters may stay behind the entries at most.
	// They do only when writing them takes more than 2 % of the time. 0 means
	// DefaultIndexWindow; less than 0 means that every write includes them.
	Index time.Duration
	// Buffer bounds the bytes accepted and not yet written, of all files of an
	// Order together. 0 means DefaultBuffer. One entry larger than it is accepted
	// when nothing else is waiting.
	Buffer int64
	// CompressThreshold is the payload size in bytes (NAME=value) from which on
	// compression is tried. 0 means 512; less than 8 means 8, as in journald.
	CompressThreshold int
	// Perm is the mode of a new file. 0 means DefaultPerm.
	Perm fs.FileMode
	// SeqnumID and Seqnum are the sequence of the predecessor and its last
	// number, which a new file goes on from. Zero: a sequence of its own.
	SeqnumID entry.ID
	Seqnum   uint64
	// Clock returns CLOCK_REALTIME and CLOCK_MONOTONIC in µs. It is called with
	// the append lock held. nil means the machine's clocks.
	Clock func() (realtime, monotonic uint64)
	// OnWrite is called after each successful write, for followers in this
	// process. It must not block and must not call the writer.
	OnWrite func()
	// Observe is called after each effect ("write", "index", "sync") with its
	// duration, the position it covered (0 with an error) and its error. It is
	// called by who ran the effect, also a waiter; those of different effects may
	// come at the same time. It must be quick and must not wait for the writer.
	Observe func(effect string, d time.Duration, covered uint64, err error)
}

// withDefaults fills in what is zero and brings the rest into range.
func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	o.MaxSize = (max(o.MaxSize, MinMaxSize) + pageSize - 1) &^ (pageSize - 1)
	o.MaxSize = min(o.MaxSize, maxFileSize)
	if o.Index == 0 {
		o.Index = DefaultIndexWindow
	}
	if o.Buffer <= 0 {
		o.Buffer = DefaultBuffer
	}
	if o.CompressThreshold == 0 {
		o.CompressThreshold = object.CompressThreshold
	}
	o.CompressThreshold = max(o.CompressThreshold, 8)
	if o.Perm == 0 {
		o.Perm = DefaultPerm
	}
	if o.Clock == nil {
		o.Clock = systemClock()
	}
	return o
}

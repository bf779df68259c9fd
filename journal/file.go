package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tidemark-log/tidemark/journal/internal/blob"
	"github.com/tidemark-log/tidemark/journal/internal/object"
)

// ReadOptions say how files are read. The zero value suits a process that
// serves others.
type ReadOptions struct {
	// Map reads through mappings of the files instead of pread. It is faster,
	// but a page that is not in memory stops the whole Go process until it is
	// there: for command-line tools. A file that shrinks while it is mapped gives
	// an error, not SIGBUS. Where files cannot be mapped, pread is used.
	Map bool
	// Scan evaluates matches on the newest entries of a file that has a writer,
	// those of its last minute, by reading each instead of looking into the
	// file's index. So they are seen also when their writer has not yet linked
	// them, and what did not match is not looked at again. Without it that is done
	// only while the header says, as tidemark's does, that links are missing. For
	// followers.
	Scan bool
	// Late has OpenDir leave archives closed that are named as ArchiveName does,
	// until going back with Previous gets to them, or going on from SeekRealtime with
	// Next: their order is that of the names, which are not believed where a header
	// says otherwise. Whatever else wants all files opens them, other calls of Next
	// too, unless it only returns to what Previous came from. Files, Skipped and
	// Warnings tell of those that are open. For a few entries of a large directory.
	Late bool
	// Want tells which of the files in a directory OpenDir opens. Nil: all.
	Want func(path string) bool

	now func() time.Time // nil: time.Now
}

// File is one journal file, open for reading. A live file may be read at any
// time: the reader sees the entries that the header counted at the last
// Refresh. A File is not safe for concurrent use.
type File struct {
	access
	name   string
	closer io.Closer
	packed int64        // bytes on disk of a file that was unpacked; 0: it was not
	id     fileIdentity // of OpenFile; zero for NewFile
	hdr    Header
	dec    *blob.Decoder
	cache  *dataCache // nil: none
	tag    uint64     // of this file in cache
	mapped bool       // opened with Map: whatever reads it is guarded
	// lent counts the Readers that read through the mapping; retired are mappings
	// that took the place of others meanwhile.
	lent    int
	retired [][]byte
	// scratch is for a payload that is looked at and not kept.
	scratch []byte
	// others are DATA objects that a Reader has seen to be none of those it looks for.
	others offsetSet
	list   listed // of those that it looks for

	main     chain
	n        uint64   // entries in main that exist, as of the last Refresh
	pending  bool     // the last of them is held back until it is linked
	salvaged *salvage // replaces main when that is broken; else nil
	torn     error    // what is known to be damaged before anything is read
	// renumbered counts how often entries got new numbers.
	renumbered int
	generation int // counts Refreshes, from 1

	unread    uint64 // entries of which no field could be read
	badFields uint64 // fields of other entries that could not be read

	warnings []error // first maxWarnings
	nWarn    int
}

// maxWarnings bounds the warnings kept per file; the rest is counted.
const maxWarnings = 16

// OpenFile opens a journal file for reading by pread. It fails with a
// *FormatError when the file is no journal, or has features this package does
// not know. Damage further inside does not fail it: what is intact is
// delivered, the rest is told by Warnings. A file that was compressed whole, as
// system.journal.zst, is read as Unpack makes it.
func OpenFile(path string) (*File, error) { return ReadOptions{}.OpenFile(path) }

// OpenFile is OpenFile with options.
func (o ReadOptions) OpenFile(path string) (*File, error) {
	osf, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	f, err := o.fileOf(osf, path)
	if err != nil {
		_ = osf.Close() // it may be closed already
		return nil, err
	}
	return f, nil
}

func (o ReadOptions) fileOf(osf *os.File, path string) (*File, error) {
	st, err := osf.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open journal", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := o.readerOf(osf, st, path)
	if err == nil || !errors.Is(err, ErrNotJournal) || !isPacked(osf) {
		return f, err
	}
	out, err := Unpack(osf)
	if err != nil {
		return nil, err
	}
	if f, err = o.readerOf(out, st, path); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	f.packed = blocksOf(st)
	return f, nil
}

// readerOf reads osf, which has the identity of st.
func (o ReadOptions) readerOf(osf *os.File, st fs.FileInfo, path string) (*File, error) {
	size := func() int64 {
		st, err := osf.Stat()
		if err != nil {
			return 0
		}
		return st.Size()
	}
	f := &File{
		access: access{r: osf, size: size},
		name:   path, closer: osf, id: identityOf(st),
	}
	f.mapped, f.lazy = o.Map, o.Map
	if err := f.open(); err != nil {
		f.dropMap()
		return nil, err
	}
	return f, nil
}

// NewFile reads a journal file through r. size returns the current size in
// bytes; name appears in errors. Closing the File does not close r.
func NewFile(r io.ReaderAt, size func() int64, name string) (*File, error) {
	f := &File{access: access{r: r, size: size}, name: name}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	f.dec = &blob.Decoder{}
	var err error
	if f.mapped {
		err = guardFault(f, f.refresh)
	} else {
		err = f.refresh()
	}
	return err
}

func (f *File) useCache(c *dataCache) {
	f.cache, f.tag = nil, 0
	if f.end >= 1<<dataCacheTag {
		return
	}
	if tag := c.newTag(); tag != 0 {
		f.cache, f.tag = c, tag
	}
}

// Close releases the file. Entries already returned stay valid as long as they
// would have been.
func (f *File) Close() error {
	f.dropMap()
	f.release()
	f.cache = nil
	if f.closer == nil {
		return nil
	}
	c := f.closer
	f.closer = nil
	return c.Close()
}

func (f *File) dropMap() {
	if f.m != nil {
		f.unmap(f.m)
		f.m = nil
	}
}

// Name is the path or name the file was opened with.
func (f *File) Name() string { return f.name }

// Header returns the header as of the last Refresh.
func (f *File) Header() Header { return f.hdr }

// Entries is the number of entries that can be read as of the last Refresh.
func (f *File) Entries() uint64 {
	if f.salvaged != nil {
		return uint64(len(f.salvaged.index))
	}
	return f.n
}

// DiskUsage is the space the file takes on disk, in bytes.
func (f *File) DiskUsage() int64 {
	if f.packed > 0 {
		return f.packed
	}
	if osf, ok := f.r.(*os.File); ok {
		if st, err := osf.Stat(); err == nil {
			return blocksOf(st)
		}
	}
	return f.size()
}

// Warnings returns what was found damaged so far, at most 16 errors and one
// that counts the others. All are *FormatError or wrap one.
func (f *File) Warnings() []error {
	out := append([]error(nil), f.warnings...)
	if f.nWarn > len(f.warnings) {
		out = append(out, fmt.Errorf("%w (and %d problems more)", f.warnings[len(f.warnings)-1], f.nWarn-len(f.warnings)))
	}
	return out
}

func (f *File) warn(err error) {
	f.nWarn++
	if len(f.warnings) < maxWarnings {
		f.warnings = append(f.warnings, err)
	}
}

func (f *File) errorf(off uint64, err error, format string, args ...any) error {
	return formatErrorf(f.name, off, err, format, args...)
}

// readFailed turns an error of access.at into one of this package.
func (f *File) readFailed(off uint64, err error) error {
	if errors.Is(err, errBeyond) {
		return f.errorf(off, ErrTruncated, "needs more than the %d bytes there are", f.end)
	}
	return fmt.Errorf("read %s: %w", f.name, err)
}

// Refresh reads the header again, so that entries a writer has appended since
// are seen. It reports whether there may be any.
func (f *File) Refresh() (grown bool, err error) {
	old, oldTail := f.n, f.hdr.TailObjectOffset
	if f.mapped {
		err = guardFault(f, f.refresh)
	} else {
		err = f.refresh()
	}
	if err != nil {
		return false, err
	}
	if f.salvaged != nil && f.hdr.TailObjectOffset != oldTail {
		before := len(f.salvaged.index)
		more := func() error {
			f.salvaged.index = f.salvaged.index[:before]
			f.salvageMore()
			return nil
		}
		if f.mapped {
			err = guardFault(f, more)
		} else {
			err = more()
		}
		return len(f.salvaged.index) > before, err
	}
	return f.n > old, nil
}

func (f *File) refresh() error {
	f.forget()
	var raw [object.HeaderSize254]byte
	h, err := f.readHeader(raw[:])
	if err != nil {
		return err
	}
	f.updateSize()
	if h.HeaderSize+h.ArenaSize > f.end {
		// A writer that archives the file sets arena_size first and truncates
		// then; between the two reads here it may have done both.
		if h, err = f.readHeader(raw[:]); err != nil {
			return err
		}
	}
	if h.TailObjectOffset < f.hdr.TailObjectOffset && f.cache != nil {
		f.useCache(f.cache) // cut and written anew: forget the payloads
	}
	f.hdr = h
	f.generation++
	if f.torn = f.checkHeader(); f.torn != nil && f.moved() {
		// Its writer was in the middle of changing it.
		if f.hdr, err = f.readHeader(raw[:]); err != nil {
			return err
		}
		f.updateSize()
		f.torn = f.checkHeader()
	}
	f.setMain()
	f.countPending()
	return nil
}

// countPending counts the entry that tidemark's writer has listed and holds back
// from the header's count until its index is written: the header names it as
// the last one. Other writers count an entry before they name it. While none is
// held back, all entries are linked.
func (f *File) countPending() {
	h := &f.hdr
	f.pending = false
	if f.torn != nil || h.State != StateOnline || f.main.first == 0 {
		return
	}
	var e entryHead
	off, err := f.main.slot(f, f.n)
	if err != nil || off == 0 || f.readHead(off, &e) != nil {
		return
	}
	if e.seqnum == h.TailEntrySeqnum && e.realtime == h.TailEntryRealtime && e.monotonic == h.TailEntryMonotonic {
		f.n++
		f.pending = true
	}
}

// updateSize takes over the current size of the file and follows it with the
// mapping.
func (f *File) updateSize() {
	size := max(f.size(), 0)
	f.end = uint64(size)
	if f.m == nil || uint64(len(f.m)) == f.end {
		return
	}
	osf, ok := f.r.(*os.File)
	if !ok {
		return
	}
	m, err := mapFile(osf, size)
	f.dropMap()
	if err == nil {
		f.m = m
	}
}

func (f *File) readHeader(raw []byte) (Header, error) {
	n, err := f.r.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Header{}, fmt.Errorf("read %s: %w", f.name, err)
	}
	raw = raw[:n]
	if k := min(n, len(object.Signature)); string(raw[:k]) != object.Signature[:k] {
		return Header{}, f.errorf(0, ErrNotJournal, "signature %q", raw[:k])
	}
	if n < object.HeaderSizeMin {
		return Header{}, f.errorf(0, ErrTruncated, "%d bytes, a header has %d", n, object.HeaderSizeMin)
	}
	h := decodeHeader(raw)
	if unknown := h.IncompatibleFlags &^ object.IncompatibleAll; unknown != 0 {
		return Header{}, f.errorf(object.HdrIncompatible, ErrUnsupported, "incompatible flags %#x", unknown)
	}
	return h, nil
}

// checkHeader says what in the header contradicts itself or the size of the
// file. Such a file is read by scanning it.
func (f *File) checkHeader() error {
	h := &f.hdr
	switch {
	case h.HeaderSize < object.HeaderSizeMin || h.HeaderSize%8 != 0 || h.HeaderSize > f.end:
		return f.errorf(object.HdrHeaderSize, ErrCorrupt, "header size %d", h.HeaderSize)
	case h.ArenaSize > f.end || h.HeaderSize+h.ArenaSize > f.end:
		return f.errorf(object.HdrArenaSize, ErrTruncated, "%d bytes of %d", f.end, h.HeaderSize+h.ArenaSize)
	case h.State > StateArchived:
		return f.errorf(object.HdrState, ErrCorrupt, "state %d", h.State)
	case h.EntryArrayOffset == 0 && h.NEntries > 0:
		return f.errorf(object.HdrEntryArrayOffset, ErrCorrupt, "%d entries without an array", h.NEntries)
	case h.NEntries == 0 && h.HeadEntrySeqnum > 0 && h.NObjects > 2 && h.State != StateOnline:
		return f.errorf(object.HdrNEntries, ErrCorrupt, "no entry counted, but a first one of seqnum %d", h.HeadEntrySeqnum)
	case h.TailObjectOffset >= f.end || h.TailObjectOffset%8 != 0:
		return f.errorf(object.HdrTailObjectOffset, ErrCorrupt, "last object at %d", h.TailObjectOffset)
	case h.TailObjectOffset == 0 && h.State != StateOnline && f.end > h.HeaderSize+object.ObjHdrSize:
		return f.errorf(object.HdrTailObjectOffset, ErrCorrupt, "no last object in a file of %d bytes", f.end)
	}
	return nil
}

// firstObject is the lowest offset an object can have.
func (f *File) firstObject() uint64 {
	if f.hdr.HeaderSize < object.HeaderSizeMin || f.hdr.HeaderSize%8 != 0 || f.hdr.HeaderSize > f.end {
		return object.HeaderSizeMin
	}
	return f.hdr.HeaderSize
}

func (f *File) setMain() {
	if f.main.first != f.hdr.EntryArrayOffset {
		f.main = chain{first: f.hdr.EntryArrayOffset}
	}
	// A count that cannot be true would only make a search long: every entry has
	// a slot of at least 4 bytes.
	f.n = min(f.hdr.NEntries, f.end/object.ArrayItemSizeCompact)
	if f.main.first == 0 {
		f.n = 0
	}
}
